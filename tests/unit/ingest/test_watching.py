"""Whether the log takes appends is known soon, also while an append hangs."""

import asyncio
from collections.abc import Sequence

import pytest

from firstfault_server.ingest.watching import PATIENCE_S, WatchedLog
from firstfault_server.ports import LogEntry, StoreUnavailable
from tests.contract.logs import entry


class Slow:
    """A log whose appends end when they are told to; time is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waiting: list[asyncio.Future[None]] = []
        self.log = WatchedLog(self, monotonic=lambda: self.now_s)

    async def append(self, _entries: Sequence[LogEntry]) -> None:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]

    def read(self, _after: str | None, _limit_bytes: int) -> list[tuple[str, LogEntry]]:
        raise NotImplementedError

    def wait(self, _after: str | None, _timeout_s: float) -> bool:
        raise NotImplementedError

    def prune(self, _before: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    async def begin(self) -> asyncio.Task[None]:
        """Return when an append is under way."""
        before = len(self.waiting)
        task = asyncio.create_task(self.log.append([entry(1)]))
        while len(self.waiting) == before:
            await asyncio.sleep(0)
        return task

    async def durable(self, task: asyncio.Task[None], place: int) -> None:
        """Let an append end well."""
        self.waiting[place].set_result(None)
        await task


def test_an_append_that_hangs_is_a_problem_until_one_succeeds() -> None:
    async def scenario() -> None:
        slow = Slow()
        assert slow.log.problem == "nothing was appended yet"
        await slow.durable(await slow.begin(), 0)
        assert slow.log.problem == ""
        slow.now_s += 60
        assert slow.log.problem == "", "nobody has sent anything"
        hanging = await slow.begin()
        slow.now_s += PATIENCE_S
        assert slow.log.problem == ""
        slow.now_s += 1
        assert slow.log.problem == "nothing became durable for 3 s"
        await slow.durable(hanging, 1)
        assert slow.log.problem == ""

    asyncio.run(scenario())


def test_appends_that_are_slow_and_succeed_are_no_problem() -> None:
    async def scenario() -> None:
        slow = Slow()
        tasks = [await slow.begin()]
        for place in range(10):
            slow.now_s += PATIENCE_S * 0.75
            tasks.append(await slow.begin())
            if place:
                await slow.durable(tasks[place - 1], place - 1)
                assert slow.log.problem == ""
        for place in (9, 10):
            await slow.durable(tasks[place], place)

    asyncio.run(scenario())


def test_a_refused_append_is_a_problem_until_one_succeeds() -> None:
    async def scenario() -> None:
        slow = Slow()
        await slow.durable(await slow.begin(), 0)
        refused = await slow.begin()
        slow.waiting[1].set_exception(StoreUnavailable("no broker"))
        with pytest.raises(StoreUnavailable):
            await refused
        assert slow.log.problem == "no broker"
        again = await slow.begin()
        assert slow.log.problem == "no broker"
        await slow.durable(again, 2)
        assert slow.log.problem == ""

    asyncio.run(scenario())


def test_a_sender_that_went_away_leaves_no_problem() -> None:
    async def scenario() -> None:
        slow = Slow()
        await slow.durable(await slow.begin(), 0)
        gone = await slow.begin()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        slow.now_s += 60
        assert slow.log.problem == ""

    asyncio.run(scenario())
