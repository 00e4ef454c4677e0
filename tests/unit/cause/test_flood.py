"""More different errors than are kept: the first stay, the rest is counted, and what comes after they were survived is read again."""

from collections.abc import Iterator

import pytest

from firstfault_server.core.cause import kept
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.core.cause.log_summary import LogSummary
from firstfault_server.tables import load_tables

READER = load_tables().text_reader()
MOST = 20


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_SEEN", MOST)


def name(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in f"{number:04}")


def crash(place: str, message: str, head: str = "") -> Iterator[str]:
    yield f"{head}Traceback (most recent call last):"
    yield f'{head}  File "/w/{place}.py", line 3, in {place}'
    yield f"{head}    raise ValueError(error)"
    yield f"{head}ValueError: {message}"


def flood(count: int) -> Iterator[str]:
    for number in range(count):
        yield from crash(name(number), f"{name(number)} is wrong")


def read(*lines: str) -> LogSummary:
    log = LogReader(READER, "job.log")
    for number, line in enumerate(lines, 1):
        log.feed(line, number)
    return log.close()


def test_the_first_are_kept_and_the_rest_is_counted() -> None:
    found = read(*flood(3 * MOST))
    assert [seen.text for seen in found.seen] == [f"ValueError: {name(number)} is wrong" for number in range(MOST)]
    assert found.dropped == 2 * MOST


def test_in_the_middle_of_a_flood_ranks_restarts_and_the_kernel_are_noticed() -> None:
    found = read(
        *flood(2 * MOST),
        *crash("other", "bad", "[rank7]: "),
        "[12.345678] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.",
        "restarting worker group",
        *flood(1),
    )
    assert found.ranks == [7]
    assert found.kernel
    assert found.attempts == 2


def test_what_follows_a_flood_that_training_survived_is_read() -> None:
    found = read(*flood(3 * MOST), *(f"step {number} loss 0.5" for number in range(5)), *crash("late", "the last word"))
    assert "ValueError: the last word" in [seen.text for seen in found.seen]
    assert len(found.seen) == MOST
    assert found.seen[-1].survived == 0


def test_one_stack_with_ever_other_words_is_one_observation_that_counts() -> None:
    lines = [line for number in range(50) for line in crash("load", f"cannot read {name(number)}")]
    found = read(*lines, *crash("load", "[rank3] cannot read"))
    assert [(seen.text, seen.count) for seen in found.seen] == [("ValueError: cannot read aaaa", 51)]
    assert found.dropped == 0


def test_one_stack_survived_and_seen_again_counts_from_then_on() -> None:
    once = list(crash("load", "cannot read a"))
    found = read(*once, *(f"step {number} loss 0.5" for number in range(5)), *crash("load", "cannot read b"))
    (seen,) = found.seen
    assert (seen.count, seen.survived, seen.line) == (2, 0, 10)
