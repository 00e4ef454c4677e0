"""The receivers' common core: back-pressure, keys over time, the receive clock."""

import asyncio
from pathlib import Path

import pytest

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.ingest.access import Denied, bind_allowed
from firstfault_server.ingest.clock import ReceiveClock, follow_others, write_clock_records
from firstfault_server.ingest.quota import BURST_S, LONGEST_WAIT_S, OverQuota
from firstfault_server.ingest.receiver import Busy, Limits
from firstfault_server.ports import StoreUnavailable
from tests.unit.ingest.stand import Stand, StillClock
from tests.unit.wire.requests import NOW, SECOND, logs, metrics

BODY = metrics({"train.loss": [(NOW, 1.0)]}).SerializeToString()


def test_a_full_queue_refuses_and_takes_again_when_it_has_drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()
    append = FileLog.append

    async def slow(self: FileLog, entries: object) -> None:
        await gate.wait()
        await append(self, entries)  # type: ignore[arg-type]

    monkeypatch.setattr(FileLog, "append", slow)
    made = Stand(tmp_path, Limits(queue_bytes=3 * len(BODY), retry_after_s=3))

    async def scenario() -> None:
        waiting = [asyncio.create_task(made.receive("metrics", BODY)) for _ in range(2)]
        while made.count("firstfault_ingest_queue_bytes") < 2 * len(BODY):
            await asyncio.sleep(0)
        with pytest.raises(Busy) as caught:
            await asyncio.gather(*(made.receive("metrics", BODY) for _ in range(2)))
        assert caught.value.retry_after_s == 3
        gate.set()
        await asyncio.gather(*waiting)
        await made.receive("metrics", BODY)

    asyncio.run(scenario())
    assert made.count("firstfault_ingest_queue_bytes") == 0
    made.log.close()


def test_a_body_takes_its_room_before_it_is_read(tmp_path: Path) -> None:
    made = Stand(tmp_path, Limits(queue_bytes=1000))
    with made.receiver.reserve() as first, made.receiver.reserve() as second:
        first.grow(600)
        with pytest.raises(Busy):
            second.grow(600)
        second.grow(400)
        first.grow(500)
    assert made.count("firstfault_ingest_queue_bytes") == 0
    with made.receiver.reserve() as alone:
        alone.grow(5000)
    made.log.close()


def test_a_tenant_above_its_quota_waits_and_holds_up_nobody(tmp_path: Path) -> None:
    made = Stand(tmp_path, Limits(tenant_bytes_per_s=len(BODY)))
    flooding, other = made.key("flood", tenant="flooding"), made.key("other", tenant="other")
    crash = logs([{"body": "ValueError: no label"}]).SerializeToString()

    async def sent(tenant: str) -> int:
        """How many requests in a row are taken."""
        for number in range(100):
            try:
                await made.receive("metrics", BODY, tenant)
            except OverQuota as refused:
                assert refused.retry_after_s >= 1
                return number
        raise AssertionError("there is no end")

    async def scenario() -> None:
        assert await sent(flooding) == BURST_S
        await made.receive("logs", crash, flooding)
        assert await sent(other) == BURST_S
        made.seconds += 3
        assert await sent(flooding) == 3
        made.seconds += 1000
        assert await sent(flooding) == BURST_S

    asyncio.run(scenario())
    made.log.close()


def test_a_request_is_never_too_large_for_its_quota(tmp_path: Path) -> None:
    made = Stand(tmp_path, Limits(tenant_bytes_per_s=1))

    async def scenario() -> None:
        await made.receive("metrics", BODY)
        with pytest.raises(OverQuota) as refused:
            await made.receive("metrics", BODY)
        assert refused.value.retry_after_s == min(LONGEST_WAIT_S, len(BODY) - BURST_S)

    asyncio.run(scenario())
    made.log.close()


def test_a_revoked_key_is_refused_within_seconds_and_a_new_one_taken(tmp_path: Path) -> None:
    made = Stand(tmp_path)

    async def allowed(header: str) -> bool:
        try:
            await made.access.sender(header)
        except Denied:
            return False
        return True

    async def scenario() -> None:
        header = made.key("one")
        assert await allowed(header)
        assert not await allowed("Bearer ffk_two")
        made.key("one", revoked_ns=NOW)
        made.key("two")
        made.seconds += 3
        assert not await allowed(header)
        assert await allowed("Bearer ffk_two")

    asyncio.run(scenario())
    made.log.close()


def test_revoking_the_last_key_does_not_open_the_door(tmp_path: Path) -> None:
    made = Stand(tmp_path)
    assert asyncio.run(made.access.sender(None)).tenant == "default"
    made.key("only", revoked_ns=NOW)
    made.seconds += 3
    with pytest.raises(Denied):
        asyncio.run(made.access.sender(None))
    made.log.close()


@pytest.mark.parametrize(
    ("host", "without_keys"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_without_keys_only_loopback_is_listened_on(host: str, without_keys: bool) -> None:
    assert bind_allowed(host, has_keys=False) is without_keys
    assert bind_allowed(host, has_keys=True)


def test_receive_time_never_goes_back() -> None:
    wall, passed = StillClock(NOW), [0]
    clock = ReceiveClock(wall, not_before_ns=NOW + 10 * SECOND, monotonic_ns=lambda: passed[0])
    times = [clock.now_ns()]
    for _ in range(40):
        passed[0] += SECOND
        wall.at += SECOND
        times.append(clock.now_ns())
    assert times[0] == NOW + 10 * SECOND
    assert times == sorted(times)
    assert times[-1] == wall.at
    wall.at -= 3600 * SECOND
    assert clock.now_ns() >= times[-1]


def test_clock_records_carry_receive_time_through_the_log(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    wall = StillClock(NOW)

    async def scenario() -> None:
        task = asyncio.create_task(write_clock_records(log, ReceiveClock(wall, monotonic_ns=lambda: 0), 0.0))
        while len(log.read(None, 1 << 20)) < 3:
            wall.at += SECOND
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(scenario())
    entries = [entry for _, entry in log.read(None, 1 << 20)]
    assert {(e.signal, e.body) for e in entries} == {("clock", b"")}
    times = [e.received_ns for e in entries]
    assert times == sorted(times) and times[-1] > NOW
    log.close()


def test_a_clock_that_is_behind_the_others_goes_on_from_their_time() -> None:
    wall, passed = StillClock(), [0]
    clock = ReceiveClock(wall, monotonic_ns=lambda: passed[0])
    assert clock.catch_up(NOW - 5) == 0
    assert clock.now_ns() == NOW
    assert clock.catch_up(NOW + 3 * SECOND) == 3 * SECOND
    assert clock.now_ns() == NOW + 3 * SECOND
    passed[0] = 2 * SECOND
    wall.at += 2 * SECOND
    assert clock.now_ns() == NOW + 4 * SECOND, "at half the speed until the wall clock is there"


def test_the_newest_time_of_the_log_is_followed() -> None:
    answers: list[int | Exception] = [NOW + 7 * SECOND, StoreUnavailable("away"), NOW]
    behind: list[int] = []
    clock = ReceiveClock(StillClock(), monotonic_ns=lambda: 0)

    def newest_ns() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def follow() -> None:
        task = asyncio.create_task(follow_others(clock, newest_ns, behind.append, 0.0))
        while answers:
            await asyncio.sleep(0)
        while len(behind) < 2:
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(follow())
    assert behind == [7 * SECOND, 0]
    assert clock.now_ns() == NOW + 7 * SECOND
