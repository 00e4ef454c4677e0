"""Reads Flight Recorder dump files, JSON or pickle; a pickle is decoded without ever importing or calling anything."""

import io
import pickle
import re
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from firstfault_server.core.cause.flight_recorder import FlightDump, dump_of, is_dump
from firstfault_server.offline.files import Unreadable, rank_of_name

LARGEST: Final = 256 << 20
_PROTOCOLS: Final = tuple(bytes((0x80, number)) for number in range(2, 6))
_JSON_HEAD: Final = 4096
_TRAILING: Final = re.compile(r"(\d{1,6})(?:\.(?:json|pkl|pickle))?$")


class _PlainUnpickler(pickle.Unpickler):
    """Numbers, texts, lists, tuples, dicts; anything that needs a class is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the dump asks for {module}.{name}, which no Flight Recorder dump needs")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("the dump refers to objects outside of itself")


def read_dump(path: str) -> FlightDump | None:
    """The dump a file holds; None when it is none. Raises Unreadable for one that cannot be decoded."""
    if path == "-":
        return None
    file = Path(path)
    # What comes out of a pipe can be read once only, and that is for the text.
    if not file.is_file():
        return None
    try:
        with file.open("rb") as handle:
            head = handle.read(_JSON_HEAD)
            if not _may_be(head):
                return None
            raw = head + handle.read(LARGEST)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from error
    if head.startswith(_PROTOCOLS):
        try:
            data = _PlainUnpickler(io.BytesIO(raw)).load()
        except (
            pickle.UnpicklingError,
            ValueError,
            TypeError,
            EOFError,
            IndexError,
            KeyError,
            AttributeError,
            OverflowError,
            MemoryError,
            UnicodeError,
        ) as error:
            raise Unreadable(f"{path}: not a Flight Recorder dump that can be read safely: {error}") from error
    else:
        try:
            data = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    if not is_dump(data):
        return None
    rank = rank_of_name(path)
    if rank is None and (found := _TRAILING.search(file.name)) is not None:
        rank = int(found[1])
    return dump_of(data, path, rank)


def _may_be(head: bytes) -> bool:
    if head.startswith(_PROTOCOLS):
        return True
    return head.lstrip()[:1] == b"{" and (b'"entries"' in head or b'"pg_config"' in head or b'"pg_status"' in head)
