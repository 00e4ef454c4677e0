"""Records of a later version are read as far as this version knows them, from topics and from stores."""

import copy
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from firstfault_server import ports
from firstfault_server.adapters.elasticsearch import documents
from firstfault_server.adapters.sqlite import encoding
from firstfault_server.core import later, model
from firstfault_server.core.model.base import OTHERWISE
from tests.unit.wire.later import closed_lists

STORED = (
    *(model.Event, model.Incident, model.RunStatus, model.DeadLetter, model.Triage, model.Silence),
    *(ports.Audit, ports.AccessKey, ports.Destination, ports.Message, ports.Delivery),
)
"""Whatever stores keep as a record."""
KEY = ports.AccessKey(id="k", tenant="t", name="n", secret_hash="h", scopes=["read", "write"], created_ns=1)
MESSAGE = ports.Message(
    id="m", tenant="t", destination="d", incident="i", number=1, kind="corrected", revision=1, body=b"\xff", created_ns=1
)
INCIDENT = model.Incident(
    id="i",
    revision=1,
    tenant="t",
    run=model.RunRef(id="r"),
    symptom="s",
    ranks=[model.RankRole(rank=0, role="unknown", why="spoke"), model.RankRole(rank=1, role="waiting")],
    evidence=[model.Evidence(id="e", kind="log", text="t", rank=0)],
    opened_at=1,
    updated_at=2,
)


def written_later(record: msgspec.Struct) -> dict[str, Any]:
    """The record as a later version might have written it."""
    made: dict[str, Any] = copy.deepcopy(msgspec.to_builtins(record, builtin_types=(bytes,)))
    if isinstance(record, model.Incident):
        made["ranks"][0]["role"] = made["evidence"][0]["kind"] = "later"
        made["evidence"][0]["added"] = {"one": [1]}
    elif isinstance(record, ports.AccessKey):
        made["scopes"] = ["read", "later", "write"]
    else:
        made["kind"] = "later"
    return made | {"added": 1}


@pytest.mark.parametrize("record", [KEY, MESSAGE, INCIDENT], ids=lambda record: type(record).__name__)
def test_stores_read_what_a_later_version_wrote(record: Any) -> None:
    made: Any = written_later(record)
    assert encoding.unpack(encoding.pack(made), type(record)) == record
    assert documents.unpack(documents.pack(made), type(record)) == record
    assert later.convert(made, type(record)) == record


def test_a_scope_that_is_not_known_allows_nothing() -> None:
    made = msgspec.to_builtins(KEY) | {"scopes": ["everything"]}
    assert later.convert(made, ports.AccessKey).scopes == []


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_every_closed_list_says_what_else_a_value_counts_as(kind: type[msgspec.Struct]) -> None:
    for closed in closed_lists(inspect.type_info(kind)):
        assert closed.extra is not None, closed.path
        assert closed.extra[OTHERWISE] in closed.values or (kind, closed.path) == (ports.AccessKey, ("scopes",)), closed.path


def test_what_is_no_such_record_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="evidence"):
        later.convert(msgspec.to_builtins(INCIDENT) | {"evidence": "none"}, model.Incident)
    with pytest.raises(msgspec.DecodeError):
        later.decode(b"\xc1", model.Incident)
