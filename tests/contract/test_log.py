"""What every Log promises."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firstfault_server.ports import Log, StoreUnavailable
from tests.contract.logs import NOW_NS, Place, by_process, clock, entry, everything, file_place, kafka_place, put

# Fetching and starting the server may be part of the first test.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(params=["file", "kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty log, one adapter after the other."""
    opened = file_place(tmp_path / "log") if request.param == "file" else kafka_place(request.getfixturevalue("kafka_address"))
    yield opened
    opened.close()


@pytest.fixture
def log(place: Place) -> Log:
    """The log, opened."""
    return place.open()


def test_an_empty_log_has_nothing_and_says_so_at_once(log: Log) -> None:
    assert log.read(None, 1 << 20) == []
    assert not log.wait(None, 0.0)


def test_everything_comes_back_and_each_process_in_its_order(log: Log) -> None:
    entries = [entry(n) for n in range(60)]
    put(log, *entries[:25])
    put(log, *entries[25:26])
    put(log, *entries[26:])
    found = everything(log)
    assert by_process(found) == by_process([("", each) for each in entries])


def test_positions_are_unique_and_sort_within_a_process(log: Log) -> None:
    put(log, *(entry(n) for n in range(60)))
    found = everything(log, limit_bytes=100)
    assert len({position for position, _ in found}) == 60
    for process in {each.process for _, each in found}:
        positions = [position for position, each in found if each.process == process]
        assert positions == sorted(positions)


def test_reading_goes_on_from_any_position(log: Log) -> None:
    put(log, *(entry(n) for n in range(20)))
    whole = everything(log)
    for taken in (1, 7, 19, 20):
        rest = everything(log, after=whole[taken - 1][0])
        assert by_process(whole[:taken] + rest) == by_process(whole)
        assert len(rest) == 20 - taken


def test_reading_again_gives_the_same_positions(log: Log) -> None:
    put(log, *(entry(n, process="p") for n in range(10)))
    assert everything(log) == everything(log)


def test_what_is_appended_later_is_read_after_the_last_position(log: Log) -> None:
    put(log, *(entry(n) for n in range(5)))
    last = everything(log)[-1][0]
    assert log.read(last, 1 << 20) == []
    put(log, entry(5))
    assert [each for _, each in log.read(last, 1 << 20)] == [entry(5)]


def test_a_limit_bounds_what_one_read_returns(log: Log) -> None:
    put(log, *(entry(n, body=bytes(1000)) for n in range(50)))
    first = log.read(None, 5000)
    assert 1 <= len(first) <= 6
    assert len(everything(log, limit_bytes=5000)) == 50


def test_an_entry_larger_than_the_limit_is_read_whole(log: Log) -> None:
    large = entry(1, process="p", body=bytes(range(256)) * 20_000)
    put(log, large, entry(2, process="p"))
    assert [each for _, each in everything(log, limit_bytes=64)] == [large, entry(2, process="p")]


NAMES_AND_BODIES = [
    ("acme", "p", b""),
    ("acme", "a/b", b"\x00\xff"),
    ("a/b", "c", b"x"),
    ("größe", "процесс", b"x"),
    ("acme", "", b"x"),
    ("acme", "\x00", b"x"),
]


def test_names_and_bodies_survive_unchanged(log: Log) -> None:
    written = [entry(n, process, body, tenant) for n, (tenant, process, body) in enumerate(NAMES_AND_BODIES)]
    put(log, *written)
    assert sorted((each for _, each in everything(log)), key=lambda each: each.received_ns) == written


def test_tenants_with_equal_processes_are_told_apart(log: Log) -> None:
    entries = [entry(n, process="p", tenant=tenant) for n in range(3) for tenant in ("acme", "acme/p", "zeta")]
    put(log, *entries)
    assert by_process(everything(log)) == by_process([("", each) for each in entries])


def test_receive_time_is_kept_to_the_millisecond_and_never_rounded_up(log: Log) -> None:
    received_ns = NOW_NS + 1_999_999
    put(log, msgspec.structs.replace(entry(1), received_ns=received_ns))
    read_ns = everything(log)[0][1].received_ns
    assert received_ns - 1_000_000 < read_ns <= received_ns


def test_a_clock_record_reaches_every_partition(place: Place, log: Log) -> None:
    put(log, *(entry(n) for n in range(10)), clock(10), clock(11))
    found = Counter(each.received_ns for _, each in everything(log) if each == clock(10) or each == clock(11))
    assert found == {clock(10).received_ns: place.partitions, clock(11).received_ns: place.partitions}


def test_many_senders_at_once_lose_nothing(log: Log) -> None:
    async def many() -> None:
        await asyncio.gather(*(log.append([entry(2 * n), entry(2 * n + 1)]) for n in range(200)))

    asyncio.run(many())
    assert sorted(each.received_ns for _, each in everything(log)) == [entry(n).received_ns for n in range(400)]


def test_senders_in_several_threads_lose_nothing(log: Log) -> None:
    threads = [threading.Thread(target=put, args=(log, *(entry(n, process=f"p-{k}") for n in range(50)))) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = by_process(everything(log))
    assert found == {("acme", f"p-{k}"): [entry(n, process=f"p-{k}") for n in range(50)] for k in range(4)}


def test_a_cancelled_sender_harms_nobody(log: Log) -> None:
    async def scenario() -> None:
        gone = asyncio.create_task(log.append([entry(1, process="p")]))
        stays = asyncio.create_task(log.append([entry(2, process="p")]))
        await asyncio.sleep(0)
        gone.cancel()
        await stays
        await log.append([entry(3, process="p")])

    asyncio.run(scenario())
    assert [each for _, each in everything(log)][-2:] == [entry(2, process="p"), entry(3, process="p")]


def test_nothing_to_append_is_no_error(log: Log) -> None:
    put(log)
    assert log.read(None, 1 << 20) == []


def test_wait_returns_when_something_arrives(log: Log) -> None:
    put(log, entry(1))
    last = everything(log)[-1][0]
    assert not log.wait(last, 0.05)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(log.wait(last, 30.0)))
    waiting.start()
    put(log, entry(2))
    waiting.join()
    assert answers == [True]
    assert [each for _, each in log.read(last, 1 << 20)] == [entry(2)]


def test_wait_never_hides_an_entry_from_the_next_read(log: Log) -> None:
    put(log, *(entry(n) for n in range(10)))
    found: list[tuple[str, object]] = []
    while log.wait(found[-1][0] if found else None, 0.0):
        found += log.read(found[-1][0] if found else None, 10)
    assert len(found) == 10


def test_a_closed_log_ends_a_wait_and_refuses_entries(log: Log) -> None:
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(log.wait(None, 60.0)))
    waiting.start()
    log.close()
    waiting.join(30.0)
    assert answers == [False]
    with pytest.raises(StoreUnavailable, match="closed"):
        put(log, entry(1))
    log.close()


def test_a_log_opened_again_has_what_was_acknowledged_and_goes_on(place: Place) -> None:
    log = place.open()
    put(log, *(entry(n) for n in range(10)))
    last = everything(log)[-1][0]
    log.close()
    again = place.open()
    assert again.read(last, 1 << 20) == []
    put(again, entry(10))
    assert [each for _, each in everything(again, after=last)] == [entry(10)]
    assert len(everything(again)) == 11


def test_prune_never_takes_what_lies_after_the_position(log: Log) -> None:
    put(log, *(entry(n) for n in range(20)))
    whole = everything(log)
    log.prune(whole[11][0])
    assert by_process(everything(log, after=whole[11][0])) == by_process(whole[12:])
    log.prune(whole[-1][0])
    assert log.read(whole[-1][0], 1 << 20) == []
    assert not log.wait(whole[-1][0], 0.0)
    put(log, entry(20))
    assert everything(log)[-1][1] == entry(20)
    assert [each for _, each in everything(log, after=whole[-1][0])] == [entry(20)]


@pytest.mark.parametrize("text", ["nonsense", "", "0-zz", "-"])
def test_what_is_no_position_is_refused(log: Log, text: str) -> None:
    put(log, entry(1))
    with pytest.raises(ValueError, match=r".+"):
        log.read(text or "/", 1 << 20)
