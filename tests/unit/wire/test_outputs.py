"""Records on their topics: what was written is read, and keys keep together what must stay in order."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core import model
from firstfault_server.wire import codec
from firstfault_server.wire.outputs import DEAD_LETTERS, EVENTS, INCIDENTS, ROLLUPS, RUNS, TOPICS, incoming, outgoing
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.rollups import MOST_BYTES, decode_rollups, encode_rollups
from firstfault_server.wire.unreadable import Unreadable
from tests.unit.wire.test_codec import FULL, SPARSE


@pytest.mark.parametrize("record", SPARSE + FULL, ids=lambda record: type(record).__name__)
def test_each_record_comes_back_from_its_topic(record: Any) -> None:
    (sent,) = outgoing([record])
    assert sent.topic == TOPICS[type(record)]
    assert incoming(sent.topic, sent.value) == [record]


def test_keys_are_what_outsiders_rely_on() -> None:
    records: list[Any] = [*FULL]
    keys = {sent.topic: sent.key for sent in outgoing(records)}
    assert keys == {
        ROLLUPS: b"t/p",
        EVENTS: b"t/r",
        "firstfault.findings.v1": b"t/r",
        INCIDENTS: b"t/i",
        RUNS: b"t/r",
        DEAD_LETTERS: b"t",
    }


def every_field() -> model.Rollup:
    """A rollup in which no two fields and no default are alike."""
    values: dict[str, Any] = {}
    fields: Any = pb.Rollup.DESCRIPTOR.fields
    for number, field in enumerate(fields, 1):
        values[field.name] = f"text {number}" if field.type == field.TYPE_STRING else number
    return msgspec.convert(values, model.Rollup)


def test_every_field_is_written_as_a_column_and_read() -> None:
    row = every_field()
    assert set(msgspec.to_builtins(row)) == {"record", *(field.name for field in pb.Rollup.DESCRIPTOR.fields)}
    (data,) = encode_rollups([row])
    (columns,) = pb.RollupBatch.FromString(data).columns
    assert {field.name for field, _ in columns.ListFields()} == {field.name for field in pb.RollupColumns.DESCRIPTOR.fields}
    assert decode_rollups(data) == [row]


def test_rollups_written_before_there_were_columns_are_read() -> None:
    rows = [every_field(), msgspec.structs.replace(every_field(), rank=None, min=None, step_max=None)]
    data = pb.RollupBatch(rollups=[pb.Rollup.FromString(codec.encode(row)) for row in rows]).SerializeToString()
    assert decode_rollups(data) == rows


FEW = st.sampled_from(["", "a", "b"])
FLOATS = st.floats(allow_nan=False)
ROLLUPS_OF_ANY = st.builds(
    model.Rollup,
    **{name: FEW for name in ("tenant", "run", "process", "node", "metric", "attributes", "position")},
    **{name: st.integers(0, 2**62) for name in ("window_ns", "count", "first_ns", "last_ns", "nonfinite")},
    **{name: st.none() | st.integers(0, 2**53) for name in ("rank", "step_min", "step_max")},
    **{name: st.none() | FLOATS for name in ("min", "max", "first", "last")},
    **{name: FLOATS for name in ("sum", "sumsq")},
)


@given(st.lists(ROLLUPS_OF_ANY, max_size=12))
def test_any_rollups_come_back_in_their_order(rows: list[model.Rollup]) -> None:
    assert [row for data in encode_rollups(rows) for row in decode_rollups(data)] == rows


def test_columns_of_different_lengths_are_refused() -> None:
    batch = pb.RollupBatch.FromString(encode_rollups([every_field(), every_field()])[0])
    for field in pb.RollupColumns.DESCRIPTOR.fields:
        if field.is_repeated and field.name != "metric":
            broken = pb.RollupBatch.FromString(batch.SerializeToString())
            getattr(broken.columns[0], field.name).pop()
            with pytest.raises(Unreadable, match=f"1 of {field.name} for 2"):
                decode_rollups(broken.SerializeToString())


def test_zero_is_not_absent() -> None:
    zero = model.Rollup(tenant="", run="", process="", metric="", window_ns=0, position="", count=0, rank=0, min=0.0, last=0.0, step_max=0)
    absent = msgspec.structs.replace(zero, rank=None, min=None, last=None, step_max=None)
    (data,) = encode_rollups([zero, absent])
    assert decode_rollups(data) == [zero, absent]


def test_nan_survives() -> None:
    (data,) = encode_rollups([msgspec.structs.replace(every_field(), sum=math.nan)])
    assert math.isnan(decode_rollups(data)[0].sum)


def test_rollups_of_one_call_go_together_until_a_message_is_full() -> None:
    rows = [msgspec.structs.replace(every_field(), metric=f"m{i}", attributes="x" * 1000) for i in range(2500)]
    sent = outgoing([*rows[:1], FULL[1], *rows[1:]])  # type: ignore[list-item]
    assert [one.topic for one in sent][:1] == [EVENTS]
    assert len(sent) > 2
    assert max(len(one.value) for one in sent) < 1.2 * MOST_BYTES
    assert [row for one in sent[1:] for row in incoming(ROLLUPS, one.value)] == rows


def test_what_is_no_batch_says_so() -> None:
    with pytest.raises(Unreadable, match="not a RollupBatch"):
        decode_rollups(b"\xff")
