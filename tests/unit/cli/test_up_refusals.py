"""What `firstfault up` refuses before it has opened or made anything."""

import os
import subprocess
import sys
import time
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


SERVERS = {"KAFKA_BOOTSTRAP": "127.0.0.1:1", "ELASTICSEARCH_URL": "http://127.0.0.1:1", "CLICKHOUSE_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize("command", [["migrate"], *(["serve", part] for part in ("ingest", "writer", "alerter", "api"))])
def test_options_of_kafka_that_there_are_not_are_refused_in_one_line(command: list[str]) -> None:
    environ = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "FIRSTFAULT_LOG_LEVEL": "error"}
    environ |= {f"FIRSTFAULT_{name}": value for name, value in SERVERS.items()}
    environ |= {f"FIRSTFAULT_{part}": "127.0.0.1:0" for part in ("API", "OTLP_HTTP", "OTLP_GRPC", "WRITER_HEALTH", "ALERTER_HEALTH")}
    environ["FIRSTFAULT_KAFKA_SECURITY"] = '{"foo.bar": "x"}'
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", *command], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert "kafka_security" in done.stderr and "foo.bar" in done.stderr


@pytest.mark.timeout(60)
def test_migrate_waits_for_servers_no_longer_than_it_was_told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    for name, value in SERVERS.items():
        monkeypatch.setenv(f"FIRSTFAULT_{name}", value)
    began = time.monotonic()
    assert commands()["migrate"].main(["--wait", "0"]) == 4
    # A question to Kafka may take ten seconds where the wait allows it.
    assert time.monotonic() - began < 9
    assert "Kafka at 127.0.0.1:1" in capfd.readouterr().err


def test_a_folder_named_by_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    assert commands()["up"].main(["--data", "", *(f"--{name}=127.0.0.1:0" for name in ("api", "otlp-http", "otlp-grpc"))]) == 2
    assert "data: " in capfd.readouterr().err
