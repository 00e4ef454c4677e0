"""The gRPC receiver over a real socket, spoken to by OpenTelemetry's own stubs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.ingest.grpc import otlp_server
from firstfault_server.ingest.receiver import Limits
from firstfault_server.ports import StorageFull
from tests.unit.ingest.stand import Stand
from tests.unit.wire.requests import NOW, logs, metrics

pytestmark = pytest.mark.integration
REQUEST = metrics({"train.loss": [(NOW, 1.0)]})


def serve(folder: Path, scenario: Callable[[Stand, grpc.aio.Channel], Awaitable[None]], limits: Limits | None = None) -> None:
    made = Stand(folder, limits)

    async def whole() -> None:
        server = otlp_server(made.receiver)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]) as channel:
                await scenario(made, channel)
        finally:
            await server.stop(None)

    try:
        asyncio.run(whole())
    finally:
        made.log.close()


def stub(kind: Any, channel: grpc.aio.Channel) -> Any:
    return kind(channel)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def retry_delay(error: grpc.aio.AioRpcError) -> int:
    data = dict(error.trailing_metadata())["grpc-status-details-bin"]
    (detail,) = Status.FromString(data).details
    info = RetryInfo()
    assert detail.Unpack(info)
    return int(info.retry_delay.seconds)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_what_is_acknowledged_is_in_the_log(tmp_path: Path, compression: grpc.Compression) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        answer = await stub(MetricsServiceStub, channel).Export(REQUEST, compression=compression)
        assert answer.SerializeToString() == b""
        await stub(TraceServiceStub, channel).Export(ExportTraceServiceRequest())
        (entry,) = made.stored()
        assert entry.body == REQUEST.SerializeToString()

    serve(tmp_path, scenario)


def test_partial_success(tmp_path: Path) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        header = made.key("plain")
        request = logs([{"event_name": "node.xid"}, {"body": "x"}])
        answer = await stub(LogsServiceStub, channel).Export(request, metadata=(("authorization", header),))
        assert answer.partial_success.rejected_log_records == 1
        assert "scope node" in answer.partial_success.error_message

    serve(tmp_path, scenario)


def test_bad_keys(tmp_path: Path) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        made.key("good")
        reader = made.key("reader", "read")
        metrics_service = stub(MetricsServiceStub, channel)
        assert (await refused(metrics_service.Export(REQUEST))).code() == grpc.StatusCode.UNAUTHENTICATED
        forbidden = await refused(metrics_service.Export(REQUEST, metadata=(("authorization", reader),)))
        assert (forbidden.code(), forbidden.details()) == (grpc.StatusCode.PERMISSION_DENIED, "this API key lacks the scope ingest")
        assert made.stored() == []

    serve(tmp_path, scenario)


def test_bytes_that_are_no_request_have_a_reason(tmp_path: Path) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        raw: Any = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        error = await refused(raw(b"\xff\xff"))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "not an OTLP protobuf request" in (error.details() or "")

    serve(tmp_path, scenario)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_too_large_messages_are_refused_after_decompression_as_well(tmp_path: Path, compression: grpc.Compression) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        error = await refused(stub(LogsServiceStub, channel).Export(logs([{"body": "x" * 200_000}]), compression=compression))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub(MetricsServiceStub, channel).Export(REQUEST)
        assert len(made.stored()) == 1

    serve(tmp_path, scenario, Limits(plain_bytes=100_000))


def test_pressure_is_answered_with_retry_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        gate = asyncio.Event()
        append = FileLog.append

        async def slow(self: FileLog, entries: Any) -> None:
            await gate.wait()
            await append(self, entries)

        monkeypatch.setattr(FileLog, "append", slow)
        metrics_service = stub(MetricsServiceStub, channel)
        waiting = asyncio.ensure_future(metrics_service.Export(REQUEST))
        while not made.count("firstfault_ingest_queue_bytes"):
            await asyncio.sleep(0.001)
        error = await refused(metrics_service.Export(REQUEST))
        assert (error.code(), retry_delay(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 7)
        gate.set()
        await waiting

    serve(tmp_path, scenario, Limits(queue_bytes=REQUEST.ByteSize(), retry_after_s=7))


def test_a_full_disk_is_said_and_nothing_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(self: FileLog, entries: Any) -> None:
        raise StorageFull("no space left")

    async def scenario(made: Stand, channel: grpc.aio.Channel) -> None:
        error = await refused(stub(MetricsServiceStub, channel).Export(REQUEST))
        assert (error.code(), retry_delay(error) > 0) == (grpc.StatusCode.UNAVAILABLE, True)

    monkeypatch.setattr(FileLog, "append", full)
    serve(tmp_path, scenario)
