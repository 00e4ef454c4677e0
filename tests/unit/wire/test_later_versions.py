"""A reader that was rolled back reads what a later version wrote. The cases come from the messages and the model, so none is forgotten."""

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from firstfault_server.core import model
from firstfault_server.core.model.base import OTHERWISE
from firstfault_server.wire.codec import MESSAGES, decode
from firstfault_server.wire.outputs import DEAD_LETTERS, EVENTS, TOPICS, incoming
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.rollups import decode_rollups, encode_rollups
from tests.unit.wire.later import UNKNOWN_FIELDS, Closed, Path, closed_lists, full, nested, put, reached

KINDS = list(MESSAGES)
LATER = "what a later version says"
LISTS = [(kind, closed) for kind in KINDS for closed in closed_lists(inspect.type_info(kind))]


def test_the_walk_finds_the_closed_lists() -> None:
    found = {".".join((kind.__name__, *closed.path)) for kind, closed in LISTS}
    assert found >= {
        "Incident.evidence.kind",
        "Incident.ranks.role",
        "Event.text_role",
        "RunStatus.ranks.state",
        "Incident.first_fault.scope",
    }


@pytest.mark.parametrize(("kind", "closed"), LISTS, ids=lambda value: ".".join(value.path) if isinstance(value, Closed) else value.__name__)
def test_a_value_that_a_closed_list_does_not_have_costs_nothing_else(kind: type[msgspec.Struct], closed: Closed) -> None:
    otherwise = closed.extra[OTHERWISE]
    assert otherwise in closed.values
    message = full(kind)
    put(message, closed.path, otherwise)
    expected = decode(kind, message.SerializeToString())
    put(message, closed.path, LATER)
    assert decode(kind, message.SerializeToString()) == expected


# ---- fields ----------------------------------------------------------------------------------------------------------------------


PLACES = [(kind, path) for kind in KINDS for path in nested(MESSAGES[kind].DESCRIPTOR)]


@pytest.mark.parametrize("field", UNKNOWN_FIELDS)
@pytest.mark.parametrize(("kind", "path"), PLACES, ids=lambda value: ".".join(value) if isinstance(value, tuple) else value.__name__)
def test_a_field_that_a_later_version_has_added_is_passed_over(kind: type[msgspec.Struct], path: Path, field: str) -> None:
    message = full(kind)
    before = message.SerializeToString()
    expected = decode(kind, before)
    added = 0
    for inner in reached(message, path):
        inner.MergeFromString(UNKNOWN_FIELDS[field])
        added += 1
    assert added
    data = message.SerializeToString()
    assert len(data) > len(before)
    assert decode(kind, data) == expected


@pytest.mark.parametrize("field", UNKNOWN_FIELDS)
@pytest.mark.parametrize("path", list(nested(pb.RollupBatch.DESCRIPTOR)), ids=".".join)
def test_a_field_that_a_batch_of_rollups_has_gained_is_passed_over(path: Path, field: str) -> None:
    row = decode(model.Rollup, full(model.Rollup).SerializeToString())
    batch = pb.RollupBatch.FromString(*encode_rollups([row]))
    batch.rollups.append(full(model.Rollup))
    for inner in reached(batch, path):
        inner.MergeFromString(UNKNOWN_FIELDS[field])
    data = batch.SerializeToString()
    assert UNKNOWN_FIELDS[field] in data
    assert decode_rollups(data) == [row, row]


def test_all_that_a_message_can_hold_is_there() -> None:
    for kind in KINDS:
        record: Any = decode(kind, full(kind).SerializeToString())
        for field in msgspec.structs.fields(kind):
            assert getattr(record, field.name) not in (None, "", 0, [], {}, ()), (kind, field.name)


def test_an_attribute_of_another_kind_is_empty() -> None:
    message: Any = full(model.Event)
    message.attributes["later"].MergeFromString(UNKNOWN_FIELDS["message"])
    found = decode(model.Event, message.SerializeToString())
    assert found.attributes["later"] == ""
    assert len(found.attributes) == 2


def test_topics_with_rolled_back_readers_lose_nothing() -> None:
    for kind, topic in TOPICS.items():
        if kind is not model.Rollup:
            message = full(kind)
            message.MergeFromString(UNKNOWN_FIELDS["text"])
            assert len(incoming(topic, message.SerializeToString())) == 1, topic
    assert {EVENTS, DEAD_LETTERS} < set(TOPICS.values())
