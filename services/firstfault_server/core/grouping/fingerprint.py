"""Fingerprint version 1: the identity of a failure's text (architecture.md, "Same or new").

`stack_hash` is the SHA-256 of the exception type and the in-app frames (module, function), or of the whole stack when no frame
is in-app (`firstfault.stack`); a text without frames has none. `id` is that hash, or without a stack the hash of the
parameterised message.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from firstfault.stack import Frame, stack_hash, whole_stack_hash
from firstfault_server.core import model
from firstfault_server.core.grouping.normalise import parameterised

VERSION: Final = 1


def short_type(exception_type: str) -> str:
    """Class name without its module: `torch.cuda.OutOfMemoryError` and `torch.OutOfMemoryError` are one type.

    `ray.exceptions.RayTaskError(ValueError)` is what it wraps.
    """
    head, _, inner = exception_type.partition("(")
    return (inner.rstrip(")") or head).rsplit(".", 1)[-1]


def fingerprint(exception_type: str, message: str, frames: Sequence[Frame], advice_marks: tuple[str, ...] = ()) -> model.Fingerprint:
    """Version 1 of a failure's identity, with the fallbacks in-app frames → whole stack → parameterised message."""
    stack = stack_hash(exception_type, frames)
    return model.Fingerprint(version=VERSION, id=stack or message_hash(exception_type, message, advice_marks), stack_hash=stack)


def joining_hashes(exception_type: str, frames: Sequence[Frame]) -> tuple[str, ...]:
    """Hashes of which any equal one joins two failures of a symptom: in-app frames, whole stack; empty without frames."""
    return tuple(dict.fromkeys(found for found in (stack_hash(exception_type, frames), whole_stack_hash(exception_type, frames)) if found))


def message_hash(exception_type: str, message: str, advice_marks: tuple[str, ...] = ()) -> str:
    """SHA-256 of the type and the parameterised message."""
    text = f"v{VERSION}\nmessage\n{short_type(exception_type)}\n{parameterised(message, advice_marks)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
