"""Posting with a deadline."""

import socket
import threading
import time

import pytest

from firstfault._http import Poster, Reply
from tests.unit.sdk.receiver import black_hole, nobody, receiver

BODY = b'{"resourceLogs": []}'


def _post(endpoint: str, timeout_s: float = 5.0) -> Reply:
    poster = Poster(endpoint, {"authorization": "Bearer k"})
    try:
        return poster.post("/v1/logs", BODY, "application/json", "", timeout_s)
    finally:
        poster.close()


@pytest.mark.parametrize(
    ("mode", "verdict", "reason"),
    [
        ("ok", "accepted", "ok"),
        ("partial", "accepted", "ok"),
        ("500", "failed", "http_500"),
        ("refuse", "refused", "http_400"),
        ("redirect", "refused", "redirected"),
        ("503", "try_again", "http_503"),
        ("429", "try_again", "http_429"),
        ("garbage", "try_again", "garbage"),
    ],
)
def test_what_each_answer_means(mode: str, verdict: str, reason: str) -> None:
    with receiver(mode) as box:
        reply = _post(box.endpoint)
    assert (reply.verdict, reply.reason) == (verdict, reason)
    assert [request.path for request in box.requests] == ["/v1/logs"]
    assert box.requests[0].headers["authorization"] == "Bearer k"


@pytest.mark.parametrize("mode", ["silent", "drip"])
def test_the_deadline_holds_however_slow_the_answer(mode: str) -> None:
    with receiver(mode) as box:
        began = time.monotonic()
        reply = _post(box.endpoint, timeout_s=0.4)
        seconds = time.monotonic() - began
    assert (reply.verdict, reply.reason) == ("try_again", "timeout")
    assert 0.3 < seconds < 2.0


def test_the_deadline_holds_while_connecting() -> None:
    with black_hole() as endpoint:
        began = time.monotonic()
        reply = _post(endpoint, timeout_s=0.4)
    assert (reply.verdict, reply.reason) == ("try_again", "timeout")
    assert time.monotonic() - began < 2.0


def test_the_deadline_holds_while_sending() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        poster = Poster(f"http://127.0.0.1:{listener.getsockname()[1]}", {})
        reply = poster.post("/v1/logs", b"x" * 50_000_000, "application/json", "", 0.4)
        poster.close()
    assert (reply.verdict, reply.reason) == ("try_again", "timeout")


def test_a_refused_connection_is_tried_again_later() -> None:
    with nobody() as endpoint:
        assert _post(endpoint) == Reply("try_again", "unreachable")


def test_a_connection_is_reused_and_a_closed_one_replaced_once() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    connections: list[int] = []

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            connections.append(0)
            # Two requests a connection, then closed without a word, as servers do after their idle time.
            for _ in range(2):
                received = b""
                while not received.endswith(BODY):
                    received += connection.recv(65536)
                connections[-1] += 1
                connection.sendall(answer)
            connection.close()

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        poster = Poster(f"http://127.0.0.1:{listener.getsockname()[1]}", {})
        replies = [poster.post("/v1/logs", BODY, "application/json", "", 5.0) for _ in range(4)]
        poster.close()
        thread.join()
    assert [reply.verdict for reply in replies] == ["accepted"] * 4
    assert connections == [2, 2]


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("-1", 0.0), ("1e99", 3600.0), ("soon", None), (None, None)])
def test_retry_after(header: str | None, seconds: float | None) -> None:
    from firstfault._http import _seconds

    assert _seconds(header) == seconds
    assert (_seconds("Fri, 01 Jan 1999 00:00:00 GMT"), _seconds("nan")) == (0.0, None)


@pytest.mark.parametrize("address", ["ftp://h/", "h:4318", "", "http://", "http://h:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|Port|port"):
        Poster(address, {})


def test_a_path_of_the_endpoint_is_kept() -> None:
    with receiver() as box:
        _post(box.endpoint + "/otlp/")
    assert box.requests[0].path == "/otlp/v1/logs"
