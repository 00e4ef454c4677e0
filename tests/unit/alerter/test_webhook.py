"""The webhook sink against a real socket: signature, failures, redirects, time-outs, private addresses."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from firstfault_server import ports
from firstfault_server.alerter.sinks import Outcome
from firstfault_server.alerter.sinks.addresses import RefusedAddress, check_url, is_public
from firstfault_server.alerter.sinks.webhook import WebhookSink, retry_after_s
from tests.contract.records import NOW_NS, message
from tests.unit.alerter.receiver import SECRET, Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def _send(url: str, allow_private: bool = True, resolver: Any = None, timeout_s: float = 5.0) -> Outcome:
    destination = ports.Destination(id="d-1", tenant="acme", name="pager", url=url, secret=SECRET, allow_private=allow_private)

    async def scenario() -> Outcome:
        sink = WebhookSink(timeout_s, *([resolver] if resolver else []))
        try:
            return await sink.send(destination, message(1, body=b'{"type":"incident.opened"}'), time.time_ns())
        finally:
            await sink.close()

    return asyncio.run(scenario())


def test_a_message_arrives_signed_and_is_delivered(receiver: Receiver) -> None:
    assert _send(receiver.url) == Outcome(delivered=True, status=204)
    headers = receiver.requests[0]["headers"]
    assert headers["webhook-id"] == "i-0001.1"
    assert headers["content-type"] == "application/json"
    assert headers["host"] == receiver.url.split("/")[2]


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_anything_but_success_is_a_failure(receiver: Receiver, status: int) -> None:
    receiver.answers = [(status, {"location": receiver.url})]
    outcome = _send(receiver.url)
    assert (outcome.delivered, outcome.status, outcome.gone) == (False, status, False)
    assert len(receiver.requests) == 1


def test_gone_is_for_ever_and_retry_after_is_heard(receiver: Receiver) -> None:
    receiver.answers = [(410, {}), (429, {"retry-after": "17"})]
    assert _send(receiver.url).gone
    assert _send(receiver.url).retry_after_s == 17.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), ("-5", 0.0), ("1e9", 86_400.0), ("nan", None), ("soon", None), ("", None), (None, None)],
)
def test_retry_after_is_bounded(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW_NS) == seconds


def test_retry_after_may_be_a_date() -> None:
    from email.utils import formatdate

    assert retry_after_s(formatdate(NOW_NS / 1e9 + 90, usegmt=True), NOW_NS) == pytest.approx(90, abs=1)


def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    outcome = _send(f"http://127.0.0.1:{port}/")
    assert not outcome.delivered
    assert outcome.status is None
    assert outcome.error


def test_a_receiver_that_trickles_its_answer_meets_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def trickle() -> None:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(0.05)
                while not done.is_set():
                    try:
                        peer.sendall(b"H")
                        peer.recv(65536)
                    except OSError:
                        continue

        thread = threading.Thread(target=trickle)
        thread.start()
        outcome = _send(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.3)
        done.set()
        thread.join()
    assert not outcome.delivered


# ---- private addresses ------------------------------------------------------------------------------------------------


def _resolving(*addresses: str) -> Any:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolver


PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", 
    "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1",
    "192.0.2.1", "198.18.0.1", "255.255.255.255", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["169.254.169.254"]])
def test_one_private_address_refuses_the_name(receiver: Receiver, addresses: list[str]) -> None:
    outcome = _send(receiver.url.replace("127.0.0.1", "pager.example"), allow_private=False, resolver=_resolving(*addresses))
    assert "not public" in outcome.error
    assert receiver.requests == []


def test_loopback_needs_permission_too(receiver: Receiver) -> None:
    assert "allow_private" in _send(receiver.url, allow_private=False).error
    assert receiver.requests == []


def test_the_checked_address_is_connected_to_and_the_name_is_asked_once(receiver: Receiver) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    port = receiver.url.split(":")[2].split("/")[0]
    assert _send(f"http://pager.example:{port}/hook", resolver=rebinding).delivered
    assert asked == ["pager.example"]
    assert receiver.requests[0]["headers"]["host"] == f"pager.example:{port}"


def test_the_next_address_is_tried_when_one_does_not_answer(receiver: Receiver) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    assert _send(f"http://pager.example:{port}/hook", resolver=_resolving("127.9.9.9", "127.0.0.1")).delivered


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com", "example.com", "http://", "https:///x", "http://user:secret@example.com", "http://example.com:0/", "http://[bad/",
        "http://example.com/#part", "http://example.com:99999/", "http://exa mple.com/", "http://example.com/\r\nx: y", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_urls_that_cannot_be_are_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(url)
    assert not _send(url).delivered


@pytest.mark.parametrize("host", ["localhost", "pager.localhost", "127.0.0.1", "10.0.0.1", "[::1]", "[fe80::1]", "169.254.169.254"])
def test_urls_that_name_a_private_address_are_refused_when_they_are_entered(host: str) -> None:
    with pytest.raises(RefusedAddress, match=r"allow_private .`--allow-private` on the command line"):
        check_url(f"http://{host}:8080/hook", allow_private=False)
    check_url(f"http://{host}:8080/hook", allow_private=True)
    check_url("https://pager.example/hook", allow_private=False)
