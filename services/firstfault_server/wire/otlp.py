"""OTLP requests: split by training process on the way in, decoded to batches on the way out of the log."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from firstfault import conventions as names
from firstfault_server.core.model import Attribute, Batch, Identity
from firstfault_server.ports import LogEntry, Signal
from firstfault_server.wire import otlp_json
from firstfault_server.wire.attributes import Budget, attribute, reserved, string, whole_number
from firstfault_server.wire.identity import Identities, bounded, process_key
from firstfault_server.wire.mend import mend
from firstfault_server.wire.points import clamp, join_steps, series_of
from firstfault_server.wire.records import event_names, from_log, from_span
from firstfault_server.wire.times import Window
from firstfault_server.wire.unreadable import Unreadable

__all__ = ["Part", "Split", "Unreadable", "decode", "split"]

NODE_PREFIX: Final = "node."


_WATCHED: Final = tuple(prefix.encode() for prefix in (*names.RESERVED_PREFIXES, NODE_PREFIX))


class Shape(NamedTuple):
    """Names of the nested lists of one kind of request."""

    request: type[Any]
    resources: str
    scopes: str
    records: str


SHAPES: Final[dict[str, Shape]] = {
    "metrics": Shape(ExportMetricsServiceRequest, "resource_metrics", "scope_metrics", "metrics"),
    "logs": Shape(ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
    "traces": Shape(ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
}


class Part(NamedTuple):
    """What one training process sent, as OTLP protobuf."""

    process: str
    body: bytes


class Split(msgspec.Struct, kw_only=True):
    """A request, one part a process, and what was not taken from it."""

    parts: list[Part]
    rejected: Counter[str] = msgspec.field(default_factory=Counter)
    """Reason -> points, log records or spans that were refused."""

    @property
    def reason(self) -> str:
        """The rejections in one line."""
        return "; ".join(f"{count} × {why}" for why, count in self.rejected.most_common(8))


def split(signal: Signal, body: bytes, *, json: bool = False, node_records: bool = False) -> Split:
    """Split a request by training process, refuse records that cannot be used, strip reserved attributes.

    The bytes of a protobuf request that speaks for a single process and needs no change are passed on as they came.
    `node_records`: whether the sender may speak for nodes (`node.*`). Raises Unreadable when nothing of it can be parsed.
    """
    shape = SHAPES[signal]
    rejected: Counter[str] = Counter()
    if json:
        request, changed = otlp_json.request(signal, body, rejected), True
    else:
        request, changed = _parse(shape, body, rejected)
    resources = getattr(request, shape.resources)
    # Most requests hold nothing that only a close look could find; a search in the bytes tells that at once.
    look = json or any(prefix in body for prefix in _WATCHED)
    keys: dict[str, list[Any]] = {}
    for resource in resources:
        if look:
            changed |= _strip(resource.resource.attributes)
            for scope in getattr(resource, shape.scopes):
                changed |= _strip(scope.scope.attributes)
                if signal == "logs":
                    changed |= _clean_logs(scope.log_records, node_records, rejected)
        keys.setdefault(process_key(resource.resource.attributes), []).append(resource)
    if len(keys) == 1 and not changed:
        return Split(parts=[Part(next(iter(keys)), body)], rejected=rejected)
    parts = []
    for key, own in keys.items():
        piece = shape.request()
        getattr(piece, shape.resources).extend(own)
        data = piece.SerializeToString()
        if any(getattr(scope, shape.records) for resource in own for scope in getattr(resource, shape.scopes)):
            parts.append(Part(key, data))
    return Split(parts=parts, rejected=rejected)


def decode(entry: LogEntry, position: str, known: Identities | None = None) -> list[Batch]:
    """Batches of a log entry: one per run that the process names and batch number. Clock records give none. Raises Unreadable.

    `known` keeps identities over calls: a process sends the same resource every time.
    """
    shape = SHAPES.get(entry.signal)
    if shape is None:
        return []
    try:
        request = shape.request.FromString(entry.body)
    except DecodeError as error:
        raise Unreadable(f"not an OTLP {entry.signal} request: {error}") from error
    known = known if known is not None else Identities()
    found: dict[tuple[Identity | str, str, int | None], Batch] = {}
    for resource in getattr(request, shape.resources):
        speaker = known.of(entry.tenant, entry.process, resource.resource)
        for scope in getattr(resource, shape.scopes):
            sender, sequence = _numbered(scope.scope.attributes)
            # A number names one batch of a run, however many resources it came in: two would look like a repetition.
            key = (speaker if sequence is None else speaker.run, sender, sequence)
            batch = found.get(key)
            if batch is None:
                batch = Batch(identity=speaker, received_ns=entry.received_ns, position=position, sender=sender, sequence=sequence)
                found[key] = batch
            window = Window.around(entry.received_ns, sequence is not None)
            if entry.signal == "metrics":
                for metric in scope.metrics:
                    batch.series.extend(series_of(metric))
            elif entry.signal == "logs":
                batch.logs.extend(from_log(r, window) for r in scope.log_records)
            else:
                for span in scope.spans:
                    batch.logs.extend(from_span(span, window))
    return _finish(list(found.values()))


def _finish(batches: list[Batch]) -> list[Batch]:
    for batch in batches:
        if batch.series:
            window = Window.around(batch.received_ns, batch.sequence is not None)
            join_steps(batch.series)
            batch.series = [series for series in batch.series if series.times_ns]
            clamp(batch.series, window)
    kept = [b for b in batches if b.series or b.logs]
    for i, batch in enumerate(kept):
        if i:
            batch.position = f"{batch.position}.{i}"
    return kept


def _parse(shape: Shape, body: bytes, rejected: Counter[str]) -> tuple[Any, bool]:
    try:
        return shape.request.FromString(body), False
    except DecodeError:
        mended = mend(body, shape.request.DESCRIPTOR)
    if mended is None:
        raise Unreadable("the body is not an OTLP protobuf request")
    try:
        request: Message = shape.request.FromString(mended.data)
    except DecodeError as error:
        raise Unreadable("the body is not an OTLP protobuf request") from error
    if mended.dropped:
        rejected["not readable as protobuf"] += mended.dropped
    return request, True


def _numbered(pairs: Iterable[Any]) -> tuple[str, int | None]:
    sender: Attribute | None = None
    sequence: int | None = None
    for pair in pairs:
        if pair.key == names.BATCH_SEQ:
            sequence = whole_number(attribute(pair.value, Budget()))
        elif pair.key == names.BATCH_SENDER:
            sender = attribute(pair.value, Budget())
    return (bounded(string(sender)), sequence) if sequence is not None else ("", None)


def _strip(pairs: Any) -> bool:
    doomed = [i for i, pair in enumerate(pairs) if reserved(pair.key)]
    for i in reversed(doomed):
        del pairs[i]
    return bool(doomed)


def _clean_logs(records: Any, node_records: bool, rejected: Counter[str]) -> bool:
    changed = False
    doomed = []
    for i, record in enumerate(records):
        if not node_records and any(name.startswith(NODE_PREFIX) for name in event_names(record)):
            doomed.append(i)
            continue
        changed |= _strip(record.attributes)
    for i in reversed(doomed):
        del records[i]
    if doomed:
        rejected["node.* records need a key with the scope node"] += len(doomed)
    return changed or bool(doomed)
