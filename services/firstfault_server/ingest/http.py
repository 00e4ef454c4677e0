"""OTLP over HTTP as a bare ASGI application: `/v1/metrics`, `/v1/logs`, `/v1/traces`; protobuf and JSON, gzip and zstd.

No framework: at a thousand small requests a second its routing and header objects would cost more than parsing the data.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import orjson
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from firstfault_server.ingest.access import Denied
from firstfault_server.ingest.answers import partial_success
from firstfault_server.ingest.compression import Garbled, TooLarge, UnknownEncoding
from firstfault_server.ingest.quota import OverQuota
from firstfault_server.ingest.receiver import Accepted, Busy, Limits, Receiver, Reservation
from firstfault_server.ports import Signal, StorageFull, StoreUnavailable
from firstfault_server.wire.unreadable import Unreadable

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
PATHS: Final[dict[str, Signal]] = {"/v1/metrics": "metrics", "/v1/logs": "logs", "/v1/traces": "traces"}
_REJECTED: Final = {"metrics": "rejectedDataPoints", "logs": "rejectedLogRecords", "traces": "rejectedSpans"}
_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 413: 3, 415: 3, 429: 8, 503: 14}
"""gRPC code of each status, as google.rpc.Status carries it."""
_TITLES: Final = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    413: "Too large",
    415: "Unsupported media type",
    429: "Too many requests",
    503: "Unavailable",
}

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_logger = logging.getLogger(__name__)


class _Refusal(Exception):
    def __init__(self, status: int, counted_as: str, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.counted_as, self.reason, self.retry_after_s = status, counted_as, reason, retry_after_s


class _Disconnected(Exception):
    """The sender went away; there is nobody to answer."""


def otlp_app(receiver: Receiver) -> Application:
    """The ASGI application of the HTTP receiver."""
    metrics = receiver.metrics

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the OTLP receiver speaks http only, not {scope['type']}")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        signal = PATHS.get(scope["path"])
        media = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        try:
            if signal is None:
                raise _Refusal(404, "path", f"there is nothing here; send to one of {', '.join(PATHS)}")
            if scope["method"] != "POST":
                raise _Refusal(405, "method", "use POST")
            accepted = await _receive(receiver, receive, signal, media, headers)
        except _Refusal as refusal:
            metrics.refused.labels(refusal.counted_as).inc()
            status, answer, kind, more = _refused(refusal, media == JSON)
        except _Disconnected:
            metrics.refused.labels("disconnected").inc()
            return
        else:
            status, more = 200, []
            answer, kind = _accepted(signal, accepted, media == JSON)
        metrics.answered("http", signal or "none", status)
        length = str(len(answer)).encode()
        described = [(b"content-type", kind.encode()), (b"content-length", length), *more]
        await send({"type": "http.response.start", "status": status, "headers": described})
        await send({"type": "http.response.body", "body": answer})

    return app


async def _receive(receiver: Receiver, receive: Receive, signal: Signal, media: str, headers: dict[bytes, bytes]) -> Accepted:
    if media not in (PROTOBUF, JSON, "application/protobuf"):
        raise _Refusal(415, "media_type", f"content type {media[:80]!r} is not supported; use {PROTOBUF} or {JSON}")
    authorization = headers.get(b"authorization")
    encoding = headers.get(b"content-encoding", b"").decode("latin-1")
    try:
        sender = await receiver.sender(None if authorization is None else authorization.decode("latin-1"))
        with receiver.reserve() as reservation:
            body = await _body(receive, headers, receiver.limits.body_bytes, reservation)
            return await receiver.receive(sender, reservation, signal, body, json=media == JSON, encoding=encoding)
    except Denied as error:
        raise _Refusal(error.status, "denied", str(error)) from error
    except Busy as error:
        raise _Refusal(429, "busy", str(error), error.retry_after_s) from error
    except OverQuota as error:
        raise _Refusal(429, "quota", str(error), error.retry_after_s) from error
    except TooLarge as error:
        raise _Refusal(413, "too_large", _too_large(receiver.limits)) from error
    except UnknownEncoding as error:
        raise _Refusal(415, "encoding", str(error)) from error
    except (Garbled, Unreadable) as error:
        raise _Refusal(400, "unreadable", str(error)) from error
    except StorageFull as error:
        _logger.error("%s", error)
        raise _Refusal(503, "storage_full", "the service is out of storage space", 10) from error
    except StoreUnavailable as error:
        _logger.error("%s", error)
        raise _Refusal(503, "store_unavailable", "the service cannot store data now", 2) from error


async def _body(receive: Receive, headers: dict[bytes, bytes], limit: int, reservation: Reservation) -> bytes:
    """The body as received, never more of it in memory than the limit and the queue allow. Raises TooLarge, Busy."""
    stated = headers.get(b"content-length", b"")
    if stated.isdigit():
        if int(stated) > limit:
            raise TooLarge
        reservation.grow(int(stated))
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise TooLarge
        reservation.grow(size)
        pieces.append(piece)
        if not message.get("more_body", False):
            return piece if len(pieces) == 1 else b"".join(pieces)


def _too_large(limits: Limits) -> str:
    return f"a body may have {limits.body_bytes} bytes, and {limits.plain_bytes} after decompression; send smaller batches"


def _accepted(signal: Signal, accepted: Accepted, json: bool) -> tuple[bytes, str]:
    if not json:
        return partial_success(signal, accepted), PROTOBUF
    if not accepted.rejected:
        return b"{}", JSON
    return orjson.dumps({"partialSuccess": {_REJECTED[signal]: str(accepted.rejected), "errorMessage": accepted.reason}}), JSON


def _refused(refusal: _Refusal, json: bool) -> tuple[int, bytes, str, list[tuple[bytes, bytes]]]:
    """A google.rpc.Status as the sender speaks it; in JSON it is a problem (RFC 9457) at the same time."""
    headers = []
    if refusal.retry_after_s is not None:
        headers.append((b"retry-after", str(refusal.retry_after_s).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 405:
        headers.append((b"allow", b"POST"))
    code = _CODES[refusal.status]
    problem = refusal.status in (401, 403, 404, 405)
    if not (problem or json):
        return refusal.status, Status(code=code, message=refusal.reason).SerializeToString(), PROTOBUF, headers
    body = {
        "type": "about:blank",
        "title": _TITLES[refusal.status],
        "status": refusal.status,
        "detail": refusal.reason,
        "code": code,
        "message": refusal.reason,
    }
    return refusal.status, orjson.dumps(body), PROBLEM if problem else JSON, headers
