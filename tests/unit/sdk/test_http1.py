"""Requests and answers of HTTP/1.1, read from bytes as servers send them and as they must not."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault._http1 import Answer, BadAnswer, answer, request

LIMIT = 100


def read(data: bytes) -> Answer:
    return answer(io.BytesIO(data), LIMIT)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Answer(200, None, b"{}", True)),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Answer(200, None, b"", True)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, None, b"", True)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\ncontent-length:1\n\nx", Answer(200, None, b"x", True)),
        (b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nConnection: close\r\ncontent-length: 0\r\n\r\n", Answer(429, "7", b"", False)),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", Answer(200, None, b"{}", False)),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\n{}", Answer(200, None, b"{}", True)),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", Answer(200, None, b"until the end", False)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n" + b"x" * 101, Answer(200, None, b"x" * 100, False)),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
            Answer(200, None, b"abc0123456789", True),
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n" + b"x" * 255, Answer(200, None, b"x" * 100, False)),
    ],
)
def test_answers(data: bytes, expected: Answer) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
    ],
)
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        read(data)


def test_a_connection_closed_without_a_word_is_told_apart() -> None:
    with pytest.raises(ConnectionResetError):
        read(b"")


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda data: b"HTTP/1.1 200 OK\r\n" + data))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    with contextlib.suppress(BadAnswer, ConnectionResetError):
        assert len(read(data).body) <= LIMIT


def test_a_request_is_one_and_nothing_breaks_out_of_its_line() -> None:
    assert request("h:1", "/v1/logs", {"a": "b"}, b"xyz") == (
        b"POST /v1/logs HTTP/1.1\r\nhost: h:1\r\naccept-encoding: identity\r\ncontent-length: 3\r\na: b\r\n\r\nxyz"
    )
    for target, headers in (("/a b", {}), ("/a\r\nx: y", {}), ("/", {"a": "b\r\nc: d"}), ("/", {"a b": "c"}), ("/", {"": "c"})):
        with pytest.raises(ValueError, match=r"no header|a path"):
            request("h", target, headers, b"")
