"""The sidecar's sender against an address that answers as told: order, numbers, what is kept and what is dropped."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from firstfault._http import Reply
from firstfault.sidecar import send
from firstfault.sidecar.lines import Severity
from firstfault.sidecar.records import record, request

OK, AGAIN, REFUSED = Reply("accepted", "ok"), Reply("try_again", "http_503"), Reply("refused", "http_400")


class Address:
    """Stands in for `_http.Poster`: answers with what is in `replies`, then accepts."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.bodies: list[dict[str, Any]] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def post(self, path: str, body: bytes, content_type: str, encoding: str, timeout_s: float) -> Reply:
        self.entered.set()
        self.open.wait(10)
        self.bodies.append(json.loads(body))
        return self.replies.pop(0) if self.replies else OK


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    made = Address()
    monkeypatch.setattr(send, "Poster", lambda endpoint, headers: made)
    monkeypatch.setattr(send, "_FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr(send, "_LONGEST_BACKOFF_S", 0.002)
    yield made
    made.open.set()


def sender() -> send.Sender:
    """A sender of a process without attributes."""
    return send.Sender("http://127.0.0.1:1", {}, {})


def a_record(body: str) -> dict[str, Any]:
    """A log record."""
    return record("train.log", 1, Severity.ERROR, {}, body)


def seqs(address: Address) -> list[int]:
    """Batch numbers in order of arrival."""
    scopes = [body["resourceLogs"][0]["scopeLogs"][0]["scope"]["attributes"] for body in address.bodies]
    return [int(value["value"]["intValue"]) for scope in scopes for value in scope if value["key"] == "firstfault.batch.seq"]


def test_kept_batches_are_sent_again_under_their_number_and_in_order(address: Address) -> None:
    address.replies += [AGAIN, AGAIN, Reply("try_again", "http_503", retry_after_s=0.001)]
    sending = sender()
    sending.keep([a_record("one")])
    sending.keep([a_record("two")])
    assert sending.drain(10) == []
    assert seqs(address) == [1, 1, 1, 1, 2]
    assert not sending.dropped


def test_a_plain_500_is_tried_again(address: Address) -> None:
    address.replies += [Reply("failed", "http_500")]
    sending = sender()
    sending.keep([a_record("one")])
    assert sending.drain(10) == []
    assert seqs(address) == [1, 1]


def test_what_is_refused_for_good_is_counted(address: Address) -> None:
    address.replies += [REFUSED]
    sending = sender()
    sending.keep([a_record("one")])
    assert sending.drain(10) == []
    assert dict(sending.dropped) == {"refused_http_400": 1}


def test_only_the_newest_heartbeat_waits(address: Address) -> None:
    address.open.clear()
    sending = sender()
    sending.keep([a_record("first")])
    address.entered.wait(10)
    for _ in range(3):
        sending.heartbeat([a_record("beat")])
    sending.keep([a_record("last")])
    address.open.set()
    assert sending.drain(10) == []
    assert sending.dropped["heartbeat_superseded"] == 2
    assert seqs(address)[:2] == [1, 5]


def test_a_heartbeat_that_fails_is_not_sent_again(address: Address) -> None:
    address.replies += [AGAIN]
    sending = sender()
    sending.heartbeat([a_record("beat")])
    address.entered.wait(10)
    sending.keep([a_record("line")])
    assert sending.drain(10) == []
    assert seqs(address) == [1, 2]
    assert sending.dropped["heartbeat_unsent"] == 1


def test_what_the_time_did_not_suffice_for_comes_back(address: Address) -> None:
    address.open.clear()
    sending = sender()
    sending.keep([a_record("in hand")])
    address.entered.wait(10)
    sending.keep([a_record("waiting")])
    assert [batch.seq for batch in sending.drain(0.01)] == [1, 2]


def test_the_queue_is_bounded_and_the_oldest_go(address: Address) -> None:
    address.open.clear()
    sending = sender()
    for _ in range(40):
        sending.keep([a_record("x" * 60_000)])
    left = sending.drain(0.01)
    assert sum(len(batch.body) for batch in left) < 1.3 * 1024 * 1024
    assert left[-1].seq == 40
    assert sending.dropped["queue_full"] == 40 - len(left)


def test_losses_are_told_with_the_next_batch() -> None:
    body = json.loads(request({}, 3, {"queue_full": 2}, []))
    scope = {entry["key"]: entry["value"] for entry in body["resourceLogs"][0]["scopeLogs"][0]["scope"]["attributes"]}
    assert json.loads(scope["firstfault.dropped"]["stringValue"]) == {"queue_full": 2}
    assert scope["firstfault.batch.sender"] == {"stringValue": "sidecar"}


def test_values_that_json_or_utf8_lack_are_written_as_otlp_says() -> None:
    built = record(
        "train.log", 5, Severity.WARN, {"a": float("nan"), "b": float("-inf"), "c": None, "d": [1, 2], "e": "\udcff", "f": True}, "\udc80"
    )
    values = {entry["key"]: entry["value"] for entry in built["attributes"]}
    assert values == {
        "a": {"doubleValue": "NaN"},
        "b": {"doubleValue": "-Infinity"},
        "d": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "2"}]}},
        "e": {"stringValue": "\\udcff"},
        "f": {"boolValue": True},
    }
    assert built["body"] == {"stringValue": "\\udc80"}
    request({"r": "\ud800"}, 1, {}, [built]).decode("ascii")
