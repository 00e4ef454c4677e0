"""A service as a process: what ends by an error of its own is said, and holds up no end."""

import asyncio
import inspect
import io
import socket
from collections.abc import Awaitable, Callable, Coroutine

import httpx
import pytest

from firstfault_server import telemetry
from firstfault_server.cli import process as processes
from firstfault_server.cli.process import Process, StartError
from firstfault_server.cli.serve.health import serve_health
from firstfault_server.ports import StoreUnavailable
from firstfault_server.settings import Settings

WITHIN_S = 30.0


def run(start: processes.Start, meanwhile: Callable[[str], Awaitable[None]]) -> str:
    """Run a service for as long as `meanwhile` takes; what it has logged."""
    written = io.StringIO()
    lines = telemetry.Lines(written)

    async def scenario() -> None:
        async with processes.running(start, "test", Settings(), telemetry.logger("info", "json", lines), lines) as ready_line:
            await meanwhile(ready_line)

    asyncio.run(scenario())
    return written.getvalue()


async def nothing(_ready_line: str) -> None:
    """For services that are looked at afterwards."""


def test_parts_end_in_reverse() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def start(process: Process) -> str:
        process.background(forever("first"), "first")
        process.background(forever("second"), "second")
        await asyncio.sleep(0)
        return "ready"

    run(start, nothing)
    assert ended == ["second", "first"]


@pytest.mark.filterwarnings("error")
def test_a_start_that_fails_leaves_no_part_that_never_began() -> None:
    parts: list[Coroutine[None, None, None]] = []

    async def part() -> None:
        await asyncio.Event().wait()

    async def start(process: Process) -> str:
        parts.append(part())
        process.background(parts[0], "part")
        raise StoreUnavailable("the disk is away")

    with pytest.raises(StartError, match="the disk is away"):
        run(start, nothing)
    assert inspect.getcoroutinestate(parts[0]) == inspect.CORO_CLOSED


def test_a_part_that_breaks_is_said_and_holds_up_no_end() -> None:
    async def breaks() -> None:
        raise KeyError("oops")

    async def start(process: Process) -> str:
        process.background(breaks(), "clock")
        return str(await serve_health(process, "127.0.0.1:0", lambda: {"kafka": ""}))

    async def look(address: str) -> None:
        async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client:
            assert (await client.get("/healthz")).status_code == 200
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["problems"] == {"clock": "has ended: KeyError: 'oops'"}
            assert "process_cpu_seconds_total" in (await client.get("/metrics")).text

    log = run(start, look)
    assert "has ended by an error of its own" in log


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is away"), OSError("no")])
def test_what_keeps_it_from_starting_is_named(error: Exception) -> None:
    async def start(_process: Process) -> str:
        raise error

    with pytest.raises(StartError, match=str(error)):
        run(start, nothing)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def start(process: Process) -> str:
            return str(await serve_health(process, f"127.0.0.1:{port}", dict))

        with pytest.raises(StartError, match=str(port)):
            run(start, nothing)
