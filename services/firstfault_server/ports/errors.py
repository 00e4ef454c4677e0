"""What a store says when it cannot do what it was asked."""


class StoreUnavailable(Exception):
    """A store cannot answer now; the message says which and what to do."""


class StorageFull(StoreUnavailable):
    """No space left for the store; the message names the path and what to free."""


class VersionConflict(Exception):
    """Compare-and-set failed: somebody else wrote first."""


class NotFound(Exception):
    """No such thing for this tenant."""
