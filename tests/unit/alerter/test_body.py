"""Bodies stay below what receivers take, and keep what people need."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.alerter.body import LIMIT_BYTES, message_body
from firstfault_server.alerter.messages import essence
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document
from tests.unit.alerter.stand import settled

BIG: dict[str, dict[str, Any]] = {
    "stack": {"trace": "frame\n" * 20_000},
    "stderr": {"stderr": ["x" * 4000] * 200},
    "wide characters": {"stderr": ["训练失败" * 200] * 200},
    "evidence": {"evidence": [model.Evidence(id=str(n), kind="log", text="y" * 3000) for n in range(40)]},
    "ranks": {"ranks": [model.RankRole(rank=n, role="initiating" if n == 4000 else "waiting", why="w" * 50) for n in range(4096)]},
    "title": {"title": "t" * 50_000},
    "nodes": {"run": model.RunRef(id="r-1", nodes=[f"node-{n}" for n in range(5000)], command="c" * 30_000)},
    "candidates": {"candidates": list(range(10_000))},
    "advice": {"advice": [model.Advice(text="a" * 1000, because="b" * 1000)] * 50},
}


def _document(
    trace: str = "", stderr: tuple[str, ...] | list[str] = (), candidates: tuple[int, ...] | list[int] = (), **changes: Any
) -> Any:
    made = settled(1, **changes)
    made.first_fault.stderr_tail = list(stderr)
    made.first_fault.candidates = list(candidates)
    made.first_fault.exception = model.ExceptionInfo(type="ValueError", message="bad", stacktrace=trace)
    return {"type": "incident.opened", **incident_document(made, None, "http://api.example")}


@pytest.mark.parametrize("name", [*BIG, "all"])
def test_bodies_are_small_and_whole_json(name: str) -> None:
    changes = {key: value for big in BIG.values() for key, value in big.items()} if name == "all" else BIG[name]
    body, shown = message_body(_document(**changes))
    assert len(body) < LIMIT_BYTES
    parsed = json.loads(body)
    assert parsed["url"] == "http://api.example/v1/incidents/i-0001"
    assert parsed["title"]
    assert parsed["truncated"]
    assert parsed["first_fault"]["rank"] == 3
    assert essence(parsed) == essence(shown)


def test_small_bodies_are_not_touched() -> None:
    document = _document(trace="short")
    body, shown = message_body(document)
    assert shown is document
    assert "truncated" not in json.loads(body)


def test_stacks_go_before_stderr_and_stderr_before_evidence() -> None:
    body, _ = message_body(_document(**BIG["stack"], stderr=["line"] * 100, evidence=[model.Evidence(id="e", kind="log", text="y" * 900)]))
    parsed = json.loads(body)
    assert parsed["truncated"] == ["first_fault.exception.stacktrace"]
    assert len(parsed["first_fault"]["stderr_tail"]) == 100
    body, _ = message_body(_document(**BIG["stderr"], evidence=[model.Evidence(id="e", kind="log", text="y" * 900)]))
    parsed = json.loads(body)
    assert parsed["truncated"] == ["first_fault.exception.stacktrace", "first_fault.stderr_tail"]
    assert len(parsed["evidence"][0]["text"]) == 900


def test_who_started_it_is_kept_among_thousands_of_ranks() -> None:
    body, _ = message_body(_document(**BIG["ranks"]))
    assert [role["rank"] for role in json.loads(body)["ranks"]] == [4000]


def test_the_document_that_was_given_is_left_alone() -> None:
    document = _document(**BIG["evidence"])
    message_body(document)
    assert len(document["evidence"]) == 40


@given(st.text(), st.lists(st.text(), max_size=50), st.integers(0, 40_000))
def test_any_text_makes_a_small_body(title: str, stderr: list[str], repeated: int) -> None:
    clean = title.encode("utf-8", "replace").decode()
    body, _ = message_body(
        _document(title=clean * (1 + repeated // 100), stderr=[line.encode("utf-8", "replace").decode() for line in stderr])
    )
    assert len(body) < LIMIT_BYTES
    json.loads(body)
