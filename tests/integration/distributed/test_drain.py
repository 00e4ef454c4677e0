"""An ingest that is told to end: not ready from then on, nothing new is taken, and what is under way is finished and acknowledged."""

import json
import socket
import threading
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.integration.deploy.collector import logs, process, record
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.services import Installation, Service

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def closed(address: str) -> bool:
    """Whether nobody listens there."""
    try:
        httpx.get(f"http://{address}/readyz", timeout=5, trust_env=False)
    except httpx.ConnectError:
        return True
    except httpx.HTTPError:
        return False
    return False


def test_an_ending_ingest_is_not_ready_and_finishes_what_is_under_way(installation: Installation, tmp_path: Path) -> None:
    body = json.dumps(logs(process("drained", 0), record("the last words"))).encode()
    head = f"POST /v1/logs HTTP/1.1\r\nhost: ingest\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with Service("ingest", installation.environ(), tmp_path) as ingest:
        host, port = ingest.addresses["otlp-http"].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(head + body[:10])
            # Its head must have been read, or there would be nothing under way yet; another request behind it says so.
            assert (
                httpx.post(f"http://{host}:{port}/v1/logs", content=body, headers={"content-type": "application/json"}).status_code == 200
            )
            ended: list[int] = []
            stopping = threading.Thread(target=lambda: ended.append(ingest.stop()))
            stopping.start()
            for name in ("health", "otlp-http"):
                wait_for(partial(closed, ingest.addresses[name]), f"{name} takes nothing new")
            assert ingest.running
            connection.sendall(body[10:])
            answer = connection.recv(65536)
        stopping.join(60)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert ended == [0]
