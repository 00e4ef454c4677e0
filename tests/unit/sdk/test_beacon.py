"""The page between process and sidecar."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault._beacon import SIZE, Beacon, BeaconReader, Cell, Exit
from firstfault._sidecar_config import SidecarConfig


@pytest.fixture
def beacon() -> Iterator[Beacon]:
    made = Beacon()
    yield made
    made.close()


def test_a_fresh_page_says_nothing(beacon: Beacon) -> None:
    reader = BeaconReader(beacon.path)
    seen = reader.read()
    reader.close()
    assert (seen.step, seen.progress_ns, seen.phase, seen.phase_depth, seen.phase_since_ns) == (None, None, "", 0, None)
    assert (seen.exit, seen.exit_code, seen.exit_sent, seen.status, seen.reason) == (Exit.RUNNING, None, False, None, "")


def test_phase_and_exit_arrive(beacon: Beacon) -> None:
    reader = BeaconReader(beacon.fd)
    beacon.phase("évaluation", 2, 1234, 0.5)
    beacon.exit(Exit.FAILED, 1, "RuntimeError: no")
    beacon.exit_sent()
    seen = reader.read()
    assert (seen.phase, seen.phase_depth, seen.phase_since_ns, seen.phase_expect_s) == ("évaluation", 2, 1234, 0.5)
    assert (seen.exit, seen.exit_code, seen.exit_sent, seen.reason) == (Exit.FAILED, 1, True, "RuntimeError: no")
    beacon.phase("", 0, None, None)
    assert (reader.read().phase, reader.read().phase_since_ns, reader.read().phase_expect_s) == ("", None, None)
    reader.close()


@pytest.mark.parametrize("text", ["x" * 10_000, "é" * 5_000, "\ud800"])
def test_any_text_fits(beacon: Beacon, text: str) -> None:
    beacon.phase(text, 1, 1, 1e300)
    beacon.exit(Exit.FAILED, None, text)
    reader = BeaconReader(beacon.fd)
    seen = reader.read()
    reader.close()
    assert seen.phase and len(seen.phase) < 300 and len(seen.reason) < 1100 and seen.step is None


def test_a_writer_that_died_in_a_text_does_not_block_the_reader(beacon: Beacon) -> None:
    beacon.cells[Cell.TEXT_VERSION] = 5
    beacon.cells[Cell.STEP] = 3
    reader = BeaconReader(beacon.fd)
    assert reader.read().step == 3
    reader.close()


def test_another_layout_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(b"\1" * SIZE)
    with pytest.raises(ValueError, match="not a beacon page"):
        BeaconReader(str(page))


def test_the_configuration_survives_the_trip() -> None:
    config = SidecarConfig(pid=3, resource={"train.rank": 1, "train.log.paths": ["/a"]}, headers={"authorization": "Bearer x"}, beacon_fd=7)
    assert SidecarConfig.from_json(config.to_json()) == config
    assert SidecarConfig.from_json('{"pid": 3, "newer": 1}') == SidecarConfig(pid=3)
    for text in ("[]", "x", "{}"):
        with pytest.raises((ValueError, TypeError)):
            SidecarConfig.from_json(text)
