"""What waits on disk."""

import os
import stat
import time
from pathlib import Path

import pytest

from firstfault._guard import LOSSES
from firstfault._http import Reply
from firstfault._spool import _CLAIM_S, KEPT_S, Spool, default_root, folder_for

JSON = "application/json"
FOLDER = "0123456789abcdef"
OK, LATER, NO = Reply("accepted", "ok"), Reply("try_again", "http_503"), Reply("refused", "http_400")
BROKEN = Reply("failed", "http_500")


class Sender:
    """Answers from a list and keeps what it was given."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.sent: list[tuple[str, bytes, str]] = []

    def __call__(self, signal: str, body: bytes, content_type: str) -> Reply:
        self.sent.append((signal, body, content_type))
        return self.replies.pop(0) if self.replies else OK


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "root" / FOLDER, limit_bytes=1000)


def _lost(reason: str) -> int:
    return LOSSES.totals().get(reason, 0)


def test_requests_come_out_once_oldest_first(spool: Spool) -> None:
    spool.put("metrics", b"a", JSON)
    spool.put("logs", b"b", "application/x-protobuf")
    sender = Sender()
    assert spool.deliver(sender) == 2 and spool.deliver(sender) == 0
    assert sender.sent == [("metrics", b"a", JSON), ("logs", b"b", "application/x-protobuf")]
    assert list(spool.folder.iterdir()) == []


def test_delivery_stops_at_the_first_that_is_to_be_tried_again(spool: Spool) -> None:
    for body in (b"a", b"b", b"c"):
        spool.put("logs", body, JSON)
    assert spool.deliver(Sender(OK, LATER)) == 1
    later = Sender()
    assert spool.deliver(later) == 2
    assert [body for _, body, _ in later.sent] == [b"b", b"c"]


def test_a_refused_request_goes_and_is_counted(spool: Spool) -> None:
    before = _lost("refused:http_400")
    spool.put("logs", b"a", JSON)
    assert spool.deliver(Sender(NO)) == 1 and len(spool) == 0
    assert _lost("refused:http_400") == before + 1


def test_logs_that_break_the_service_wait_and_hold_up_nobody(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"a", b"b"):
        spool.put("logs", body, JSON)
    spool.put("logs", b"aside", JSON, later=True)
    first = Sender(BROKEN, OK)
    assert spool.deliver(first) == 2
    assert [body for _, body, _ in first.sent] == [b"a", b"b"]
    assert len(spool) == 2 and spool.deliver(Sender()) == 0
    monkeypatch.setattr("firstfault._spool._LATER_S", -1.0)
    spool.deliver(Sender())
    again = Sender()
    spool.deliver(again)
    assert len(spool) == 0
    assert {body for _, body, _ in again.sent} <= {b"a", b"aside"}


def test_numbers_that_break_the_service_go_and_are_counted(spool: Spool) -> None:
    before = _lost("refused:http_500")
    spool.put("metrics", b"a", JSON)
    assert spool.deliver(Sender(BROKEN)) == 1 and len(spool) == 0
    assert _lost("refused:http_500") == before + 1


def test_full_loses_the_oldest_and_counts(spool: Spool) -> None:
    before = _lost("spool_full")
    for number in range(5):
        assert spool.put("logs", bytes([number]) * 300, JSON)
    sender = Sender()
    spool.deliver(sender)
    assert [body[0] for _, body, _ in sender.sent] == [2, 3, 4]
    assert _lost("spool_full") == before + 2
    assert not spool.put("logs", b"x" * 1001, JSON)
    assert _lost("spool_full") == before + 3


def test_what_is_too_old_is_dropped(spool: Spool) -> None:
    spool.put("logs", b"new", JSON)
    old = f"{time.time_ns() - int((KEPT_S + 60) * 1e9):020d}-1-1-logs.json.gz"
    (spool.folder / old).write_bytes(b"old")
    sender = Sender()
    spool.deliver(sender)
    assert [body for _, body, _ in sender.sent] == [b"new"] and list(spool.folder.iterdir()) == []


def test_two_processes_do_not_deliver_the_same_request(spool: Spool) -> None:
    spool.put("logs", b"a", JSON)
    other = Spool(spool.folder)
    seen = Sender()

    def while_sending(signal: str, body: bytes, content_type: str) -> Reply:
        other.deliver(seen)
        return OK

    assert spool.deliver(while_sending) == 1
    assert seen.sent == []


def test_the_claim_of_a_dead_process_is_given_back(spool: Spool) -> None:
    spool.put("logs", b"a", JSON)
    (path,) = spool.folder.iterdir()
    claimed = path.rename(path.with_name(path.name + ".claimed"))
    assert spool.deliver(Sender()) == 0
    past = time.time() - _CLAIM_S - 1
    os.utime(claimed, (past, past))
    spool.deliver(Sender())
    sender = Sender()
    spool.deliver(sender)
    assert [body for _, body, _ in sender.sent] in ([b"a"], [])
    assert len(spool) == 0


def test_strangers_are_left_alone(spool: Spool) -> None:
    spool.put("logs", b"a", JSON)
    (spool.folder / "README").write_text("mine")
    (spool.folder / "x.partial").write_bytes(b"half")
    assert spool.deliver(Sender()) == 1
    assert sorted(path.name for path in spool.folder.iterdir()) == ["README", "x.partial"]


def test_the_limit_holds_for_all_destinations_together(spool: Spool) -> None:
    other = Spool(spool.folder.with_name("f" * 16), limit_bytes=1000)
    other.put("logs", b"o" * 600, JSON)
    spool.put("logs", b"s" * 600, JSON)
    assert (len(other), len(spool)) == (0, 1)


def test_a_full_spool_deletes_nothing_that_is_not_its_own(spool: Spool) -> None:
    root = spool.folder.parent
    for folder in (root / "logs", spool.folder):
        folder.mkdir(parents=True)
        (folder / "weights.gz").write_bytes(b"w" * 2000)
        (folder / f"{1:020d}-1-1-models.json.gz").write_bytes(b"w" * 2000)
    for _ in range(5):
        spool.put("logs", b"s" * 600, JSON)
    assert len(list((root / "logs").iterdir())) == 2 and len(list(spool.folder.iterdir())) == 3


def test_only_this_user_can_read_it(spool: Spool) -> None:
    spool.put("logs", b"a", JSON)
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700


def test_a_disk_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    before = sum(count for reason, count in LOSSES.totals().items() if reason.startswith("spool_error"))
    spool = Spool(blocked / FOLDER)
    assert not spool.put("logs", b"a", JSON)
    assert spool.deliver(Sender()) == 0
    assert sum(count for reason, count in LOSSES.totals().items() if reason.startswith("spool_error")) == before + 1


def test_a_folder_behind_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / FOLDER).symlink_to(tmp_path / "elsewhere")
    assert not Spool(tmp_path / "root" / FOLDER).put("logs", b"a", JSON)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_each_destination_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = {
        folder_for(tmp_path, "http://a:1", {}),
        folder_for(tmp_path, "http://b:1", {}),
        folder_for(tmp_path, "http://a:1", {"authorization": "Bearer k"}),
    }
    assert len(folders) == 3
    assert folder_for(tmp_path, "http://a:1/", {}) in folders


def test_where_it_is(tmp_path: Path) -> None:
    assert default_root({"FIRSTFAULT_SPOOL_DIR": str(tmp_path)}) == tmp_path
    assert default_root({"FIRSTFAULT_SPOOL_DIR": ""}) is None
    found = default_root({})
    assert found is not None and found.name.startswith("firstfault-spool-")
