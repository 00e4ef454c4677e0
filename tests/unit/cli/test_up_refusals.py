"""What `firstfault up` refuses before it has opened or made anything."""

from pathlib import Path

import pytest

from firstfault_server.cli import commands


@pytest.mark.parametrize("given", ['{"bogus": 1}', '{"silence_s": NaN}', '{"silence_s": -1}', '{"pause_warmup": 1e30}', '{"settle_s": 0}'])
def test_thresholds_that_cannot_be_are_refused_before_anything_is_made(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("FIRSTFAULT_THRESHOLDS", given)
    addresses = [f"--{name}=127.0.0.1:0" for name in ("api", "otlp-http", "otlp-grpc")]
    assert commands()["up"].main(["--data", str(tmp_path / "data"), *addresses]) == 2
    out, err = capfd.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "thresholds" in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "command", [["migrate"], *(["serve", part] for part in ("ingest", "writer", "alerter", "api")), ["doctor"], ["incidents", "list"]]
)
def test_no_command_takes_a_threshold_that_is_none(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("FIRSTFAULT_THRESHOLDS", '{"pause_flor_s": 1}')
    assert commands()[command[0]].main(command[1:]) == 2
    out, err = capfd.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "pause_flor_s" in err and "pause_floor_s" in err


def test_a_folder_named_by_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    assert commands()["up"].main(["--data", "", *(f"--{name}=127.0.0.1:0" for name in ("api", "otlp-http", "otlp-grpc"))]) == 2
    assert "data: " in capfd.readouterr().err
