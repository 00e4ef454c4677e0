"""Where everything of one stack lies: its folder, its ports, its settings. Decided once, kept in `stack.json`."""

import json
import os
import secrets
import socket
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from deploy.native.servers.process import ServerFailed
from deploy.native.stack.ports import taken

FILE: Final = "stack.json"
FIRST_PORT, LAST_PORT, HIGHEST_PORT = 20_000, 30_000, 65_535
PORTS: Final = (
    "supervisor",
    "kafka",
    "kafka_controller",
    "elasticsearch",
    "clickhouse",
    "flink",
    "flink_rpc",
    "flink_metrics",
    "zookeeper",
    "zookeeper_quorum",
    "zookeeper_election",
    "otlp_http",
    "otlp_grpc",
    "ingest",
    "writer",
    "alerter",
    "api",
)
"""What listens, in the order of the ports: a stack takes a run of neighbouring ones when it is told the first."""


class Layout(msgspec.Struct, kw_only=True, frozen=True):
    """One stack. Everything it writes lies below `folder`."""

    folder: Path
    ports: dict[str, int]
    password: str
    """Of the supervisor."""
    cursor_secret: str

    def at(self, name: str) -> str:
        """HOST:PORT of a part."""
        return f"127.0.0.1:{self.ports[name]}"

    def url(self, name: str) -> str:
        """Base address of a part."""
        return f"http://{self.at(name)}"

    def settings(self) -> dict[str, str]:
        """The service's settings as environment variables."""
        return {
            "FIRSTFAULT_KAFKA_BOOTSTRAP": self.at("kafka"),
            "FIRSTFAULT_KAFKA_REPLICAS": "1",
            "FIRSTFAULT_ELASTICSEARCH_URL": self.url("elasticsearch"),
            "FIRSTFAULT_ELASTICSEARCH_REPLICAS": "0",
            "FIRSTFAULT_CLICKHOUSE_URL": self.url("clickhouse"),
            "FIRSTFAULT_OTLP_HTTP": self.at("otlp_http"),
            "FIRSTFAULT_OTLP_GRPC": self.at("otlp_grpc"),
            "FIRSTFAULT_INGEST_HEALTH": self.at("ingest"),
            "FIRSTFAULT_WRITER_HEALTH": self.at("writer"),
            "FIRSTFAULT_ALERTER_HEALTH": self.at("alerter"),
            "FIRSTFAULT_API": self.at("api"),
            "FIRSTFAULT_API_URL": self.url("api"),
            "FIRSTFAULT_CURSOR_SECRET": self.cursor_secret,
        }

    def environment(self, around: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Environment of every process: the caller's, with the stack's settings; what the caller set for detection stays."""
        return {**around, **self.settings()}


def load(folder: Path) -> Layout | None:
    """The stack of a folder, None when there is none."""
    try:
        return msgspec.convert(json.loads((folder / FILE).read_text(encoding="utf-8")), Layout, dec_hook=lambda kind, value: kind(value))
    except FileNotFoundError:
        return None


def make(folder: Path, first_port: int = 0) -> Layout:
    """The stack of a folder, made if there is none; `first_port` 0 takes free ports. Raises ServerFailed."""
    folder = folder.resolve()
    known = load(folder)
    if known is not None:
        own = known.ports[PORTS[0]]
        if first_port not in (0, own):
            raise ServerFailed(f"the stack of {folder} has its ports, from {own} on; leave --first-port out, or end it first (`down`)")
        return known
    if folder.exists() and any(folder.iterdir()):
        raise ServerFailed(f"{folder} holds something else, which the end of a stack would remove with it; name a new or an empty folder")
    layout = Layout(
        folder=folder,
        ports=_block(first_port) if first_port else dict(zip(PORTS, _free_block(folder), strict=True)),
        password=secrets.token_urlsafe(16),
        cursor_secret=secrets.token_urlsafe(32),
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / FILE
    file.touch(mode=0o600)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(layout, enc_hook=str)), indent=1))
    return layout


def _block(first: int) -> dict[str, int]:
    """The ports from the one that somebody chose. Raises ServerFailed when one of them cannot be had."""
    wanted = dict(zip(PORTS, range(first, first + len(PORTS)), strict=True))
    if not 0 < first <= HIGHEST_PORT - len(PORTS) + 1:
        raise ServerFailed(
            f"--first-port {first}: {len(PORTS)} neighbouring ports are needed, so it is one from 1 to {HIGHEST_PORT - len(PORTS) + 1}"
        )
    if problem := taken(wanted):
        raise ServerFailed(
            f"--first-port {first}: {problem}. All from {first} to {first + len(PORTS) - 1} are needed: "
            "name another first one, or leave it out and free ones are found"
        )
    return wanted


def _free_block(folder: Path) -> range:
    """Neighbouring ports that nobody listens on, below those that the system hands out by itself. Each folder starts at its own place."""
    blocks = (LAST_PORT - FIRST_PORT) // len(PORTS)
    start = zlib.crc32(bytes(folder))
    for number in range(blocks):
        first = FIRST_PORT + (start + number) % blocks * len(PORTS)
        block = range(first, first + len(PORTS))
        if all(map(_is_free, block)):
            return block
    raise ServerFailed("no free ports for a stack")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
