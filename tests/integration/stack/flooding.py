"""A tenant that sends far more than its quota, and how long others wait for their incidents meanwhile."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from firstfault_server.adapters import elasticsearch
from firstfault_server.adapters.elasticsearch.templates import KEYS
from tests.integration.service.running import wait_for
from tests.integration.service.stream import Process, post
from tests.integration.service.test_kill import crash
from tests.integration.stack.deployed import Deployed

QUOTA = 1_000_000
"""Bytes a second of a tenant."""
FLOOD_DELAY_S = 5.0
"""What a tenant above its quota may cost another one."""
FLOODERS, AT_ONCE = 4, 50
PATIENCE_S = 120.0


def waits(stack: Deployed, name: str, count: int, key: str = "") -> list[float]:
    """Seconds from each of several failures until its incident can be read."""
    found = []
    pause = threading.Event()
    client = httpx.Client(base_url=stack.layout.url("api"), timeout=30, headers={"authorization": f"Bearer {key}"} if key else {})
    with client:
        for number in range(count):
            run = f"{name}-{number}"
            # Out of step with checkpoints and refreshes.
            pause.wait(0.37)
            began = time.monotonic()
            crash(stack.otlp_url, run, key)
            while not client.get("/v1/incidents", params={"q": f"run:{run}"}).json()["items"]:
                assert time.monotonic() - began < PATIENCE_S, f"no incident of {run}"
                pause.wait(0.02)
            found.append(time.monotonic() - began)
    return sorted(found)


def make_key(stack: Deployed, tenant: str) -> str:
    """A key of a tenant."""
    command = [str(Path(sys.executable).with_name("firstfault")), "keys", "create", "--direct", "--name", tenant, "--tenant", tenant]
    for scope in ("ingest", "read"):
        command += ["--scope", scope]
    made = subprocess.run([*command, "-o", "json"], env=stack.layout.environment(), capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["key"])


@contextmanager
def keys(stack: Deployed, *tenants: str) -> Iterator[list[str]]:
    """A key of each tenant for the length of the block; afterwards nobody needs one, as if none had ever been made."""
    try:
        yield [make_key(stack, tenant) for tenant in tenants]
    finally:
        index = KEYS.index(elasticsearch.Connection(url="").prefix)
        httpx.delete(f"{stack.layout.url('elasticsearch')}/{index}", timeout=60).raise_for_status()
        wait_for(lambda: _open(stack), PATIENCE_S, "everybody is let in again")


def _open(stack: Deployed) -> bool:
    sent = post(urlsplit(stack.otlp_url).netloc, "/v1/logs", b"")
    return sent and stack.client.get("/v1/incidents").status_code == 200


@contextmanager
def flood(stack: Deployed, key: str) -> Iterator[dict[bool, int]]:
    """Requests of one tenant as fast as they are answered, refusals not minded; counts them by whether they were taken."""
    sent = {True: 0, False: 0}
    stopping = threading.Event()
    address = urlsplit(stack.otlp_url).netloc

    def send(rank: int) -> None:
        process = Process("flood", rank, FLOODERS)
        while not stopping.is_set():
            # Requests one behind the other are one request.
            body = b"".join(process.points(time.time_ns()) for _ in range(AT_ONCE))
            sent[post(address, "/v1/metrics", body, key)] += 1

    threads = [threading.Thread(target=send, args=(rank,), daemon=True) for rank in range(FLOODERS)]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def at(sorted_values: Sequence[float], share: float) -> float:
    """The value below which a share lies."""
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]
