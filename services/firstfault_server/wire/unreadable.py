"""The error for bytes that are no OTLP request at all."""


class Unreadable(ValueError):
    """Nothing in the body can be used; the message is the reason, fit for the sender."""
