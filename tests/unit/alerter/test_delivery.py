"""Delivery: order, retries with back-off, Retry-After, 410, and one opening message whatever moment the service dies at."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firstfault_server import ports
from firstfault_server.adapters import memory, sqlite
from firstfault_server.alerter.delivery import AT_ONCE, JITTER, RETRY_DELAYS_S
from firstfault_server.alerter.sinks import Outcome
from firstfault_server.alerter.sinks.webhook import WebhookSink
from tests.contract.records import SECOND_NS, FixedClock
from tests.unit.alerter.receiver import SECRET, receiving
from tests.unit.alerter.stand import ScriptedSink, Stand, settled

REFUSED = Outcome(status=500, error="the receiver answered 500")


def _stand(*outcomes: Outcome) -> tuple[Stand, ScriptedSink]:
    sink = ScriptedSink(*outcomes)
    clock = FixedClock()
    return Stand(memory.open_stores(clock), sink, clock), sink


def _round(stand: Stand) -> bool:
    return asyncio.run(stand.deliverer.round())


def test_a_message_is_delivered_once() -> None:
    stand, sink = _stand()
    stand.commit(settled(1))
    assert _round(stand)
    assert not _round(stand)
    assert [message.number for message in sink.sent] == [1]
    assert stand.messages()[0].state == "delivered"
    assert [delivery.delivered for delivery in stand.deliveries()] == [True]


def test_the_way_of_a_page_is_measured() -> None:
    stand, _ = _stand(REFUSED)
    stand.commit(settled(1, updated_at=stand.clock.time_ns - 2 * SECOND_NS))
    assert stand.hop("settled_to_planned", "opened") == (1, 2)
    stand.clock.time_ns += SECOND_NS
    assert _round(stand)
    assert stand.hop("planned_to_delivered", "opened") == (0, 0), "a try that failed"
    stand.clock.time_ns = stand.messages()[0].next_try_ns
    planned_ns = stand.messages()[0].created_ns
    assert _round(stand)
    assert stand.hop("planned_to_delivered", "opened") == (1, (stand.clock.time_ns - planned_ns) / SECOND_NS)


def test_test_messages_and_what_people_ask_for_are_no_hops() -> None:
    stand, _ = _stand()
    destination = stand.stores.access.destination("acme", "d-1")
    assert asyncio.run(stand.deliverer.test(destination)).delivered
    assert stand.hop("planned_to_delivered", "test") == (0, 0)
    old = settled(1, updated_at=stand.clock.time_ns - 7200 * SECOND_NS)
    assert stand.planner.queue_marked(old, stand.stores.triage.triage("acme", old.id))
    assert stand.hop("settled_to_planned", "opened") == (0, 0)


def test_retries_grow_apart_and_end() -> None:
    stand, sink = _stand(*[REFUSED] * 100)
    stand.commit(settled(1))
    waits: list[float] = []
    while _round(stand):
        message = stand.messages()[0]
        if message.state == "waiting":
            waits.append((message.next_try_ns - stand.clock.time_ns) / SECOND_NS)
            assert not _round(stand)
            stand.clock.time_ns = message.next_try_ns
    assert stand.messages()[0].state == "failed"
    assert len(sink.sent) == len(RETRY_DELAYS_S) + 1
    for wait, nominal in zip(waits, RETRY_DELAYS_S, strict=True):
        assert nominal * (1 - JITTER) <= wait <= nominal * (1 + JITTER)
    assert len({round(wait / nominal, 6) for wait, nominal in zip(waits, RETRY_DELAYS_S, strict=True)}) > 10
    assert len({message.body for message in sink.sent}) == len({message.id for message in sink.sent}) == 1


def test_a_receiver_that_asks_for_time_gets_it() -> None:
    stand, _ = _stand(Outcome(status=429, error="busy", retry_after_s=120.0))
    stand.commit(settled(1))
    _round(stand)
    assert stand.messages()[0].next_try_ns == stand.clock.time_ns + 120 * SECOND_NS


def test_gone_disables_the_destination_and_gives_up_what_waits() -> None:
    stand, sink = _stand(Outcome(status=410, error="gone", gone=True))
    stand.commit(settled(1), settled(2, rank=9))
    while _round(stand):
        pass
    assert len(sink.sent) == 1
    assert not stand.stores.access.destination("acme", "d-1").enabled
    assert [message.state for message in stand.messages()] == ["failed", "failed"]
    stand.commit(settled(3, id="i-0002"))
    assert stand.stores.outbox.messages("acme", "i-0002") == []
    (entry,) = stand.stores.triage.audit(ports.ListQuery(tenant="acme")).items
    assert (entry.actor, entry.action, entry.subject) == ("firstfault", "disable_destination", "d-1")


def test_a_removed_destination_gives_up_what_waits() -> None:
    stand, sink = _stand()
    stand.commit(settled(1))
    stand.stores.access.remove_destination("acme", "d-1")
    _round(stand)
    assert sink.sent == []
    assert stand.messages()[0].state == "failed"
    assert stand.deliveries()[0].error == "the destination was removed"


def test_messages_of_one_incident_keep_their_order() -> None:
    stand, sink = _stand(REFUSED)
    stand.commit(settled(1))
    stand.commit(settled(2, rank=9))
    _round(stand)
    assert not _round(stand)
    stand.clock.time_ns += 10 * SECOND_NS
    while _round(stand):
        pass
    assert [message.number for message in sink.sent] == [1, 1, 2]


def test_a_test_message_is_sent_at_once_and_recorded() -> None:
    stand, sink = _stand(REFUSED)
    destination = stand.stores.access.destination("acme", "d-1")
    delivery = asyncio.run(stand.deliverer.test(destination))
    assert not delivery.delivered
    assert [message.kind for message in sink.sent] == ["test"]
    assert not _round(stand)
    assert [entry.kind for entry in stand.deliveries()] == ["test"]


def test_the_loop_wakes_for_new_messages_and_ends_when_told() -> None:
    stand, sink = _stand()

    async def scenario() -> None:
        stop = asyncio.Event()
        loop = asyncio.create_task(stand.deliverer.run(stop))
        stand.commit(settled(1))
        stand.deliverer.wake()
        async with asyncio.timeout(10):
            while not sink.sent:
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.wait_for(loop, 10)

    asyncio.run(scenario())
    assert stand.messages()[0].state == "delivered"


def test_an_outbox_that_is_away_is_a_problem_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, sink = _stand()
    outbox, due, away = stand.stores.outbox, stand.stores.outbox.due, [True]

    def failing(now_ns: int, limit: int) -> list[ports.Message]:
        if away:
            raise ports.StoreUnavailable("the outbox is away")
        return due(now_ns, limit)

    monkeypatch.setattr(outbox, "due", failing)

    async def says(problem: str) -> None:
        async with asyncio.timeout(10):
            while stand.deliverer.problem != problem:
                stand.deliverer.wake()
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        stop = asyncio.Event()
        assert stand.deliverer.problem
        loop = asyncio.create_task(stand.deliverer.run(stop))
        await says("the outbox is away")
        stand.commit(settled(1))
        away.clear()
        await says("")
        away.append(True)
        await says("the outbox is away")
        away.clear()
        await says("")
        stop.set()
        await asyncio.wait_for(loop, 10)
        assert stand.deliverer.problem

    asyncio.run(scenario())
    assert len(sink.sent) == 1


def test_a_receiver_that_hangs_holds_up_nobody_else() -> None:
    class Hanging(ScriptedSink):
        released = asyncio.Event()

        async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
            if destination.id == "d-1":
                self.sent.append(message)
                await self.released.wait()
                return REFUSED
            return await super().send(destination, message, now_ns)

    sink = Hanging()
    clock = FixedClock()
    stand = Stand(memory.open_stores(clock), sink, clock)
    stand.commit(*[settled(1, id=f"i-{number}") for number in range(10)])
    stand.stores.access.put_destination(ports.Destination(id="d-2", tenant="acme", name="quick", url="https://example.com/"))

    async def scenario() -> None:
        stop = asyncio.Event()
        loop = asyncio.create_task(stand.deliverer.run(stop))
        async with asyncio.timeout(10):
            while len(sink.sent) < AT_ONCE:
                await asyncio.sleep(0.01)
            stand.commit(settled(1, id="i-late"))
            stand.deliverer.wake()
            while not any(message.destination == "d-2" for message in sink.sent):
                await asyncio.sleep(0.01)
        assert len([message for message in sink.sent if message.destination == "d-1"]) == AT_ONCE
        stop.set()
        sink.released.set()
        await asyncio.wait_for(loop, 10)

    asyncio.run(scenario())


def test_a_sink_that_breaks_loses_no_message() -> None:
    class Broken(ScriptedSink):
        broken = True

        async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
            if self.broken:
                raise RuntimeError("a mistake of ours")
            return await super().send(destination, message, now_ns)

    sink = Broken()
    clock = FixedClock()
    stand = Stand(memory.open_stores(clock), sink, clock)
    stand.commit(settled(1))
    assert _round(stand)
    assert stand.messages()[0].state == "waiting"
    sink.broken = False
    assert _round(stand)
    assert stand.messages()[0].state == "delivered"


def test_the_loop_outlives_a_store_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, sink = _stand()
    due = stand.stores.outbox.due
    failures = [ports.StoreUnavailable("locked")]

    def sometimes(now_ns: int, limit: int) -> list[ports.Message]:
        if failures:
            raise failures.pop()
        return due(now_ns, limit)

    monkeypatch.setattr(stand.stores.outbox, "due", sometimes)
    stand.commit(settled(1))

    async def scenario() -> None:
        stop = asyncio.Event()
        loop = asyncio.create_task(stand.deliverer.run(stop))
        async with asyncio.timeout(10):
            while not sink.sent:
                stand.deliverer.wake()
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.wait_for(loop, 10)

    asyncio.run(scenario())


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["before commit", "after commit", "before sending", "before the answer", "before recording", "never"])
def test_a_service_that_dies_at_any_step_pages_exactly_once(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service ends at each step between verdict and record; the next one replays from the last commit, as the host does."""
    clock = FixedClock()

    def life(dies: str) -> None:
        stores = sqlite.open_stores(tmp_path / "firstfault.sqlite", clock)
        sink = WebhookSink(timeout_s=5)
        stand = Stand(stores, sink, clock, url=receiver.url, secret=SECRET, allow_private=True)

        def killed(*_: object) -> None:
            raise Killed

        async def deliver() -> None:
            try:
                while await stand.deliverer.round():
                    pass
            finally:
                await sink.close()

        with monkeypatch.context() as patches:
            if dies == "before commit":
                patches.setattr(stores.checkpoint, "commit", killed)
            if dies == "after commit":
                patches.setattr(stand.deliverer, "round", killed)
            if dies == "before sending":
                patches.setattr(stores.access, "destination", killed)
            if dies in {"before the answer", "before recording"}:
                patches.setattr(stores.outbox, "record", killed)
            try:
                if stores.checkpoint.position() is None:
                    stand.commit(settled(1), settled(2))
                asyncio.run(deliver())
            except Killed:
                assert dies != "never"
            finally:
                stores.close()

    with receiving() as receiver:
        # The receiver checks signatures against the real time.
        clock.time_ns = time.time_ns()
        if step == "before the answer":
            receiver.answers = [(500, {})]
        life(step)
        clock.time_ns += 60 * SECOND_NS
        life("never")
        life("never")
        assert receiver.openings == {"i-0001.1"}
        assert len(receiver.requests) == (2 if step in {"before the answer", "before recording"} else 1)
        assert len({str(request["body"]) for request in receiver.requests}) == 1


def test_an_answer_of_the_outbox_from_before_a_try_ended_starts_no_second_one() -> None:
    clock = FixedClock()
    stores = memory.open_stores(clock)
    sent: list[str] = []
    gate, stop = asyncio.Event(), asyncio.Event()

    class Gated(ScriptedSink):
        async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
            sent.append(message.id)
            await gate.wait()
            return await super().send(destination, message, now_ns)

    stand = Stand(stores, Gated(), clock)
    stand.commit(settled(1))
    due = stores.outbox.due
    asked: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def late(now_ns: int, limit: int) -> list[ports.Message]:
            found = due(now_ns, limit)
            asked.append(len(found))
            if len(asked) == 2:
                # The try ends while this answer is on its way.
                loop.call_soon_threadsafe(gate.set)
                deadline = time.monotonic() + 30
                while stand.messages()[0].state != "delivered":
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop).result(30)
            if len(asked) == 4:
                loop.call_soon_threadsafe(stop.set)
            return found

        stand.deliverer._outbox = Late(stores.outbox, late)
        running = asyncio.create_task(stand.deliverer.run(stop))
        while len(asked) < 4:
            stand.deliverer.wake()
            await asyncio.sleep(0.001)
        await running

    asyncio.run(scenario())
    assert asked[:2] == [1, 1], "the outbox gave the message twice"
    assert sent == ["i-0001.1.d-1"]


class Late:
    """An outbox with another way to tell what is due."""

    def __init__(self, outbox: ports.Outbox, due: Callable[[int, int], list[ports.Message]]) -> None:
        self._outbox, self.due = outbox, due

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)
