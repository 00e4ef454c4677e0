"""OTLP over gRPC: the three export services, on raw bytes, on the event loop of the HTTP receiver."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from firstfault_server.ingest.access import Denied
from firstfault_server.ingest.answers import partial_success
from firstfault_server.ingest.compression import TooLarge
from firstfault_server.ingest.quota import OverQuota
from firstfault_server.ingest.receiver import Busy, Receiver
from firstfault_server.ports import Signal, StorageFull, StoreUnavailable
from firstfault_server.wire.unreadable import Unreadable

SERVICES: Final[dict[str, Signal]] = {
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
}
MOST_CALLS: Final = 1024
"""Calls at once: their messages are in memory before anything here sees them."""
_DETAILS: Final = "grpc-status-details-bin"

_logger = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[bytes, bytes]


def otlp_server(receiver: Receiver) -> grpc.aio.Server:
    """The gRPC receiver, not bound to a port and not started yet."""
    server = grpc.aio.server(
        maximum_concurrent_rpcs=MOST_CALLS,
        options=[
            ("grpc.max_receive_message_length", receiver.limits.plain_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ],
    )
    for service, signal in SERVICES.items():
        handler = grpc.unary_unary_rpc_method_handler(_export(receiver, signal), _as_they_are, _as_they_are)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    return server


def _as_they_are(data: bytes) -> bytes:
    return data


def _export(receiver: Receiver, signal: Signal) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def export(body: bytes, context: Context) -> bytes:
        try:
            sender = await receiver.sender(_authorization(context))
            with receiver.reserve() as reservation:
                accepted = await receiver.receive(sender, reservation, signal, body)
        except Denied as error:
            code = grpc.StatusCode.UNAUTHENTICATED if error.status == 401 else grpc.StatusCode.PERMISSION_DENIED
            await _refuse(receiver, context, signal, code, "denied", str(error))
        except Busy as error:
            await _refuse(receiver, context, signal, grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", str(error), error.retry_after_s)
        except OverQuota as error:
            await _refuse(receiver, context, signal, grpc.StatusCode.RESOURCE_EXHAUSTED, "quota", str(error), error.retry_after_s)
        except TooLarge:
            limit = f"a message may have {receiver.limits.plain_bytes} bytes; send smaller batches"
            await _refuse(receiver, context, signal, grpc.StatusCode.INVALID_ARGUMENT, "too_large", limit)
        except Unreadable as error:
            await _refuse(receiver, context, signal, grpc.StatusCode.INVALID_ARGUMENT, "unreadable", str(error))
        except StorageFull as error:
            _logger.error("%s", error)
            said = "the service is out of storage space"
            await _refuse(receiver, context, signal, grpc.StatusCode.UNAVAILABLE, "storage_full", said, 10)
        except StoreUnavailable as error:
            _logger.error("%s", error)
            said = "the service cannot store data now"
            await _refuse(receiver, context, signal, grpc.StatusCode.UNAVAILABLE, "store_unavailable", said, 2)
        receiver.metrics.answered("grpc", signal, "OK")
        return partial_success(signal, accepted)

    return export


def _authorization(context: Context) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else value.decode("latin-1")
    return None


async def _refuse(
    receiver: Receiver,
    context: Context,
    signal: Signal,
    code: grpc.StatusCode,
    counted_as: str,
    reason: str,
    retry_after_s: int | None = None,
) -> NoReturn:
    receiver.metrics.refused.labels(counted_as).inc()
    receiver.metrics.answered("grpc", signal, code.name)
    trailing: tuple[tuple[str, Any], ...] = ()
    if retry_after_s is not None:
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=Duration(seconds=retry_after_s)))
        status = Status(code=code.value[0], message=reason, details=[detail])
        trailing = ((_DETAILS, status.SerializeToString()),)
    await context.abort(code, reason, trailing)
    raise AssertionError("abort does not return")
