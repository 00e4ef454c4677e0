"""A webhook receiver on a real socket that remembers every message."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class Pager:
    """Answers 200 to everything."""

    def __init__(self, answer_s: float = 0.0) -> None:
        """`answer_s`: how long it takes to answer."""
        self.messages: list[tuple[str, dict[str, Any]]] = []
        """(webhook-id, body) in the order received, repetitions included."""
        pager, waiting = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                pager.messages.append((self.headers["webhook-id"], json.loads(body)))
                waiting.wait(answer_s)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/page"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "Pager":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
