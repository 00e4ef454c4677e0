"""A webhook receiver on a real socket: answers by script, verifies signatures with the library, counts what it took."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqrTwjU"
Answer = tuple[int, dict[str, str]]


class Receiver:
    """What arrived, in order; `answers` are given one after the other, then 204."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.before_answer: Callable[[], None] = lambda: None
        self.url = ""

    def take(self, headers: dict[str, str], body: bytes) -> Answer:
        """Record a request and choose the answer."""
        # The library refuses what is not signed with this secret at about this time.
        Webhook(SECRET).verify(body, headers)
        self.requests.append({"headers": headers, "body": json.loads(body), "size": len(body)})
        self.before_answer()
        return self.answers.pop(0) if self.answers else (204, {})

    @property
    def openings(self) -> set[str]:
        """Ids of opening messages: what a receiver that knows repeated ids counts as pages."""
        return {r["headers"]["webhook-id"] for r in self.requests if r["body"]["type"] == "incident.opened"}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
