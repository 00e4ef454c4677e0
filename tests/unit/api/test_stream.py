"""The stream of changes: whole incidents of one's own tenant, as they happen; slow readers are told what they missed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from firstfault_server.api.access import Principal
from firstfault_server.api.changes import MAX_STREAMS, MAX_WAITING, Changes, TooManyStreams
from firstfault_server.api.routes.stream import _events
from firstfault_server.core.query import parse
from tests.unit.api.stand import Stand

ACME = Principal(tenant="acme", actor="ada", scopes=frozenset({"read"}))
Scenario = Callable[[Stand, AsyncGenerator[bytes]], Coroutine[Any, Any, None]]


def _with_stream(stand: Stand, query: str, scenario: Scenario) -> None:
    async def run() -> None:
        stand.changes.bind(asyncio.get_running_loop())
        stream = _events(stand.services, ACME, parse(query), stand.changes.subscribe("acme"))
        assert (await anext(stream)).startswith(b":")
        async with asyncio.timeout(10):
            await scenario(stand, stream)
        await stream.aclose()

    asyncio.run(run())


def _data(event: bytes) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(event.decode().split("data: ", 1)[1])
    return data


def test_changes_of_ones_own_tenant_are_told(stand: Stand) -> None:
    async def scenario(stand: Stand, stream: AsyncGenerator[bytes]) -> None:
        stand.changes.publish([("other", "incident-other"), ("acme", "incident-acme"), ("acme", "incident-acme"), ("acme", "second-acme")])
        first, second = await anext(stream), await anext(stream)
        assert first.startswith(b"event: incident\nid: incident-acme.1.0\n")
        assert (_data(first)["id"], _data(second)["id"]) == ("incident-acme", "second-acme")

    _with_stream(stand, "", scenario)


def test_a_search_narrows_the_stream(stand: Stand) -> None:
    async def scenario(stand: Stand, stream: AsyncGenerator[bytes]) -> None:
        stand.changes.publish([("acme", "second-acme"), ("acme", "unknown"), ("acme", "incident-acme")])
        assert _data(await anext(stream))["id"] == "incident-acme"

    _with_stream(stand, "is:page", scenario)


def test_a_slow_reader_is_told_what_it_missed(stand: Stand) -> None:
    async def scenario(stand: Stand, stream: AsyncGenerator[bytes]) -> None:
        stand.changes.publish([("acme", f"i{number}") for number in range(MAX_WAITING + 7)])
        assert await anext(stream) == b"event: lost\ndata: 7\n\n"

    _with_stream(stand, "", scenario)


def test_streams_end_when_the_service_stops(stand: Stand) -> None:
    async def scenario(stand: Stand, stream: AsyncGenerator[bytes]) -> None:
        await stand.changes.close()
        assert [event async for event in stream] == []

    _with_stream(stand, "", scenario)


def test_the_number_of_streams_is_bounded() -> None:
    changes = Changes()
    held = [changes.subscribe("acme") for _ in range(MAX_STREAMS)]
    try:
        changes.subscribe("acme")
    except TooManyStreams:
        changes.unsubscribe(held[0])
        changes.subscribe("acme")
    else:
        raise AssertionError("one stream too many was opened")
