"""The verdict of the demonstration: one incident with the right rank, or exit status 1."""

import json
import signal
import sys
from typing import Any

import pytest

from firstfault_server.cli import demo
from firstfault_server.cli.demo import _judge
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document
from firstfault_server.demo.plan import Plan
from tests.contract.records import incident

PLAN = Plan()


def _found(*ranks: int | None) -> list[dict[str, Any]]:
    return [incident_document(incident(number, first_fault=model.FirstFault(rank=rank))) for number, rank in enumerate(ranks)]


@pytest.mark.parametrize(
    ("ranks", "status"),
    [([PLAN.fault_rank], 0), ([], 1), ([PLAN.fault_rank, PLAN.fault_rank], 1), ([PLAN.fault_rank + 1], 1), ([None], 1)],
)
def test_only_one_incident_with_the_right_rank_will_do(ranks: list[int | None], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert _judge(_found(*ranks), PLAN, "json") == status
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["items"]) == len(ranks)
    assert captured.err.startswith("demo: ")


@pytest.mark.parametrize(
    ("terminal", "asked", "form"),
    [(True, [], "table"), (False, [], "json"), (True, ["-o", "jsonl"], "jsonl"), (False, ["-o", "table"], "table")],
)
def test_only_a_terminal_gets_a_table_unasked(terminal: bool, asked: list[str], form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[str] = []

    def judged(_folder: object, chosen: str, _stay: bool) -> int:
        forms.append(chosen)
        return 0

    monkeypatch.setattr(demo, "_demo", judged)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert demo.main(asked) == 0
    assert forms == [form]
