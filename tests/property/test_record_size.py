"""However much senders write, incidents and records of runs stay small enough to send, store and read."""

from typing import Final

import msgspec
import pytest

from firstfault import conventions as names
from firstfault_server.core import model
from tests.property.scripts import Driver, Script, at

HUGE: Final = 100_000
LARGEST_INCIDENT: Final = 200_000
"""Characters as JSON. Most of it is the stack and the 200 last lines of stderr."""
LARGEST_RUN: Final = 40_000
NAMES: Final = sorted({value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)})
FREE: Final = ("run_name", "stage", "launcher", "owner", "job_id", "command", "service")
"""What of an identity no decoder bounds."""
WORDS: Final = ("x", "ä", "\N{FIRE}", "two words ", "Xid ", "a line\n")


def flooding(word: str, kernel: bool) -> Script:
    """A rank that says everything it can at great length, and fails; every known attribute is as long as that."""
    script = Script(2)
    script.train(1, 5)
    text = (word * (HUGE // len(word) + 1))[:HUGE]
    long: dict[str, model.Attribute] = dict.fromkeys(NAMES, text)
    who = msgspec.structs.replace(
        script.identity(1), log_paths=tuple(f"{number}{text}" for number in range(40)), **dict.fromkeys(FREE, text)
    )
    told: dict[str, model.Attribute] = {
        names.EXCEPTION_FATAL: True,
        names.COLLECTIVE_MISSING: ["1"],
        names.STDERR_TAIL: [text] * 300,
    }
    for name in (names.PHASE, names.COLLECTIVE, names.LOG, names.HEARTBEAT, names.CHECKPOINT, "other", names.EXCEPTION, names.EXIT):
        log = model.LogRecord(time_ns=at(6), event_name=name, severity=21, body=text, attributes={**long, **told})
        script.send(6, who, logs=[log])
    script.exit(6.5, 1, "failed", code=1)
    if kernel:
        script.kernel(6.4, script.node(1), names.XID, f"NVRM: Xid (PCI:0000:65:00): 79, {text}", XID_CODE=79, GPU_UUID=text)
    script.beats(6, 20, ranks=[0])
    return script


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("word", WORDS)
def test_huge_texts_do_not_make_huge_records(word: str, kernel: bool) -> None:
    outcome = Driver().play([flooding(word, kernel)], 20)
    assert outcome.failures == {}
    said = {row.kind for one in outcome.revisions for row in one.evidence}
    assert said >= {"exception", "log", "signal", *(["node"] if kernel else [])}, "it was about what the rank said"
    assert max(characters(one) for one in outcome.revisions) < LARGEST_INCIDENT
    assert max(characters(one) for one in outcome.runs.values()) < LARGEST_RUN


def test_what_was_cut_is_marked() -> None:
    script = Script(1)
    script.train(1, 5)
    script.exception(6, 0, "E" * HUGE, "m" * HUGE)
    script.exit(6.1, 0, "failed", code=1)
    exception = Driver().play([script], 30).only().first_fault.exception
    assert exception is not None
    assert (len(exception.type), exception.type[-2:]) == (256, "E…")
    assert "characters left out" in exception.message and "characters left out" in exception.stacktrace


def test_what_is_not_long_stays_as_it_was() -> None:
    script = Script(1)
    script.train(1, 5)
    script.exception(6, 0, "E" * 256, "m" * 8192)
    script.exit(6.1, 0, "failed", code=1)
    exception = Driver().play([script], 30).only().first_fault.exception
    assert exception is not None
    assert (exception.type, exception.message) == ("E" * 256, "m" * 8192)


def characters(record: msgspec.Struct) -> int:
    """Length as JSON."""
    return len(msgspec.json.encode(record).decode())
