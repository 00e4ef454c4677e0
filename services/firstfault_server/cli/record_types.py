"""Has msgspec meet every record type in one thread.

The first use of a type for reading fills in what msgspec keeps of it; two threads that do so at once end the process (seen with 0.22.0 as a
segmentation fault). So whoever starts threads that read records calls `meet` before.
"""

from collections.abc import Iterator
from contextlib import suppress

import msgspec


def meet() -> None:
    """Every record type that has been imported, with those inside it."""
    for kind in record_types():
        # A type that cannot be read at all is never read by anybody.
        with suppress(TypeError):
            msgspec.msgpack.Decoder(kind)


def record_types(base: type[msgspec.Struct] = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    """Record types of the service that have been imported."""
    for kind in base.__subclasses__():
        if kind.__module__.partition(".")[0] == "firstfault_server":
            yield kind
        yield from record_types(kind)
