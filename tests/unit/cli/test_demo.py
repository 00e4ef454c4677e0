"""The verdict of the demonstration: one incident with the right rank, or exit status 1."""

import json
from typing import Any

import pytest

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
