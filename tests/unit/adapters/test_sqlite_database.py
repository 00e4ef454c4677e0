"""The SQLite file under pressure: full disks, limits, locks, foreign and damaged files, upgrades, kills."""

import random
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firstfault_server.adapters.sqlite import SqliteStores, open_stores, schema
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.events import SqliteContextStore
from firstfault_server.core.model import DeadLetter
from firstfault_server.core.search import And, Term, Text
from firstfault_server.ports import Commit, ListQuery, StorageFull, StoreUnavailable, walk
from tests.contract.records import DAY_NS, NOW_NS, FixedClock, event, incident, message

BIG = " ".join(f"word{number}" for number in range(400))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file lies."""
    return tmp_path / "firstfault.sqlite"


def fill(stores: SqliteStores) -> int:
    """Write events until the store is full; how many were stored."""
    stored = 0
    with pytest.raises(StorageFull):
        while stored < 100_000:
            stores.context.write_events([event(stored, body=f"{stored} {BIG}")])
            stored += 1
    return stored


def test_a_full_store_says_so_keeps_what_it_has_and_goes_on_after_pruning(path: Path) -> None:
    stores = open_stores(path, FixedClock(), max_bytes=600_000)
    stored = fill(stores)
    assert stored > 20
    with pytest.raises(StorageFull, match=r"firstfault\.sqlite: no space left .* free space"):
        stores.checkpoint.commit(
            Commit(position="1", snapshots={("run", "a"): b"x" * 400_000}, incidents=[incident(1)], messages=[message(1)])
        )
    assert stores.checkpoint.position() is None
    assert list(stores.checkpoint.snapshots()) == []
    assert stores.outbox.messages("acme", "i-0001") == []
    assert stores.incidents.incidents(ListQuery(tenant="acme"), NOW_NS).items == []
    assert len(stores.context.events(ListQuery(tenant="acme", limit=100_000)).items) == stored
    assert stores.context.prune(NOW_NS + DAY_NS) == stored
    stores.checkpoint.commit(Commit(position="2", incidents=[incident(1)]))
    assert stores.checkpoint.position() == "2"
    stores.close()


LIMITED = """
import resource, sys
from pathlib import Path
from firstfault_server.ports import Commit, ListQuery, StorageFull
from firstfault_server.adapters.sqlite import open_stores
from tests.contract.records import FixedClock, event
stores = open_stores(Path(sys.argv[1]), FixedClock())
stores.checkpoint.commit(Commit(position="before"))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
stored = 0
try:
    while stored < 10_000:
        stores.context.write_events([event(stored, body=f"{stored} " + "word " * 2000)])
        stored += 1
except StorageFull as error:
    print(stored, len(stores.context.events(ListQuery(tenant="acme", limit=100_000)).items), stores.checkpoint.position(), error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
stores.checkpoint.commit(Commit(position="after"))
print(stores.checkpoint.position())
"""


def test_a_limit_on_file_size_is_survived(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    full, after = done.stdout.splitlines()
    stored, kept, position, reason = full.split(maxsplit=3)
    assert int(stored) == int(kept) > 0
    assert position == "before"
    assert "no space left" in reason
    assert after == "after"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_file_locked_by_another_process_is_unavailable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault_server.adapters.sqlite.database.BUSY_TIMEOUT_MS", 50)
    stores = open_stores(path, FixedClock())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        stores.checkpoint.commit(Commit(position="1"))
    assert stores.checkpoint.position() is None
    other.execute("ROLLBACK")
    other.close()
    stores.checkpoint.commit(Commit(position="1"))
    assert stores.checkpoint.position() == "1"
    stores.close()


def other_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


def newer_version(path: Path) -> None:
    open_stores(path, FixedClock()).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={len(schema.MIGRATIONS) + 1}")
    connection.close()


def no_database(path: Path) -> None:
    path.write_bytes(b"this is no database " * 100)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "reason"),
    [(other_program, "another program"), (newer_version, "newer version"), (no_database, "no database"), (folder, "firstfault.sqlite")],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_alone(path: Path, make: Callable[[Path], None], reason: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreUnavailable, match=reason):
        open_stores(path, FixedClock())
    if make is no_database:
        assert path.read_bytes() == before
    if make is other_program:
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
        connection.close()


def test_its_files_are_the_owners_alone(path: Path) -> None:
    stores = open_stores(path, FixedClock())
    stores.checkpoint.commit(Commit(position="1"))
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert len(modes) == 3
    stores.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere/firstfault\.sqlite: cannot be made"):
        open_stores(tmp_path / "nowhere" / "firstfault.sqlite", FixedClock())


def test_readers_beside_a_writer_see_whole_commits(path: Path) -> None:
    stores = open_stores(path, FixedClock())
    done = threading.Event()

    def read() -> int:
        seen = 0
        while not done.is_set():
            with stores.database.read() as reader:
                (position,) = reader.execute("SELECT coalesce(max(position), '0') FROM position").fetchone()
                (revision,) = reader.execute("SELECT coalesce(max(revision), 0) FROM incident").fetchone()
            assert int(position) == revision
            assert revision >= seen
            seen = revision
        return seen

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read) for _ in range(6)]
        for number in range(1, 101):
            stores.checkpoint.commit(Commit(position=str(number), incidents=[incident(1, revision=number)]))
        done.set()
        assert all(reader.result(30) <= 100 for reader in readers)
    stores.close()


def test_opening_again_finds_everything(path: Path) -> None:
    first = open_stores(path, FixedClock())
    first.context.write_events([event(1)])
    first.checkpoint.commit(Commit(position="1", snapshots={("run", "a"): b"state"}, incidents=[incident(1)]))
    first.close()
    second = open_stores(path, FixedClock())
    assert second.context.event("acme", "e-0001") == event(1)
    assert second.checkpoint.position() == "1"
    assert list(second.checkpoint.snapshots()) == [("run", "a", b"state")]
    second.close()


def test_two_openings_at_once_make_one_schema(path: Path) -> None:
    opened: list[Database] = []
    threads = [threading.Thread(target=lambda: opened.append(Database(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for database in opened:
        database.close()


def test_after_closing_calls_are_refused(path: Path) -> None:
    stores = open_stores(path, FixedClock())
    stores.close()
    stores.close()
    for call in (stores.checkpoint.position, lambda: stores.checkpoint.commit(Commit(position="1")), stores.database.reclaim):
        with pytest.raises(StoreUnavailable, match="is closed"):
            call()


def test_a_failed_block_changes_nothing_and_the_next_one_works(path: Path) -> None:
    stores = open_stores(path, FixedClock())
    with pytest.raises(ZeroDivisionError), stores.database.write() as writer:
        writer.execute("INSERT INTO position (one, position) VALUES (1, 'x')")
        raise ZeroDivisionError
    assert stores.checkpoint.position() is None
    stores.checkpoint.commit(Commit(position="1"))
    stores.close()


def test_readers_cannot_write(path: Path) -> None:
    stores = open_stores(path, FixedClock())
    with pytest.raises(StoreUnavailable), stores.database.read() as reader:
        reader.execute("DELETE FROM position")
    stores.close()


def test_segments_split_by_size_and_day_and_are_searched_as_one(path: Path) -> None:
    database = Database(path)
    context = SqliteContextStore(database, segment_bytes=2_000)
    for number in range(30):
        context.write_events([event(number, body=f"needle {number} {'hay ' * 50}", received_ns=NOW_NS + (number // 15) * DAY_NS)])
    with database.read() as reader:
        segments: int = reader.execute("SELECT count(*) FROM segment").fetchone()[0]
    assert segments > 4
    seen = [item.id for item in walk(context.events, ListQuery(tenant="acme", where=Text(value="needle"), limit=7))]
    assert seen == [f"e-{number:04}" for number in reversed(range(30))]
    context.write_events([event(number) for number in range(30)])
    assert len(context.events(ListQuery(tenant="acme", limit=100)).items) == 30
    database.close()


def test_pruning_gives_space_back(path: Path) -> None:
    database = Database(path)
    context = SqliteContextStore(database)
    context.write_events([event(number, body=f"{number} {BIG}") for number in range(300)])
    full = database.size_bytes()
    context.prune(NOW_NS + DAY_NS)
    assert database.size_bytes() < full / 3
    database.close()
    assert path.stat().st_size < full / 3


def test_words_of_pruned_events_do_not_come_back(path: Path) -> None:
    database = Database(path)
    context = SqliteContextStore(database)
    context.write_events([event(1, body="ghost", received_ns=NOW_NS), event(2, body="other", received_ns=NOW_NS + 5)])
    context.prune(NOW_NS + 5)
    context.write_events([event(3, body="fresh")])
    assert [item.id for item in context.events(ListQuery(tenant="acme", where=Text(value="ghost"))).items] == []
    assert [
        item.id
        for item in context.events(ListQuery(tenant="acme", where=And(parts=(Term(key="run", value="r-1"), Text(value="fresh"))))).items
    ] == ["e-0003"]
    database.close()


def test_dead_letters_are_bounded_and_the_oldest_go(path: Path) -> None:
    database = Database(path)
    context = SqliteContextStore(database, dead_letter_bytes=10_000)
    noise = random.Random(1)
    for number in range(40):
        context.write_dead_letters(
            [DeadLetter(id=f"{number:02}", tenant="acme", received_ns=NOW_NS + number, reason="x", data=noise.randbytes(1000))]
        )
    kept = [letter.id for letter in context.dead_letters(ListQuery(tenant="acme")).items]
    assert 5 <= len(kept) <= 10
    assert kept == [f"{number:02}" for number in range(39, 39 - len(kept), -1)]
    database.close()


KILLED = """
import sys
from pathlib import Path
from firstfault_server.adapters.sqlite import open_stores
from firstfault_server.ports import Commit
from tests.contract.records import FixedClock, event, incident, message
stores = open_stores(Path(sys.argv[1]), FixedClock())
number = int(stores.checkpoint.position() or 0)
while True:
    number += 1
    stores.context.write_events([event(number * 10 + place) for place in range(10)])
    stores.checkpoint.commit(Commit(
        position=str(number), snapshots={("run", "a"): str(number).encode()},
        incidents=[incident(1, revision=number)], messages=[message(number)],
    ))
    print(number, flush=True)
"""


@pytest.mark.parametrize("commits", [3, 20, 57])
def test_a_kill_leaves_whole_commits_only(path: Path, commits: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline()) for _ in range(commits)][-1]
    child.kill()
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().split())])
    child.wait()
    child.stdout.close()
    stores = open_stores(path, FixedClock())
    position = int(stores.checkpoint.position() or 0)
    assert position in (acknowledged, acknowledged + 1)
    assert list(stores.checkpoint.snapshots()) == [("run", "a", str(position).encode())]
    assert stores.incidents.incident("acme", "i-0001").revision == position
    assert len(stores.incidents.revisions("acme", "i-0001")) == position
    assert [item.number for item in stores.outbox.messages("acme", "i-0001")] == list(range(1, position + 1))
    events = [item.id for item in stores.context.events(ListQuery(tenant="acme", limit=100_000)).items]
    assert len(events) == len(set(events))
    assert {f"e-{number * 10 + place:04}" for number in range(1, position + 1) for place in range(10)} <= set(events)
    stores.close()
