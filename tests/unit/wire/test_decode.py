"""Decoding log entries to batches: identity, steps, times, attributes, reductions."""

import math

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from firstfault_server.core.model import Batch
from firstfault_server.ports import LogEntry, Signal
from firstfault_server.wire.attributes import LARGEST_TEXT
from firstfault_server.wire.otlp import Unreadable, decode, split
from tests.unit.wire.requests import NOW, SECOND, logs, metrics, pairs, resource

RECEIVED = NOW + SECOND
NUMBERED = {"firstfault.batch.sender": "sdk", "firstfault.batch.seq": 7}


def decoded(signal: Signal, body: bytes, process: str = "p0") -> list[Batch]:
    return decode(LogEntry(tenant="t", process=process, signal=signal, received_ns=RECEIVED, body=body), "pos")


def one(request: ExportMetricsServiceRequest) -> Batch:
    (batch,) = decoded("metrics", request.SerializeToString())
    return batch


def test_identity_is_read_from_the_resource() -> None:
    given = resource(
        train__rank=3,
        train__local_rank="1",
        train__world_size=8.0,
        host__name="node-7",
        train__log__paths=["/a", "/b"],
        process__command_args=["python", "train.py"],
        process__pid=42,
        train__run__id__source="user",
        process__creation__time="2026-11-29T18:00:00.5+00:00",
    )
    who = one(metrics({"train.loss": [(NOW, 1.0)]}, given, NUMBERED)).identity
    assert (who.tenant, who.process, who.run, who.run_source) == ("t", "p0", "run1", "user")
    assert (who.rank, who.local_rank, who.world_size, who.pid) == (3, 1, 8, 42)
    assert (who.node, who.log_paths, who.command) == ("node-7", ("/a", "/b"), "python train.py")
    assert who.started_ns == 1_795_975_200_500_000_000


@pytest.mark.parametrize("rank", [-1, "seven", 1.5, True, 1 << 60, math.nan, [1], ""])
def test_a_rank_that_is_none_is_absent(rank: object) -> None:
    assert one(metrics({"m": [(NOW, 1.0)]}, resource(train__rank=rank))).identity.rank is None


def test_other_senders_names_are_understood_but_ours_win() -> None:
    who = one(metrics({"m": [(NOW, 1.0)]}, {"nv.dl.rank": 5, "rl.run.id": "r", "k8s.node.name": "n", "host.name": "own"})).identity
    assert (who.rank, who.run, who.node) == (5, "r", "own")


def test_a_process_that_names_no_run_gets_one_of_its_own() -> None:
    body = metrics({"m": [(NOW, 1.0)]}, resource(run=None)).SerializeToString()
    first, other = decoded("metrics", body)[0].identity, decoded("metrics", body, process="p1")[0].identity
    assert first.run and first.run_source == "none"
    assert first.run != other.run
    assert decoded("metrics", body)[0].identity == first


def test_steps_are_joined_by_equal_timestamps() -> None:
    times = [NOW + i for i in range(3)]
    batch = one(
        metrics(
            {
                "train.loss": [(t, 1.5) for t in times],
                "train.step": [(t, 10 + i) for i, t in enumerate(times)],
                "train.grad_norm": [(times[2], 2.5), (NOW + 99, 3.5)],
                "train.data.wait": [(NOW + 77, 0.1)],
            },
            scope=NUMBERED,
        )
    )
    steps = {s.metric: s.steps for s in batch.series}
    assert steps["train.loss"] == [10, 11, 12]
    assert steps["train.step"] == [10, 11, 12]
    assert steps["train.grad_norm"] == [12, None]
    assert steps["train.data.wait"] is None
    assert (batch.sender, batch.sequence, batch.position) == ("sdk", 7, "pos")


@pytest.mark.parametrize("odd", [-1, 1 << 62, 1.5, 1e300, math.nan, -math.inf])
def test_a_step_that_is_none_is_left_out(odd: float) -> None:
    batch = one(metrics({"train.step": [(NOW, odd), (NOW + 1, 4)], "train.loss": [(NOW, 1.0), (NOW + 1, 2.0)]}, scope=NUMBERED))
    assert {s.metric: (s.values, s.steps) for s in batch.series} == {
        "train.step": ([4.0], [4]),
        "train.loss": ([1.0, 2.0], [None, 4]),
    }
    assert decoded("metrics", metrics({"train.step": [(NOW, odd)]}).SerializeToString()) == []


def test_a_step_as_point_attribute_is_taken_out_of_the_series_key() -> None:
    request = metrics({"m": [(NOW, 1.0), (NOW + 1, 2.0), (NOW + 2, 3.0)]})
    for i, point in enumerate(request.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[:2]):
        point.attributes.extend(pairs({"step": i + 5, "gpu": "0"}))
    plain, keyed = sorted(one(request).series, key=lambda s: len(s.attributes))
    assert (plain.values, plain.steps) == ([3.0], None)
    assert (keyed.values, keyed.steps, keyed.attributes) == ([1.0, 2.0], [5, 6], {"gpu": "0"})


def test_nan_infinities_zero_and_integers_are_values() -> None:
    batch = one(metrics({"m": [(NOW, math.nan), (NOW, math.inf), (NOW, 0.0), (NOW, -0.0)], "n": [(NOW, 0), (NOW, 7)]}))
    m, n = batch.series
    assert math.isnan(m.values[0])
    assert m.values[1:] == [math.inf, 0.0, 0.0]
    assert n.values == [0.0, 7.0]


@pytest.mark.parametrize("count", [1, 64, 65, 1000])
@pytest.mark.parametrize("kind", [int, float])
def test_many_points_of_one_metric(count: int, kind: type[int] | type[float]) -> None:
    batch = one(metrics({"m": [(NOW + i, kind(i)) for i in range(count)]}))
    assert batch.series[0].times_ns == [NOW + i for i in range(count)]
    assert batch.series[0].values == [float(i) for i in range(count)]


def test_mixed_points_are_read_like_uniform_ones() -> None:
    batch = one(metrics({"m": [(NOW, 1.0), (NOW + 1, 2), (NOW + 2, 0), (NOW + 3, 4.0)]}))
    assert batch.series[0].values == [1.0, 2.0, 0.0, 4.0]
    assert batch.series[0].times_ns == [NOW, NOW + 1, NOW + 2, NOW + 3]


def test_aliases_and_scales() -> None:
    batch = one(metrics({"megatron.training.step_duration_ms": [(NOW, 250.0)], "rl.train.loss": [(NOW, 2.0)], "my.metric": [(NOW, 1.0)]}))
    assert {s.metric: s.values for s in batch.series} == {"train.step.duration": [0.25], "train.loss": [2.0], "my.metric": [1.0]}


def test_sums_give_their_value_and_distributions_their_mean() -> None:
    request = metrics({})
    held = request.resource_metrics[0].scope_metrics[0]
    held.metrics.add(name="s").sum.data_points.add(time_unix_nano=NOW, as_int=12)
    held.metrics.add(name="h").histogram.data_points.add(time_unix_nano=NOW, count=4, sum=10.0)
    held.metrics.add(name="e").exponential_histogram.data_points.add(time_unix_nano=NOW, count=2, sum=10.0)
    held.metrics.add(name="q").summary.data_points.add(time_unix_nano=NOW, count=5, sum=10.0)
    held.metrics.add(name="empty").histogram.data_points.add(time_unix_nano=NOW)
    held.metrics.add(name="none").gauge.data_points.add(time_unix_nano=NOW, flags=1)
    held.metrics.add(name="nothing")
    assert {s.metric: s.values for s in one(request).series} == {"s": [12.0], "h": [2.5], "e": [5.0], "q": [2.0]}


@pytest.mark.parametrize("absurd", [0, 1, RECEIVED + 301 * SECOND, (1 << 64) - 1])
def test_absurd_times_become_the_receive_time_and_are_flagged(absurd: int) -> None:
    series = one(metrics({"m": [(absurd, 1.0), (NOW, 2.0)]}, scope=NUMBERED)).series[0]
    assert (series.times_ns, series.clamped) == ([RECEIVED, NOW], 1)
    (batch,) = decoded("logs", logs([{"body": "x", "time_unix_nano": absurd}, {"body": "y"}], scope=NUMBERED).SerializeToString())
    assert [r.time_ns for r in batch.logs] == [RECEIVED, NOW]
    assert [r.attributes for r in batch.logs] == [{"firstfault.time.clamped": True}, {}]


def test_only_senders_that_number_their_batches_may_speak_of_the_past() -> None:
    old = NOW - 3600 * SECOND
    assert one(metrics({"m": [(old, 1.0)]}, scope=NUMBERED)).series[0].times_ns == [old]
    assert one(metrics({"m": [(old, 1.0)]})).series[0].times_ns == [RECEIVED]


def test_steps_are_joined_before_times_are_clamped() -> None:
    batch = one(metrics({"train.step": [(5, 1), (6, 2)], "train.loss": [(5, 1.0), (6, 2.0)]}))
    assert {s.metric: s.steps for s in batch.series} == {"train.step": [1, 2], "train.loss": [1, 2]}


def test_two_runs_of_one_process_are_two_batches() -> None:
    request = metrics({"m": [(NOW, 1.0)]}, resource(run="a"), NUMBERED)
    metrics({"m": [(NOW, 2.0)]}, resource(run="b"), NUMBERED, into=request)
    (part,) = split("metrics", request.SerializeToString()).parts
    first, second = decoded("metrics", part.body)
    assert [first.identity.run, second.identity.run] == ["a", "b"]
    assert first.identity.process == second.identity.process
    assert first.position != second.position


def test_a_number_names_one_batch_of_a_run() -> None:
    request = metrics({"m": [(NOW, 1.0)]}, resource(train__rank=1), NUMBERED)
    metrics({"n": [(NOW, 2.0)]}, resource(train__rank=1, host__name="later"), NUMBERED, into=request)
    (batch,) = decoded("metrics", request.SerializeToString())
    assert [s.metric for s in batch.series] == ["m", "n"]


def test_log_records_keep_what_they_say() -> None:
    given = {
        "event_name": "exception",
        "severity_number": 17,
        "trace_id": bytes(range(16)),
        "span_id": bytes(range(8)),
        "body": "boom",
        "attributes": {
            "exception.type": "ValueError",
            "n": 3,
            "x": 1.5,
            "ok": True,
            "list": ["a", "b"],
            "deep": {"k": [1]},
            "raw": b"\x00\x01",
        },
    }
    (batch,) = decoded("logs", logs([given]).SerializeToString())
    (record,) = batch.logs
    assert (record.event_name, record.severity, record.body, record.time_ns) == ("exception", 17, "boom", NOW)
    assert (record.trace_id, record.span_id) == (bytes(range(16)).hex(), bytes(range(8)).hex())
    assert record.attributes == {
        "exception.type": "ValueError",
        "n": 3,
        "x": 1.5,
        "ok": True,
        "list": ["a", "b"],
        "deep": '{"k":[1]}',
        "raw": "AAE=",
    }


@pytest.mark.parametrize(
    ("key", "sent", "expected"),
    [
        ("train.step", "12", 12),
        ("train.step", 12.0, 12),
        ("train.step", 1e300, None),
        ("train.step", math.nan, None),
        ("train.step", "1" * 30, None),
        ("train.step", True, None),
        ("train.step", [1], None),
        ("train.exit.code", "-9", -9),
        ("exception.type", 5, "5"),
        ("exception.message", ["a", "b"], "a b"),
        ("train.phase.expect_s", 60, 60.0),
        ("train.phase.expect_s", "soon", None),
        ("train.phase.expect_s", math.nan, None),
        ("firstfault.exception.fatal", "true", True),
        ("firstfault.exception.fatal", "perhaps", None),
        ("firstfault.stderr.tail", "one line", ["one line"]),
        ("train.collective.missing", ["3", 4, "x", 1e300], [3, 4]),
    ],
)
def test_conventional_attributes_get_their_type_or_go(key: str, sent: object, expected: object) -> None:
    (batch,) = decoded("logs", logs([{"body": "x", "attributes": {key: sent}}]).SerializeToString())
    found = batch.logs[0].attributes
    assert found.pop("firstfault.repaired") == "type"
    assert found.get(key) == expected
    assert type(found.get(key)) is type(expected)


def test_foreign_log_records_are_understood() -> None:
    records = [
        {"severity_text": "warning", "attributes": {"event.name": "train.log"}, "body": {"a": 1}},
        {"severity_text": "Fatal", "attributes": {"exception.type": "E"}},
    ]
    (batch,) = decoded("logs", logs(records).SerializeToString())
    assert [(r.event_name, r.severity, r.body) for r in batch.logs] == [("train.log", 13, '{"a":1}'), ("exception", 21, "")]


def test_ten_megabytes_are_cut_and_flagged() -> None:
    huge = "x" * (10 << 20)
    (batch,) = decoded("logs", logs([{"body": huge, "attributes": {"a": huge, "b": "kept"}}, {"body": "neighbour"}]).SerializeToString())
    cut, neighbour = batch.logs
    assert len(cut.body) == LARGEST_TEXT
    assert len(str(cut.attributes["a"])) == LARGEST_TEXT
    assert (cut.attributes["b"], cut.attributes["firstfault.repaired"]) == ("kept", "cut")
    assert (neighbour.body, neighbour.attributes) == ("neighbour", {})


def test_ten_thousand_attributes_are_cut_and_flagged() -> None:
    (batch,) = decoded("logs", logs([{"attributes": {f"a{i}": "y" * 1000 for i in range(10_000)}}]).SerializeToString())
    found = batch.logs[0].attributes
    assert len(found) < 300
    assert found["firstfault.repaired"] == "cut"


def test_exceptions_on_spans_become_records() -> None:
    request = ExportTraceServiceRequest()
    described = request.resource_spans.add()
    described.resource.attributes.extend(pairs(resource()))
    span = described.scope_spans.add().spans.add(name="step", trace_id=b"t" * 16, span_id=b"s" * 8, end_time_unix_nano=NOW)
    span.attributes.extend(pairs({"train.step": 12}))
    span.events.add(name="exception", time_unix_nano=NOW).attributes.extend(pairs({"exception.type": "E", "exception.message": "m"}))
    span.events.add(name="other", time_unix_nano=NOW)
    (batch,) = decoded("traces", request.SerializeToString())
    (record,) = batch.logs
    assert (record.event_name, record.severity, record.body, record.trace_id) == ("exception", 17, "m", (b"t" * 16).hex())
    assert record.attributes["train.step"] == 12
    assert record.attributes["firstfault.exception.origin"] == "span"


def test_clock_records_give_nothing_and_garbage_says_so() -> None:
    assert decode(LogEntry(tenant="", process="", signal="clock", received_ns=1), "p") == []
    with pytest.raises(Unreadable):
        decoded("logs", b"\xff\xff")
