"""How soon an incident can be read in the distributed service: with nothing else to do, under load, beside a tenant that floods."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.native.stack.supervision import PID
from tests.bench.machine import Meanwhile
from tests.integration.service.stream import Stream
from tests.integration.stack.deployed import Deployed, deployed
from tests.integration.stack.flooding import FLOOD_DELAY_S, QUOTA, at, flood, make_key, waits

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

POINTS_PER_SECOND = 20_000
BOUND_S, AIM_S = 5.0, 2.0
FAILURES = 100
"""Of these the 99th percentile is the second worst."""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """A stack of its own, with a quota that the load does not reach."""
    monkeypatch.setenv("FIRSTFAULT_TENANT_BYTES_PER_S", str(QUOTA))
    with deployed(tmp_path / "stack") as up:
        yield up


def test_incidents_can_be_read_soon(stack: Deployed, record_property: Callable[[str, object], None]) -> None:
    alone = waits(stack, "alone", FAILURES // 2)
    print(f"\nexception to queryable: alone p50 {at(alone, 0.5):.2f} s, p99 {at(alone, 0.99):.2f} s")
    stream = Stream(stack.otlp_url, "load", ranks=16, points_per_second=POINTS_PER_SECOND)
    supervisor = int((stack.layout.folder / PID).read_text(encoding="ascii"))
    began, meanwhile = time.monotonic(), Meanwhile(stack=supervisor)
    loaded = waits(stack, "loaded", FAILURES)
    took = time.monotonic() - began
    stream.stop()
    rate, left = stream.acknowledged_points() / took, meanwhile.left()
    print(
        f"with {rate / 1e3:.1f}k points/s p50 {at(loaded, 0.5):.2f} s, p99 {at(loaded, 0.99):.2f} s (aim {AIM_S:g} s), "
        f"{meanwhile.cpu_s()['stack'] / (rate * took) * 1e6:.1f} µs of CPU a point in the stack; {left:.0%} of the machine left"
    )
    # From the first key on everybody needs one.
    flooding, other = (make_key(stack, tenant) for tenant in ("flooding", "other"))
    meanwhile = Meanwhile(stack=supervisor)
    with flood(stack, flooding) as sent:
        flooded = waits(stack, "flooded", FAILURES // 2, other)
    print(
        f"beside a flood ({sent[True]} requests taken, {sent[False]} refused) p50 {at(flooded, 0.5):.2f} s, p99 {at(flooded, 0.99):.2f} s"
    )
    record_property("p99_s", at(loaded, 0.99))
    assert rate > 0.95 * left * POINTS_PER_SECOND
    assert at(loaded, 0.99) * left < BOUND_S
    assert sent[False] > sent[True], "nothing was refused: that was no flood"
    assert (at(flooded, 0.99) - at(alone, 0.99)) * meanwhile.left() < FLOOD_DELAY_S
