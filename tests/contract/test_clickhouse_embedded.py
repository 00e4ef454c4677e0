"""The embedded ClickHouse engine under kills, second owners and missing packages; always in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

WRITER: Final = """
import sys
from pathlib import Path
from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, embedded_engine
from tests.contract.records import rollup
store = ClickHouseAggregateStore(embedded_engine(Path(sys.argv[1])))
batch, most = int(sys.argv[2]), int(sys.argv[3])
print("open", flush=True)
while batch < most:
    store.write_rollups([rollup(n % 500, process=f"p-{n % 7}", position=f"{batch:06}.{n:04}") for n in range(1000)])
    batch += 1
    print(batch, flush=True)
ranks = store.ranks("acme", "r-1", "train.loss")
print("total", sum(row["count"] for row in ranks), store._engine.rows("SELECT count() FROM firstfault.rollup")[0][0])
store.close()
"""
OPENER: Final = """
import sys
from pathlib import Path
from firstfault_server.adapters.clickhouse import embedded_engine
from firstfault_server.ports import StoreUnavailable
if sys.argv[2] == "without":
    sys.modules["chdb"] = None
try:
    engine = embedded_engine(Path(sys.argv[1]), memory_bytes=500_000_000)
except StoreUnavailable as error:
    print("unavailable", error)
else:
    caps = "SELECT value FROM system.server_settings WHERE name IN ('max_server_memory_usage', 'mark_cache_size') ORDER BY name"
    print("opened", *(value for value, in engine.rows(caps)), flush=True)
    sys.stdin.readline()
    engine.close()
"""

LIMITED: Final = """
import random, resource, sys
from pathlib import Path
from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, embedded_engine
from firstfault_server.ports import StorageFull
from tests.contract.records import rollup
noise = random.Random(1)
store = ClickHouseAggregateStore(embedded_engine(Path(sys.argv[1])))
store.write_rollups([rollup(0)])
many = [rollup(n % 500, process=f"p-{n}", position=f"{n}", sum=noise.random(), last=noise.random()) for n in range(20_000)]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.write_rollups(many)
except StorageFull as error:
    print(error)
print(sum(row["count"] for row in store.ranks("acme", "r-1", "train.loss")))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.write_rollups(many)
print(sum(row["count"] for row in store.ranks("acme", "r-1", "train.loss")))
store.close()
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def killed_rounds(path: Path, rounds: int) -> None:
    """Kill a writer in the middle, let the next one write its last batch again, and count."""
    batch = 0
    for number in range(rounds):
        writer = start(WRITER, path, batch, 1 << 30)
        assert line(writer) == "open"
        acknowledged = [int(line(writer)) for _ in range(3 + 5 * number)][-1]
        writer.kill()
        rest, _ = writer.communicate()
        # A line may be cut off by the kill; the batch behind it is then written again, as after a real crash.
        batch = max([acknowledged, *(int(text) for text in rest.splitlines(keepends=True) if text.endswith("\n"))])
    last = start(WRITER, path, batch, batch + 1)
    written, _ = last.communicate(timeout=60)
    total, stored = map(int, written.splitlines()[-1].removeprefix("total ").split())
    assert total == (batch + 1) * 1000
    assert stored >= total


def test_after_kills_every_delta_counts_once(tmp_path: Path) -> None:
    killed_rounds(tmp_path / "metrics", 2)


@pytest.mark.soak
@pytest.mark.skipif("FIRSTFAULT_SOAK" not in os.environ, reason="long")
def test_after_many_kills_every_delta_counts_once(tmp_path: Path) -> None:
    killed_rounds(tmp_path / "metrics", 12)


def test_a_second_process_is_told_why_it_cannot_open_the_folder(tmp_path: Path) -> None:
    first = start(OPENER, tmp_path / "metrics", "with")
    assert line(first) == f"opened {32 << 20} 500000000"
    second = start(OPENER, tmp_path / "metrics", "with")
    reason, _ = second.communicate(timeout=60)
    assert reason.startswith(f"unavailable {tmp_path / 'metrics'}: ")
    assert "another process has it open" in reason
    first.communicate("\n", timeout=60)
    assert first.returncode == 0
    again = start(OPENER, tmp_path / "metrics", "with")
    assert line(again).startswith("opened")
    again.communicate("\n", timeout=60)


def test_without_the_package_the_message_says_what_to_install(tmp_path: Path) -> None:
    process = start(OPENER, tmp_path / "metrics", "without")
    reason, _ = process.communicate(timeout=60)
    assert reason.startswith("unavailable metrics need the package chdb")
    assert "pip install" in reason


def test_no_room_is_said_and_survived(tmp_path: Path) -> None:
    process = start(LIMITED, tmp_path / "metrics")
    printed, _ = process.communicate(timeout=60)
    reason, before, after = printed.splitlines()
    assert reason.startswith(f"{tmp_path / 'metrics'}: no space left")
    assert (before, after) == ("1", "20001")
