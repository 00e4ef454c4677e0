"""Records on their topics: what was written is read, and keys keep together what must stay in order."""

import math
from typing import Any

import msgspec
import pytest

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


def test_the_fast_way_writes_and_reads_every_field_as_the_general_one() -> None:
    row = every_field()
    assert set(msgspec.to_builtins(row)) == {"record", *(field.name for field in pb.Rollup.DESCRIPTOR.fields)}
    (data,) = encode_rollups([row])
    assert pb.RollupBatch.FromString(data).rollups[0].SerializeToString(deterministic=True) == codec.encode(row)
    assert decode_rollups(data) == [row]


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
