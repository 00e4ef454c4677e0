"""The file log: order, durability, torn tails, full disks, pruning."""

import asyncio
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.filelog.segments import Position, numbers, path_of
from firstfault_server.ports import LogEntry, StorageFull, StoreUnavailable


def entry(number: int, size: int = 10) -> LogEntry:
    body = number.to_bytes(4, "big") * size
    return LogEntry(tenant="default", process=f"p{number % 3}", signal="metrics", received_ns=1000 + number, body=body)


def put(log: FileLog, *entries: LogEntry) -> None:
    asyncio.run(log.append(entries))


def everything(log: FileLog, limit_bytes: int = 1 << 20) -> list[tuple[str, LogEntry]]:
    found: list[tuple[str, LogEntry]] = []
    while part := log.read(found[-1][0] if found else None, limit_bytes):
        found.extend(part)
    return found


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel refuses to let any file grow over `size`, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_entries_come_back_in_order_and_positions_sort(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    entries = [entry(n) for n in range(20)]
    put(log, *entries[:7])
    put(log, *entries[7:])
    found = everything(log, limit_bytes=100)
    assert [e for _, e in found] == entries
    positions = [p for p, _ in found]
    assert positions == sorted(set(positions))
    log.close()


def test_an_entry_larger_than_the_read_limit_is_read_whole(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1, 50_000), entry(2))
    assert [e.received_ns for _, e in everything(log, limit_bytes=64)] == [1001, 1002]
    log.close()


def test_reopened_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1), entry(2))
    log.close()
    again = FileLog(tmp_path)
    assert again.newest_received_ns == 1002
    put(again, entry(3))
    assert [e.received_ns for _, e in everything(again)] == [1001, 1002, 1003]
    again.close()


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_torn_tail_is_cut_and_counted(tmp_path: Path, cut: int) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1), entry(2))
    log.close()
    path = path_of(tmp_path, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    again = FileLog(tmp_path)
    assert [e.received_ns for _, e in everything(again)] == [1001]
    assert again.counts.torn_bytes > 0
    put(again, entry(3))
    assert [e.received_ns for _, e in everything(again)] == [1001, 1003]
    again.close()


def test_damaged_last_frame_is_cut(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1), entry(2))
    log.close()
    path = path_of(tmp_path, 0)
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(bytes(data))
    again = FileLog(tmp_path)
    assert [e.received_ns for _, e in everything(again)] == [1001]
    again.close()


def test_a_damaged_record_of_an_old_segment_costs_only_itself(tmp_path: Path) -> None:
    log = FileLog(tmp_path, segment_bytes=100)
    for n in range(6):
        put(log, entry(n))
    first = path_of(tmp_path, numbers(tmp_path)[0])
    data = bytearray(first.read_bytes())
    data[20] ^= 0xFF
    first.write_bytes(bytes(data))
    assert [e.received_ns for _, e in everything(log)] == [1001, 1002, 1003, 1004, 1005]
    assert log.counts.corrupt_frames == 1
    log.close()


def test_prune_removes_whole_segments_that_were_read(tmp_path: Path) -> None:
    log = FileLog(tmp_path, segment_bytes=100)
    for n in range(9):
        put(log, entry(n))
    found = everything(log)
    before = len(numbers(tmp_path))
    log.prune(found[4][0])
    assert len(numbers(tmp_path)) < before
    left = everything(log)
    assert left[-1] == found[-1]
    assert found[5] in left
    log.prune(found[-1][0])
    put(log, entry(9))
    assert everything(log)[-1][1] == entry(9)
    log.close()


def test_keep_bounds_the_size_but_never_takes_what_is_unread(tmp_path: Path) -> None:
    log = FileLog(tmp_path, segment_bytes=100)
    for n in range(9):
        put(log, entry(n))
    found = everything(log)
    log.keep(1, found[3][0])
    assert found[4] in everything(log)
    log.keep(1 << 30, found[-1][0])
    assert found[4] in everything(log)
    log.keep(1, found[-1][0])
    assert found[4] not in everything(log)
    log.close()


def test_full_disk_refuses_whole_appends_and_recovers(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1, 10_000))
    with file_size_limit(50_000):
        with pytest.raises(StorageFull, match="no space"):
            put(log, entry(2, 10_000))
        with pytest.raises(StorageFull):
            put(log, entry(3), entry(4, 20_000))
        assert [e.received_ns for _, e in everything(log)] == [1001]
    put(log, entry(5))
    assert [e.received_ns for _, e in everything(log)] == [1001, 1005]
    log.close()
    again = FileLog(tmp_path)
    assert [e.received_ns for _, e in everything(again)] == [1001, 1005]
    assert again.counts.torn_bytes == 0
    again.close()


def test_a_group_of_many_senders_is_one_write(tmp_path: Path) -> None:
    log = FileLog(tmp_path, group_interval_s=0.05)

    async def many() -> None:
        await asyncio.gather(*(log.append([entry(n)]) for n in range(200)))

    asyncio.run(many())
    assert len(everything(log)) == 200
    # Counted after those who wait are told.
    log.close()
    assert log.counts.appended == 200
    assert log.counts.groups < 50


def test_append_after_close_is_refused(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    put(log, entry(1))
    log.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        put(log, entry(2))


def test_second_opener_is_told_clearly(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    with pytest.raises(StoreUnavailable, match="in use by another process"):
        FileLog(tmp_path)
    log.close()
    FileLog(tmp_path).close()


def test_wait_returns_when_something_arrives_and_false_on_time_out(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    assert not log.wait(None, 0.0)
    put(log, entry(1))
    assert log.wait(None, 5.0)
    last = everything(log)[-1][0]
    assert not log.wait(last, 0.0)
    assert log.behind_bytes(last) == 0
    assert log.behind_bytes(None) == log.size_bytes()
    log.close()


def test_lost_files_never_make_a_position_name_two_records(tmp_path: Path) -> None:
    reached = str(Position(7, 4096))
    log = FileLog(tmp_path, beyond=reached)
    put(log, entry(1))
    assert everything(log)[0][0] > reached
    assert [e for _, e in log.read(reached, 1 << 20)] == [entry(1)]
    log.close()


def test_reading_from_the_oldest_passes_over_gaps_between_segments(tmp_path: Path) -> None:
    log = FileLog(tmp_path, segment_bytes=100)
    put(log, entry(1))
    log.close()
    log = FileLog(tmp_path, segment_bytes=100, beyond=str(Position(9, 0)))
    for n in range(2, 8):
        put(log, entry(n))
    found = everything(log)
    assert [e.received_ns for _, e in found] == [1000 + n for n in range(1, 8)]
    log.prune(found[0][0])
    assert everything(log) == found[1:]
    log.close()


def test_a_cancelled_sender_harms_nobody(tmp_path: Path) -> None:
    log = FileLog(tmp_path, group_interval_s=0.2)

    async def scenario() -> None:
        await log.append([entry(0)])
        gone = asyncio.create_task(log.append([entry(1)]))
        stays = asyncio.create_task(log.append([entry(2)]))
        await asyncio.sleep(0)
        gone.cancel()
        await stays

    asyncio.run(scenario())
    assert everything(log)[-1][1] == entry(2)
    log.close()
