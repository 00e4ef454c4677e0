"""HTTP/1.1 as far as posting needs it: the bytes of a request, and the answer out of a stream. Pure but for reading the stream.

`http.client` brings the parser of mail with it, which costs the sidecar of every training process more memory than all of its own code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

_LINE_LIMIT = 65536
_MOST_HEADERS = 100
_STATUS = re.compile(rb"HTTP/1\.(?P<minor>[01]) (?P<status>[1-5]\d\d)(?: |\r?$)")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ENDS_LINE = re.compile(r"[\x00\r\n]")
_NO_TARGET = re.compile(r"[\x00-\x20\x7f]")
_NO_BODY = (204, 304)


class Stream(Protocol):
    """What an answer is read from; each call blocks until there is as much, a line, or the end."""

    def read(self, size: int, /) -> bytes:
        """Bytes, fewer than asked for only at the end."""

    def readline(self, size: int, /) -> bytes:
        """A line with its end."""


class BadAnswer(ValueError):
    """What came is no HTTP answer."""


@dataclass(frozen=True)
class Answer:
    """One answer; `keep` says whether the connection can be used again."""

    status: int
    retry_after: str | None
    body: bytes
    keep: bool


def request(host: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A POST request. Raises ValueError for a target or header that would break out of its line."""
    if _NO_TARGET.search(target):
        raise ValueError("a path with blanks or control characters")
    lines = [f"POST {target} HTTP/1.1", f"host: {host}", "accept-encoding: identity", f"content-length: {len(body)}"]
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or _ENDS_LINE.search(value):
            raise ValueError(f"no header: {name!r}")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answer(stream: Stream, limit: int) -> Answer:
    """Read one answer; of a longer body `limit` bytes, and the connection is of no use any more. Raises OSError and BadAnswer."""
    status, minor = _status(stream)
    headers = _headers(stream)
    while status < 200:  # an interim answer is none
        status, minor = _status(stream)
        headers = _headers(stream)
    whole, body = _body(stream, status, headers, limit)
    options = headers.get(b"connection", b"").lower()
    keep = whole and (b"close" not in options if minor == b"1" else b"keep-alive" in options)
    retry_after = headers.get(b"retry-after")
    return Answer(status, None if retry_after is None else retry_after.decode("latin-1"), body, keep)


def _status(stream: Stream) -> tuple[int, bytes]:
    first = _line(stream)
    if not first:
        raise ConnectionResetError("closed without an answer")
    found = _STATUS.match(first.rstrip(b"\n"))
    if found is None:
        raise BadAnswer("no status line")
    return int(found["status"]), found["minor"]


def _body(stream: Stream, status: int, headers: Mapping[bytes, bytes], limit: int) -> tuple[bool, bytes]:
    """Whether it was read to its end, and its bytes."""
    if status in _NO_BODY:
        return True, b""
    if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
        return _chunks(stream, limit)
    length = headers.get(b"content-length")
    if length is None:
        return False, stream.read(limit)
    if not length.isdigit() or len(length) > 18:
        raise BadAnswer("no length")
    body = stream.read(min(int(length), limit))
    if len(body) < min(int(length), limit):
        raise BadAnswer("the answer was cut off")
    return int(length) <= limit, body


def _chunks(stream: Stream, limit: int) -> tuple[bool, bytes]:
    body = bytearray()
    while True:
        digits = _line(stream).partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,12}", digits):
            raise BadAnswer("no chunk")
        size = int(digits, 16)
        if size == 0:
            _headers(stream)
            return True, bytes(body)
        if len(body) + size > limit:
            return False, bytes(body) + stream.read(limit - len(body))
        piece = stream.read(size)
        if len(piece) < size or _line(stream).strip():
            raise BadAnswer("a chunk of another size")
        body += piece


def _headers(stream: Stream) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for _ in range(_MOST_HEADERS):
        line = _line(stream)
        if line in (b"\r\n", b"\n"):
            return found
        name, colon, value = line.partition(b":")
        if not colon:
            raise BadAnswer("no header")
        found[name.strip().lower()] = value.strip()
    raise BadAnswer("too many headers")


def _line(stream: Stream) -> bytes:
    line = stream.readline(_LINE_LIMIT + 1)
    if len(line) > _LINE_LIMIT:
        raise BadAnswer("a line without end")
    return line
