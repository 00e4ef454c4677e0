"""Numbers of attempts, also of runs that list the latest only."""

import pytest

from firstfault_server.core.attempts import starts
from firstfault_server.core.documents import rfc3339, run_document
from firstfault_server.core.search_fields import attempt_at
from tests.contract.records import NOW_NS, SECOND_NS, run


@pytest.mark.parametrize(
    ("attempt", "listed", "numbers"), [(1, 0, []), (1, 1, [1]), (3, 3, [1, 2, 3]), (60, 3, [58, 59, 60]), (1, 2, [1, 2])]
)
def test_the_last_start_is_that_of_the_present_attempt(attempt: int, listed: int, numbers: list[int]) -> None:
    made = run(1, attempt=attempt, attempts_started_ns=[NOW_NS + n for n in range(listed)])
    assert starts(made) == [(number, NOW_NS + n) for n, number in enumerate(numbers)]


def test_a_run_of_many_attempts_is_numbered_right() -> None:
    made = run(1, attempt=120, attempts_started_ns=[NOW_NS + n * SECOND_NS for n in range(50)])
    assert run_document(made)["attempts"][0] == {"attempt": 71, "started_at": rfc3339(NOW_NS)}
    assert run_document(made)["attempts"][-1]["attempt"] == 120
    assert [attempt_at(made, NOW_NS + n * SECOND_NS) for n in (-5, 0, 1, 49, 99)] == [71, 71, 72, 120, 120]
    assert attempt_at(run(1, attempt=7), NOW_NS) == 7
    assert attempt_at(None, NOW_NS) is None
