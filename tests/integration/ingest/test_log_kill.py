"""kill -9 while appending: what was acknowledged is there once, in order of receipt, after any number of kills."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from firstfault_server.adapters.filelog import FileLog

pytestmark = pytest.mark.integration


def acknowledged_until_killed(folder: Path, first: int, enough: int) -> list[int]:
    """Numbers that the writer said were durable before it was killed, at least `enough` of them."""
    command = [sys.executable, "-m", "tests.integration.ingest.writer_process", str(folder), str(first)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if len(said) >= enough:
                break
    finally:
        process.kill()
    said += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    assert len(said) >= enough, "the writer ended by itself"
    return [int(line) for line in said if line.endswith("\n")]


def rounds_of_kills(folder: Path, rounds: int) -> None:
    chance = random.Random(7)
    acknowledged: list[int] = []
    for _ in range(rounds):
        first = max(acknowledged, default=0) + 1_000_000
        acknowledged += acknowledged_until_killed(folder, first, chance.randrange(1, 1500))
        log = FileLog(folder, segment_bytes=200_000)
        found: Counter[int] = Counter()
        after: str | None = None
        while part := log.read(after, 1 << 20):
            after = part[-1][0]
            found.update(entry.received_ns for _, entry in part)
            assert all(entry.body == entry.received_ns.to_bytes(8, "big") * (1 + entry.received_ns % 200) for _, entry in part)
        assert log.newest_received_ns == max(found)
        assert log.counts.corrupt_frames == 0
        log.close()
        assert set(acknowledged) <= set(found)
        assert set(found.values()) == {1}


def test_acknowledged_entries_survive_kills_once(tmp_path: Path) -> None:
    rounds_of_kills(tmp_path, 3)


@pytest.mark.soak
def test_acknowledged_entries_survive_many_kills_once(tmp_path: Path) -> None:
    rounds_of_kills(tmp_path, 20)
