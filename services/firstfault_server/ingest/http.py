"""OTLP over HTTP: `/v1/metrics`, `/v1/logs`, `/v1/traces`, protobuf and JSON, gzip and zstd."""

import logging
from typing import Final

import orjson
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from firstfault_server.ingest.access import Denied
from firstfault_server.ingest.answers import partial_success
from firstfault_server.ingest.compression import Garbled, TooLarge, UnknownEncoding
from firstfault_server.ingest.receiver import Accepted, Busy, Receiver
from firstfault_server.ports import Signal, StorageFull, StoreUnavailable
from firstfault_server.wire.unreadable import Unreadable

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
PATHS: Final[dict[str, Signal]] = {"/v1/metrics": "metrics", "/v1/logs": "logs", "/v1/traces": "traces"}
_REJECTED: Final = {"metrics": "rejectedDataPoints", "logs": "rejectedLogRecords", "traces": "rejectedSpans"}
_CODES: Final = {400: 3, 401: 16, 403: 7, 413: 3, 415: 3, 429: 8, 503: 14}
"""gRPC code of each status, as google.rpc.Status carries it."""
_TITLES: Final = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    413: "Too large",
    415: "Unsupported media type",
    429: "Too many requests",
    503: "Unavailable",
}

_logger = logging.getLogger(__name__)


class _Refusal(Exception):
    def __init__(self, status: int, counted_as: str, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.counted_as, self.reason, self.retry_after_s = status, counted_as, reason, retry_after_s


def otlp_app(receiver: Receiver) -> Starlette:
    """The ASGI application of the HTTP receiver."""

    async def export(request: Request) -> Response:
        signal = PATHS[request.url.path]
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        json = media == JSON
        try:
            accepted = await _receive(receiver, request, signal, media)
        except _Refusal as refusal:
            receiver.metrics.refused.labels(refusal.counted_as).inc()
            response = _refused(refusal, json)
        except ClientDisconnect:
            receiver.metrics.refused.labels("disconnected").inc()
            response = Response(status_code=400)
        else:
            response = _accepted(signal, accepted, json)
        receiver.metrics.requests.labels("http", signal, str(response.status_code)).inc()
        return response

    return Starlette(routes=[Route(path, export, methods=["POST"]) for path in PATHS])


async def _receive(receiver: Receiver, request: Request, signal: Signal, media: str) -> Accepted:
    if media not in (PROTOBUF, JSON, "application/protobuf"):
        raise _Refusal(415, "media_type", f"content type {media[:80]!r} is not supported; use {PROTOBUF} or {JSON}")
    try:
        body = await _body(request, receiver.limits.body_bytes)
        return await receiver.receive(
            signal,
            body,
            json=media == JSON,
            encoding=request.headers.get("content-encoding", ""),
            authorization=request.headers.get("authorization"),
        )
    except Denied as error:
        raise _Refusal(error.status, "denied", str(error)) from error
    except Busy as error:
        raise _Refusal(429, "busy", str(error), error.retry_after_s) from error
    except TooLarge as error:
        raise _Refusal(413, "too_large", _too_large(receiver)) from error
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


async def _body(request: Request, limit: int) -> bytes:
    """The body as received, never more of it in memory than the limit. Raises TooLarge."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limit:
        raise TooLarge
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise TooLarge
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(receiver: Receiver) -> str:
    limits = receiver.limits
    return f"a body may have {limits.body_bytes} bytes, and {limits.plain_bytes} after decompression; send smaller batches"


def _accepted(signal: Signal, accepted: Accepted, json: bool) -> Response:
    if json:
        partial = {_REJECTED[signal]: str(accepted.rejected), "errorMessage": accepted.reason} if accepted.rejected else None
        return Response(orjson.dumps({"partialSuccess": partial} if partial else {}), media_type=JSON)
    return Response(partial_success(signal, accepted), media_type=PROTOBUF)


def _refused(refusal: _Refusal, json: bool) -> Response:
    """A google.rpc.Status as the sender speaks it; in JSON it is a problem (RFC 9457) at the same time."""
    headers = {}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    code = _CODES[refusal.status]
    if refusal.status in (401, 403) or json:
        body = {
            "type": "about:blank",
            "title": _TITLES[refusal.status],
            "status": refusal.status,
            "detail": refusal.reason,
            "code": code,
            "message": refusal.reason,
        }
        media = PROBLEM if refusal.status in (401, 403) else JSON
        return Response(orjson.dumps(body), refusal.status, headers, media_type=media)
    return Response(Status(code=code, message=refusal.reason).SerializeToString(), refusal.status, headers, media_type=PROTOBUF)
