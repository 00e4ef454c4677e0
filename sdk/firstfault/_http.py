"""Posts bytes over HTTP/1.1 with one deadline for everything, whatever the other side does: refuses, drips, stays silent.

Standard library only. The deadline covers connecting, sending and every byte of the answer; only looking up a name cannot be
bounded from inside, so a caller that must not wait runs this in a thread.
"""

import importlib
import io
import math
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from firstfault import _http1

if TYPE_CHECKING:
    import ssl

REPLY_LIMIT = 65536
"""Bytes of an answer that are read; a longer one is cut off."""
_RETRYABLE = (429, 502, 503, 504)
"""Status codes that OTLP/HTTP allows to be tried again."""

Verdict = Literal["accepted", "try_again", "refused", "failed"]
"""`failed`: the service broke down over it (500 …). OTLP forbids to send that again; what must not be lost waits long instead."""


class DeadlinePassed(OSError):
    """The exchange did not end in time."""


@dataclass(frozen=True)
class Reply:
    """How one request went."""

    verdict: Verdict
    reason: str
    """Short and fixed: `ok`, `http_503`, `redirected`, `unreachable`, `timeout`, `garbage`."""
    retry_after_s: float | None = None
    body: bytes = b""


class _DeadlineReader(io.RawIOBase):
    """Reads a socket; each read gets only what is left until the deadline."""

    def __init__(self, sock: socket.socket, remaining: Callable[[], float]) -> None:
        self._sock = sock
        self._remaining = remaining

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._remaining())
        return self._sock.recv_into(buffer)


class _Connection:
    """A connected socket with its reader; every wait gets only what is left until the deadline."""

    def __init__(self, sock: socket.socket, remaining: Callable[[], float]) -> None:
        self._sock = sock
        self._remaining = remaining
        self._stream = io.BufferedReader(_DeadlineReader(sock, remaining))

    def exchange(self, request: bytes) -> _http1.Answer:
        """Send a request and read its answer. Raises OSError and BadAnswer."""
        self._sock.settimeout(self._remaining())
        self._sock.sendall(request)
        return _http1.answer(self._stream, REPLY_LIMIT)

    def close(self) -> None:
        """Drop it."""
        self._sock.close()


class Poster:
    """A kept-alive connection to one server; opened when needed, not shared between threads or over a fork."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        """Raises ValueError for a URL that is not http or https with a host."""
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"not an http or https address: {base_url!r}")
        self._secure = url.scheme == "https"
        self._host, self._port = url.hostname, url.port or (443 if self._secure else 80)
        self._path = url.path.rstrip("/")
        self._headers = dict(headers)
        name = f"[{self._host}]" if ":" in self._host else self._host
        self._authority = name if url.port is None else f"{name}:{url.port}"
        self._connection: _Connection | None = None
        self._tls: ssl.SSLContext | None = None
        self._deadline = 0.0
        if self._secure:
            # Costs megabytes that a plain connection does not need; not in the middle of a request, when another thread may fork.
            importlib.import_module("ssl")

    def post(self, path: str, body: bytes, content_type: str, encoding: str, timeout_s: float) -> Reply:
        """Send once; a kept-alive connection that the server had closed is replaced once."""
        self._deadline = time.monotonic() + timeout_s
        reused = self._connection is not None
        reply = self._exchange(path, body, content_type, encoding)
        if reused and reply.reason in ("unreachable", "garbage"):
            reply = self._exchange(path, body, content_type, encoding)
        return reply

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forget(self) -> None:
        """After a fork: let go of the connection, which belongs to the parent; closing our copy leaves the parent's open."""
        self.close()

    def _exchange(self, path: str, body: bytes, content_type: str, encoding: str) -> Reply:
        headers = {**self._headers, "content-type": content_type, "user-agent": "firstfault"}
        if encoding:
            headers["content-encoding"] = encoding
        try:
            request = _http1.request(self._authority, self._path + path, headers, body)
            connection = self._connection or self._connect()
            answer = connection.exchange(request)
        except (TimeoutError, DeadlinePassed):
            self.close()
            return Reply("try_again", "timeout")
        except OSError:
            self.close()
            return Reply("try_again", "unreachable")
        except ValueError:
            self.close()
            return Reply("try_again", "garbage")
        if not answer.keep:
            self.close()
        return _judge(answer.status, answer.retry_after, answer.body)

    def _connect(self) -> _Connection:
        sock = socket.create_connection((self._host, self._port), timeout=self._remaining())
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._secure:
                sock = self._wrapped(sock)
        except BaseException:
            sock.close()
            raise
        self._connection = _Connection(sock, self._remaining)
        return self._connection

    def _wrapped(self, sock: socket.socket) -> socket.socket:
        import ssl

        self._tls = self._tls or ssl.create_default_context()
        sock.settimeout(self._remaining())
        return self._tls.wrap_socket(sock, server_hostname=self._host)

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlinePassed("deadline passed")
        return remaining


def _judge(status: int, retry_after: str | None, answer: bytes) -> Reply:
    if 200 <= status < 300:
        return Reply("accepted", "ok", body=answer)
    if status in _RETRYABLE:
        return Reply("try_again", f"http_{status}", _seconds(retry_after), answer)
    if status >= 500:
        return Reply("failed", f"http_{status}", body=answer)
    return Reply("refused", "redirected" if 300 <= status < 400 else f"http_{status}", body=answer)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After as seconds or as a date."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
        return min(max(seconds, 0.0), 3600.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        from email.utils import parsedate_to_datetime  # the parser of mail, for an answer that hardly ever comes

        return min(max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0), 3600.0)
    except (TypeError, ValueError, OverflowError):
        return None
