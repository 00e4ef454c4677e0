"""Planning by several at once and over again: each destination hears each thing once, in order, whoever planned it."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.core import model
from tests.contract.records import FixedClock
from tests.unit.alerter.stand import ScriptedSink, Stand, provisional, settled

STORY = (provisional(1), settled(2), settled(3, rank=4), settled(4, rank=4), settled(5, rank=5), settled(6, rank=5, state="resolved"))
"""What becomes of one incident: opened, corrected twice, resolved."""
TOLD = ["opened", "corrected", "corrected", "resolved"]


def _stand() -> Stand:
    clock = FixedClock()
    return Stand(memory.open_stores(clock), ScriptedSink(), clock)


def kinds(stand: Stand) -> list[str]:
    messages = stand.messages()
    assert [message.number for message in messages] == list(range(1, len(messages) + 1))
    return [message.kind for message in messages]


def marked(**marks: Any) -> model.Triage:
    return model.Triage(**{"tenant": "acme", "incident": "i-0001", "version": 1, **marks})


@given(st.lists(st.integers(min_value=0, max_value=len(STORY) - 1), max_size=6), st.integers(min_value=1, max_value=len(STORY)))
def test_revisions_that_come_again_are_no_news(back: list[int], size: int) -> None:
    stand = _stand()
    for start in range(0, len(STORY), size):
        stand.planner.queue(STORY[start : start + size])
        for place in back:
            # As after a crash: everything from some revision up to where it was is read once more.
            stand.planner.queue(STORY[min(place, start) : start + size])
    assert kinds(stand) == TOLD


class _Crash(Exception):
    pass


class _Dying:
    """An outbox whose user dies at the n-th call, before or after it was done."""

    def __init__(self, outbox: ports.Outbox, call: int, done: bool) -> None:
        self._outbox, self._left, self._done = outbox, call, done

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._done:
                raise _Crash
            answer = getattr(self._outbox, name)(*arguments)
            if self._left == 0:
                raise _Crash
            return answer

        return call


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", range(1, 20))
def test_whatever_moment_the_planner_dies_at_each_thing_is_told_once(call: int, done: bool) -> None:
    stand = _stand()
    outbox = stand.stores.outbox
    stand.planner._outbox = _Dying(outbox, call, done)
    try:
        stand.planner.queue(STORY)
    except _Crash:
        stand.planner._outbox = outbox
        stand.planner.queue(STORY)
    assert kinds(stand) == TOLD


class _Beaten:
    """An outbox where somebody else always adds his message just before."""

    def __init__(self, outbox: ports.Outbox, theirs: list[Sequence[ports.Message]]) -> None:
        self._outbox, self._theirs = outbox, theirs

    def add(self, messages: Sequence[ports.Message]) -> None:
        if self._theirs:
            self._outbox.add(self._theirs.pop(0))
        self._outbox.add(messages)

    def messages(self, tenant: str, incident_id: str) -> list[ports.Message]:
        return self._outbox.messages(tenant, incident_id)


def test_who_comes_second_to_a_number_plans_again() -> None:
    stand = _stand()
    stand.planner.queue([settled(1)])
    correction = stand.planner.plan([settled(2, rank=4)])
    stand.planner._outbox = _Beaten(stand.stores.outbox, [correction])  # type: ignore[assignment]
    assert not stand.planner.queue_marked(settled(1), marked(resolved_by="ada", resolved_at_ns=stand.clock.now_ns()))
    # The marks are read again, and nobody has stored any: so nothing more is owed.
    assert kinds(stand) == ["opened", "corrected"]


def test_a_person_resolves_while_detection_corrects() -> None:
    stand = _stand()
    stand.planner.queue([settled(1)])
    correction = stand.planner.plan([settled(2, rank=4)])
    triage = stand.stores.triage.put_triage(
        marked(version=0, resolved_by="ada", resolved_at_ns=stand.clock.now_ns()),
        ports.Audit(id="a-1", tenant="acme", time_ns=0, actor="ada", action="resolve", subject="i-0001"),
    )
    stand.planner._outbox = _Beaten(stand.stores.outbox, [correction])  # type: ignore[assignment]
    assert stand.planner.queue_marked(settled(1), triage)
    assert kinds(stand) == ["opened", "corrected", "resolved"]


def test_marks_on_a_revision_that_is_behind_what_was_told() -> None:
    stand = _stand()
    stand.planner.queue([settled(1), settled(2, rank=4)])
    assert not stand.planner.queue_marked(settled(1), marked(ack_by="ada"))
    resolved = marked(resolved_by="ada", resolved_at_ns=stand.clock.now_ns())
    assert stand.planner.queue_marked(settled(1), resolved)
    assert stand.planner.queue_marked(settled(1), marked(reopened_at_ns=stand.clock.now_ns())), "reopened"
    assert kinds(stand) == ["opened", "corrected", "resolved", "corrected"]


def test_planners_at_once_number_without_gaps() -> None:
    stand = _stand()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for place in range(len(STORY)):
                stand.planner.queue(STORY[: place + 1])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert kinds(stand)[0] == "opened"
    assert kinds(stand).count("opened") == kinds(stand).count("resolved") == 1
