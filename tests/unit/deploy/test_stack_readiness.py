"""When a service of the stack counts as ready: only when all of it works."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deploy.native.servers.process import free_ports
from deploy.native.stack.readiness import unready


class Answers(ThreadingHTTPServer):
    """Says of itself what it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.document: dict[str, Any] = {"status": "ok"}
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers with what the server holds."""

    server: Answers

    def do_GET(self) -> None:
        body = json.dumps(self.server.document).encode() if self.path == "/readyz" else b""
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def answers() -> Iterator[Answers]:
    """Listens for the length of a test."""
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_service_that_works_is_ready(answers: Answers) -> None:
    assert unready(answers.url) == ""


@pytest.mark.parametrize(("status", "said"), [(200, "degraded"), (503, "not ready")])
def test_a_service_of_which_a_part_does_not_work_says_which(answers: Answers, status: int, said: str) -> None:
    answers.status, answers.document = status, {"status": said, "problems": {"metrics": "away"}}
    assert '"metrics": "away"' in unready(answers.url)


def test_a_service_that_does_not_listen_is_not_ready() -> None:
    (port,) = free_ports(1)
    assert "refused" in unready(f"http://127.0.0.1:{port}")


def test_a_service_that_is_killed_in_its_answer_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HT\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert unready(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
