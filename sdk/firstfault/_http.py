"""Posts bytes over HTTP/1.1 with one deadline for everything, whatever the other side does: refuses, drips, stays silent.

Standard library only. The deadline covers connecting, sending and every byte of the answer; only looking up a name cannot be
bounded from inside, so a caller that must not wait runs this in a thread.
"""

import http.client
import io
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

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


class _Socket:
    """What `http.client` needs of a socket, with our reader."""

    def __init__(self, sock: socket.socket, remaining: Callable[[], float]) -> None:
        self._sock = sock
        self._remaining = remaining

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._sock, self._remaining))

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._remaining())
        self._sock.sendall(data)

    def close(self) -> None:
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
        self._connection: http.client.HTTPConnection | None = None
        self._tls: ssl.SSLContext | None = None
        self._deadline = 0.0

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
            connection = self._connection or self._connect()
            connection.request("POST", self._path + path, body, headers)
            response = connection.getresponse()
            answer = response.read(REPLY_LIMIT + 1)
            keep = not response.will_close and len(answer) <= REPLY_LIMIT and response.isclosed()
            reply = _judge(response.status, response.headers.get("retry-after"), answer[:REPLY_LIMIT])
        except (TimeoutError, DeadlinePassed):
            self.close()
            return Reply("try_again", "timeout")
        except OSError:
            self.close()
            return Reply("try_again", "unreachable")
        except (http.client.HTTPException, ValueError):
            self.close()
            return Reply("try_again", "garbage")
        if not keep:
            self.close()
        return reply

    def _connect(self) -> http.client.HTTPConnection:
        sock = socket.create_connection((self._host, self._port), timeout=self._remaining())
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._secure:
                self._tls = self._tls or ssl.create_default_context()
                sock.settimeout(self._remaining())
                sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise
        connection = http.client.HTTPConnection(self._host, self._port)
        wrapped: Any = _Socket(sock, self._remaining)
        connection.sock = wrapped
        connection.auto_open = 0
        self._connection = connection
        return connection

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
        return min(max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0), 3600.0)
    except (TypeError, ValueError, OverflowError):
        return None
