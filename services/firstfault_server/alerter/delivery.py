"""The delivery loop: takes due messages from the outbox, tries each, and records every try, until they arrive or are given up."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.alerter.messages import test_message
from firstfault_server.alerter.sinks import Outcome, Sink
from firstfault_server.telemetry import AlertMetrics

RETRY_DELAYS_S: Final = (1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 86_400)
"""Between tries; about three days in all, quick at first because it is a page (Standard Webhooks: retry over days, with jitter)."""
JITTER: Final = 0.2
POLL_S: Final = 1.0
"""How long a message may wait that nobody announced by `wake`."""
BATCH: Final = 500
AT_ONCE: Final = 4
"""Tries under way to one destination."""


class Deliverer:
    """Delivers what the outbox holds. One loop a process; messages of one incident and destination go in order."""

    def __init__(
        self,
        outbox: ports.Outbox,
        access: ports.AccessStore,
        sinks: Mapping[str, Sink],
        clock: ports.Clock,
        metrics: AlertMetrics,
        log: FilteringBoundLogger,
        chance: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self._outbox = outbox
        self._access = access
        self._sinks = sinks
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._chance = chance
        self._new_id = new_id
        self._wake = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._destinations: dict[str, tuple[str, str]] = {}
        self._ended: set[str] = set()
        """Tries that ended since the outbox was last asked: what it answers may be from before."""
        self.problem = "delivery has not started"
        """Why messages are not delivered; empty: they are."""

    def wake(self) -> None:
        """New messages may be due; call it on the loop's thread."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop; tries under way are finished first."""
        try:
            while not stop.is_set():
                self._wake.clear()
                try:
                    await self._start_due()
                except ports.StoreUnavailable as error:
                    self._failed("the outbox cannot be read", error)
                    self.problem = str(error)
                else:
                    self.problem = ""
                await self._pause(stop)
            await asyncio.gather(*self._running.values())
        finally:
            self.problem = "delivery has ended"
            for task in self._running.values():
                task.cancel()

    async def round(self) -> bool:
        """Try every message that is due once and wait for the results; False when there was none."""
        started = await self._start_due()
        await asyncio.gather(*started)
        return bool(started)

    async def _pause(self, stop: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(self._wake.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait(waits, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _start_due(self) -> list[asyncio.Task[None]]:
        """Start a try for what is due, as many at once as a destination may have: a slow receiver holds up nobody else."""
        self._ended.clear()
        due = await asyncio.to_thread(self._outbox.due, self._clock.now_ns(), BATCH)
        busy = Counter(self._destinations[message_id] for message_id in self._running)
        started: list[asyncio.Task[None]] = []
        for message in due:
            target = (message.tenant, message.destination)
            if message.id in self._running or message.id in self._ended or busy[target] >= AT_ONCE:
                continue
            busy[target] += 1
            self._destinations[message.id] = target
            self._running[message.id] = task = asyncio.create_task(self._guarded(message))
            started.append(task)
        return started

    async def _guarded(self, message: ports.Message) -> None:
        try:
            await self._deliver(message)
        except Exception as error:
            # The message stays in the outbox as it was and is tried again at the next look.
            self._failed("a try could not be made or recorded", error)
        else:
            self._wake.set()
        finally:
            del self._running[message.id], self._destinations[message.id]
            self._ended.add(message.id)

    def _failed(self, what: str, error: Exception) -> None:
        self._metrics.errors.labels(type(error).__name__).inc()
        details = {} if isinstance(error, ports.StoreUnavailable) else {"exc_info": error}
        self._log.error(what, reason=str(error), **details)

    async def _deliver(self, message: ports.Message) -> None:
        try:
            destination = await asyncio.to_thread(self._access.destination, message.tenant, message.destination)
        except ports.NotFound:
            await self._give_up(message, "the destination was removed")
            return
        if not destination.enabled:
            await self._give_up(message, f"the destination is disabled: {destination.disabled_why or 'by a person'}")
            return
        await self._try(destination, message)

    async def test(self, destination: ports.Destination) -> ports.Delivery:
        """Send one test message now, once, without the queue; the try is recorded like any other."""
        message = test_message(destination, f"test.{self._new_id()}", self._clock.now_ns())
        message.state = "failed"
        return await self._try(destination, message, once=True)

    async def _try(self, destination: ports.Destination, message: ports.Message, once: bool = False) -> ports.Delivery:
        started_ns = self._clock.now_ns()
        sink = self._sinks.get(destination.kind)
        outcome = (
            await sink.send(destination, message, started_ns) if sink else Outcome(error=f"no way to deliver to a {destination.kind!r}")
        )
        now_ns = self._clock.now_ns()
        message.attempts += 1
        message.last_error = outcome.error
        if outcome.delivered:
            message.state = "delivered"
        elif once or outcome.gone or message.attempts > len(RETRY_DELAYS_S):
            message.state = "failed"
        else:
            message.next_try_ns = now_ns + int(self._delay_s(message.attempts, outcome) * 1e9)
        delivery = _delivery(message, outcome, started_ns, now_ns)
        if outcome.gone and not once:
            await self._disable(destination)
        await asyncio.to_thread(self._outbox.record, message, delivery)
        self._report(message, outcome)
        return delivery

    def _delay_s(self, attempts: int, outcome: Outcome) -> float:
        delay = RETRY_DELAYS_S[attempts - 1] * self._chance.uniform(1 - JITTER, 1 + JITTER)
        return max(delay, outcome.retry_after_s or 0.0)

    async def _disable(self, destination: ports.Destination) -> None:
        destination.enabled = False
        destination.disabled_why = "the receiver answered 410 Gone"
        entry = ports.Audit(
            id=self._new_id(),
            tenant=destination.tenant,
            time_ns=self._clock.now_ns(),
            actor="firstfault",
            action="disable_destination",
            subject=destination.id,
            detail={"why": destination.disabled_why},
        )
        await asyncio.to_thread(self._access.put_destination, destination, entry)
        self._log.warning("destination disabled", destination=destination.name, reason=destination.disabled_why)

    async def _give_up(self, message: ports.Message, reason: str) -> None:
        message.state = "failed"
        message.last_error = reason
        message.attempts += 1
        now_ns = self._clock.now_ns()
        delivery = _delivery(message, Outcome(error=reason), now_ns, now_ns)
        await asyncio.to_thread(self._outbox.record, message, delivery)
        self._report(message, Outcome(error=reason))

    def _report(self, message: ports.Message, outcome: Outcome) -> None:
        result = message.state if message.state != "waiting" else "retry"
        self._metrics.tries.labels(result).inc()
        if outcome.delivered:
            if message.kind != "test":
                self._metrics.hops.took("planned_to_delivered", message.kind, [self._clock.now_ns() - message.created_ns])
            self._log.info("message delivered", message=message.id, kind=message.kind, attempt=message.attempts)
        else:
            self._log.warning(
                "message not delivered", message=message.id, kind=message.kind, attempt=message.attempts, reason=outcome.error
            )


def _delivery(message: ports.Message, outcome: Outcome, started_ns: int, ended_ns: int) -> ports.Delivery:
    return ports.Delivery(
        id=f"{message.id}.{message.attempts}",
        tenant=message.tenant,
        message=message.id,
        destination=message.destination,
        incident=message.incident,
        kind=message.kind,
        attempt=message.attempts,
        time_ns=started_ns,
        duration_s=max(ended_ns - started_ns, 0) / 1e9,
        status=outcome.status,
        error=outcome.error,
        delivered=outcome.delivered,
    )
