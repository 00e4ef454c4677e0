"""Random and broken requests into both receivers over real sockets: no 5xx, no crash, neighbours stored, and detection takes it all."""

import asyncio
import os
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import uvicorn

from firstfault_server.core.stages import build_stages
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.keyed import KeyedStages
from firstfault_server.ingest.grpc import SERVICES, otlp_server
from firstfault_server.ingest.http import otlp_app
from firstfault_server.ports import LogEntry
from firstfault_server.tables import load_tables
from firstfault_server.wire.otlp import decode
from tests.property.otlp_mutations import PROTOBUF, Case, case, sound_logs
from tests.unit.ingest.stand import Stand

pytestmark = pytest.mark.integration
LANES = 4
"""Connections that send at once."""
CASES = int(os.environ.get("FIRSTFAULT_CASES", "500"))
PATHS: dict[str, str] = {signal: f"/{service}/Export" for service, signal in SERVICES.items()}
REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}


@contextmanager
def served(made: Stand) -> Iterator[tuple[int, int]]:
    """Both receivers on one loop in a thread; their ports."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(otlp_app(made.receiver), log_config=None, lifespan="off", access_log=False))
    ports: list[int] = []
    ready = threading.Event()

    async def serve() -> None:
        remote = otlp_server(made.receiver)
        ports.append(remote.add_insecure_port("127.0.0.1:0"))
        await remote.start()
        ready.set()
        await server.serve(sockets=[listener])
        await remote.stop(None)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield listener.getsockname()[1], ports[0]
    finally:
        server.should_exit = True
        thread.join(30)
        made.log.close()
        assert not thread.is_alive()


def send(client: httpx.Client, sent: Case) -> int:
    return client.post(f"/v1/{sent.signal}", content=sent.body, headers=sent.headers).status_code


def call(channel: Any, sent: Case) -> grpc.StatusCode:
    try:
        channel.unary_unary(PATHS[sent.signal])(sent.body, timeout=30)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def bodies(entries: list[tuple[str, LogEntry]]) -> set[str]:
    return {record.body for position, entry in entries for batch in decode(entry, position) for record in batch.logs}


def detect(entries: list[tuple[str, LogEntry]]) -> KeyedStages:
    tables = load_tables()
    stages = KeyedStages(build_stages(Thresholds(), tables.taxonomy, tables.text_reader()))
    for position, entry in entries:
        stages.advance(entry.received_ns)
        for batch in decode(entry, position):
            stages.give("worker", batch, entry.received_ns)
    last_ns = stages.now_ns
    for second in range(120):
        stages.advance(last_ns + second * 1_000_000_000)
    stages.take_snapshots()
    return stages


def lane(ports: tuple[int, int], numbers: range, seed: int) -> set[str]:
    """Send the cases of these numbers, each followed by a sound neighbour; the texts that must be in the log now."""
    chance = random.Random(seed)
    expected: set[str] = set()
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=30) as client,
        grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel,
    ):
        for number in numbers:
            sent = case(chance, number)
            status = send(client, sent)
            assert status in (200, 400, 413, 415), (number, status, sent.headers, sent.body)
            if sent.marks:
                assert status == 200, (number, status, sent.body)
                expected |= sent.marks
            if sent.headers == PROTOBUF:
                code = call(channel, sent)
                assert code is grpc.StatusCode.OK or code in REFUSALS, (number, code, sent.body)
                assert (code is grpc.StatusCode.OK) is (status == 200), (number, code, status, sent.body)
            neighbour = Case("logs", PROTOBUF, sound_logs(f"n{number % 7}", [f"neighbour-{number}"]))
            assert send(client, neighbour) == 200
            expected.add(f"neighbour-{number}")
    return expected


def fuzz(folder: Path, cases: int, seed: int) -> None:
    made = Stand(folder)
    share = -(-cases // LANES)
    with served(made) as ports, ThreadPoolExecutor(LANES) as pool:
        lanes = [pool.submit(lane, ports, range(i * share, (i + 1) * share), seed * LANES + i) for i in range(LANES)]
        expected = set[str]().union(*(one.result() for one in lanes))
        entries = made.log.read(None, 1 << 30)
    assert len(expected) >= cases
    assert expected <= bodies(entries)
    stages = detect(entries)
    assert not stages.failures, [letter.reason for letter in stages.output.dead_letters[:3]]


def test_broken_requests_harm_nobody(tmp_path: Path) -> None:
    fuzz(tmp_path, CASES, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_broken_requests_harm_nobody(tmp_path: Path) -> None:
    fuzz(tmp_path, 10_000, seed=random.SystemRandom().randrange(1 << 32))
