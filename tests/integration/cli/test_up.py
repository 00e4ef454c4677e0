"""`firstfault up` as a process: its ready line, its ports, its end, and whom it lets in."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import httpx
import pytest

from firstfault_server.cli import commands
from tests.integration.cli.conftest import clean_environment

pytestmark = pytest.mark.integration

READY = re.compile(r"ready api=(127\.0\.0\.1:\d+) otlp-http=(127\.0\.0\.1:\d+) otlp-grpc=(127\.0\.0\.1:\d+)\n")
FREE = ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")


class Up:
    """The console script, started as people start it."""

    def __init__(self, data: Path, api: str, otlp_http: str, otlp_grpc: str) -> None:
        script = Path(sys.executable).with_name("firstfault")
        arguments = ["--data", str(data), "--api", api, "--otlp-http", otlp_http, "--otlp-grpc", otlp_grpc]
        self.process = subprocess.Popen(
            [script, "up", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )

    def ready(self) -> tuple[str, ...]:
        """Its addresses; waits for the ready line, which must be the first."""
        assert self.process.stdout is not None
        match = READY.fullmatch(self.process.stdout.readline())
        if match is None:
            raise AssertionError(self.process.communicate())
        return match.groups()

    def end(self, number: signal.Signals) -> tuple[int, float, str]:
        """Exit status, seconds until the end, and the rest of stdout."""
        asked = time.monotonic()
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, time.monotonic() - asked, out


def test_a_killed_service_starts_again_on_its_ports_and_ends_cleanly(tmp_path: Path) -> None:
    (tmp_path / "other file").write_text("kept")
    data = tmp_path / "made" / "for it"
    first = Up(data, *FREE)
    addresses = first.ready()
    host, port = addresses[0].split(":")
    with socket.create_connection((host, int(port))) as held:
        held.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert held.recv(100).startswith(b"HTTP/1.1 200")
        first.end(signal.SIGKILL)
        second = Up(data, *addresses)
        assert second.ready() == addresses
    assert httpx.get(f"http://{addresses[0]}/healthz").json() == {"status": "ok"}
    empty = httpx.post(f"http://{addresses[1]}/v1/metrics", content=b"", headers={"content-type": "application/x-protobuf"})
    assert empty.status_code == 200
    with grpc.insecure_channel(addresses[2]) as channel:
        call = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export", lambda data: data, lambda data: data)
        assert call(b"", timeout=10) == b""
    status, seconds, rest = second.end(signal.SIGTERM)
    assert (status, rest) == (0, "")
    assert seconds < 15
    assert (tmp_path / "other file").read_text() == "kept"


def _refused(capfd: pytest.CaptureFixture[str], *argv: str) -> str:
    assert commands()["up"].main(list(argv)) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    return captured.err


def test_without_keys_only_this_machine_is_listened_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for option in ("--api", "--otlp-http", "--otlp-grpc"):
        arguments = {"--api": FREE[0], "--otlp-http": FREE[1], "--otlp-grpc": FREE[2], option: "0.0.0.0:0"}
        said = _refused(capfd, "--data", str(tmp_path), *[word for pair in arguments.items() for word in pair])
        assert "0.0.0.0:0" in said and "keys create" in said


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--api", "8080", "HOST:PORT"),
        ("--api", "127.0.0.1:99999", "65535"),
        ("--otlp-http", "::1:80", "brackets"),
        ("--config", "/nowhere", "/nowhere"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str, value: str, word: str) -> None:
    assert word in _refused(capfd, "--data", str(tmp_path), option, value)


def test_a_port_in_use_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in _refused(capfd, "--data", str(tmp_path), "--api", address)


def test_a_data_folder_that_is_no_folder_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in _refused(capfd, "--data", str(tmp_path / "file"), "--api", FREE[0])


def test_wrong_settings_are_named_and_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text('api_kay = "ffk_secret"\n')
    said = _refused(capfd, "--config", str(config))
    assert "api_kay" in said and "ffk_secret" not in said
    config.write_text("api = [")
    assert str(config) in _refused(capfd, "--config", str(config))
    config.write_text("[thresholds]\nno_such = 1\n")
    said = _refused(
        capfd, "--config", str(config), "--data", str(tmp_path), "--api", FREE[0], "--otlp-http", FREE[1], "--otlp-grpc", FREE[2]
    )
    assert "no_such" in said
