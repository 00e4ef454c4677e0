"""The protobuf answers to an export."""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from firstfault_server.ingest.receiver import Accepted
from firstfault_server.ports import Signal


def partial_success(signal: Signal, accepted: Accepted) -> bytes:
    """The response message: empty when everything was taken."""
    if not accepted.rejected:
        return b""
    if signal == "metrics":
        metrics = ExportMetricsServiceResponse()
        metrics.partial_success.rejected_data_points = accepted.rejected
        metrics.partial_success.error_message = accepted.reason
        return metrics.SerializeToString()
    if signal == "logs":
        logs = ExportLogsServiceResponse()
        logs.partial_success.rejected_log_records = accepted.rejected
        logs.partial_success.error_message = accepted.reason
        return logs.SerializeToString()
    traces = ExportTraceServiceResponse()
    traces.partial_success.rejected_spans = accepted.rejected
    traces.partial_success.error_message = accepted.reason
    return traces.SerializeToString()
