"""How much of what senders write freely a run keeps, and so how long an incident and the record of a run can get."""

from typing import Final

import msgspec

from firstfault.stack import clipped
from firstfault_server.core import model

LONGEST_NAME: Final = 256
"""Type of an exception, phase, owner …: what is a word or two."""
LONGEST_PATH: Final = 512
LONGEST_TEXT: Final = 8192
"""Message of an exception, command; the SDK sends no longer message."""
LONGEST_STACK: Final = 65_536
"""As much as the SDK sends."""


def name(text: str, most: int = LONGEST_NAME) -> str:
    """The text, or its beginning with a mark, at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def path(text: str) -> str:
    """The same for a path."""
    return name(text, LONGEST_PATH)


def exception(whole: model.ExceptionInfo) -> model.ExceptionInfo:
    """The exception; of a message and a stack that are too long, beginning and end with a mark between."""
    return msgspec.structs.replace(
        whole,
        type=name(whole.type),
        message=clipped(whole.message, LONGEST_TEXT),
        stacktrace=clipped(whole.stacktrace, LONGEST_STACK),
    )
