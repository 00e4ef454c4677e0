"""Keeps a stack's processes running, by supervisord: its configuration, its start and end, and what it is told meanwhile."""

import os
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from deploy.native.servers.process import ServerFailed
from deploy.native.stack.layout import Layout

ROOT: Final = Path(__file__).resolve().parents[3]
CONFIG, PID, LOG = "supervisord.conf", "supervisord.pid", "supervisord.log"
START_S: Final = 30.0
STOP_S: Final = 120.0
AGAIN_S: Final = 1.0
LOG_BYTES: Final = 20 << 20
UNDER_WAY: Final = frozenset({"RUNNING", "STARTING"})
ENDING: Final = frozenset({"BACKOFF", "STOPPING"})
"""Not ended yet: supervisord would start it again, or waits for it."""


class Program(msgspec.Struct, kw_only=True, frozen=True):
    """A process that is started again when it ends."""

    name: str
    command: Sequence[str]
    stop_s: int = 20
    """How long an orderly end may take."""


class Supervisor:
    """The supervisord of one stack."""

    def __init__(self, layout: Layout, programs: Sequence[Program]) -> None:
        self._layout, self._programs = layout, programs

    @property
    def running(self) -> bool:
        """Whether it answers."""
        try:
            with self._asking() as server:
                server.getState()
        except (OSError, xmlrpc.client.Error):
            return False
        return True

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """What answers calls, for the length of the block."""
        with xmlrpc.client.ServerProxy(f"http://stack:{self._layout.password}@{self._layout.at('supervisor')}/RPC2") as server:
            yield server.supervisor

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it with every program stopped; nothing happens when it runs already. Raises ServerFailed."""
        if self.running:
            return
        config = self._layout.folder / CONFIG
        config.touch(mode=0o600)
        config.write_text(self._config(), encoding="utf-8")
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(config)]
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise ServerFailed(f"the supervisor did not start:\n{(done.stdout + done.stderr)[-2000:]}")
        deadline = time.monotonic() + START_S
        while not self.running:
            if time.monotonic() > deadline:
                raise ServerFailed(f"the supervisor does not answer:\n{self.log('supervisord')}")
            time.sleep(0.1)

    def run(self, name: str) -> None:
        """Start a program unless it runs."""
        if self.states()[name] not in UNDER_WAY:
            with self._asking() as server:
                server.startProcess(name, False)

    def halt(self, name: str) -> None:
        """End a program in order, and leave it so."""
        if self.states()[name] in {*UNDER_WAY, "BACKOFF"}:
            with self._asking() as server:
                server.stopProcess(name)

    def halt_all(self, names: Collection[str], within_s: float) -> bool:
        """End programs in order, all at the same time; whether they have ended within the time. Raises OSError, xmlrpc.client.Error."""
        now = time.monotonic()
        deadline, again = now + within_s, now
        while waiting := [name for name, state in self.states().items() if name in names and state in {*UNDER_WAY, *ENDING}]:
            now = time.monotonic()
            if now > deadline:
                return False
            if now >= again:
                # Not once: one that has just been forked loses what comes before it is a program of its own.
                again = now + AGAIN_S
                for name in waiting:
                    self._ask_to_end(name)
            time.sleep(0.1)
        return True

    def _ask_to_end(self, name: str) -> None:
        with self._asking() as server, suppress(xmlrpc.client.Fault):
            # A fault: it has ended by itself meanwhile.
            if server.getProcessInfo(name)["statename"] == "STOPPING":
                server.signalProcess(name, "TERM")
            else:
                server.stopProcess(name, False)

    def states(self) -> dict[str, str]:
        """State of each program, as supervisord names it."""
        with self._asking() as server:
            return {each["name"]: each["statename"] for each in server.getAllProcessInfo()}

    def pid(self, name: str) -> int:
        """Process id of a program, 0 when it does not run."""
        with self._asking() as server:
            return int(server.getProcessInfo(name)["pid"])

    def log(self, name: str) -> str:
        """The end of what a program has said."""
        file = self._layout.folder / (LOG if name == "supervisord" else f"log/{name}.log")
        return file.read_text(encoding="utf-8", errors="backslashreplace")[-3000:] if file.exists() else ""

    def shut_down(self) -> None:
        """End every program in reverse order, then itself. Raises ServerFailed."""
        pid_file = self._layout.folder / PID
        if not self.running:
            return
        pid = int(pid_file.read_text(encoding="ascii"))
        for program in reversed(self._programs):
            self.halt(program.name)
        with self._asking() as server:
            server.shutdown()
        deadline = time.monotonic() + STOP_S
        while _alive(pid):
            if time.monotonic() > deadline:
                raise ServerFailed(f"the supervisor (process {pid}) does not end:\n{self.log('supervisord')}")
            time.sleep(0.1)

    def _config(self) -> str:
        folder, layout = self._layout.folder, self._layout
        (folder / "log").mkdir(exist_ok=True)
        sections: list[tuple[str, dict[str, object]]] = [
            ("inet_http_server", {"port": layout.at("supervisor"), "username": "stack", "password": layout.password}),
            ("rpcinterface:supervisor", {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"}),
            (
                "supervisord",
                {"logfile": folder / LOG, "pidfile": folder / PID, "childlogdir": folder / "log", "directory": ROOT, "umask": "077"},
            ),
        ]
        for number, program in enumerate(self._programs):
            settings: dict[str, object] = {
                "command": _words(program.command),
                "priority": number,
                "autostart": "false",
                "autorestart": "true",
                # Started again for as long as it takes: what it waits for may be starting again itself.
                "startretries": 1_000_000,
                "startsecs": 1,
                "stopwaitsecs": program.stop_s,
                "stopasgroup": "false",
                "killasgroup": "true",
                "redirect_stderr": "true",
                "stdout_logfile": folder / "log" / f"{program.name}.log",
                "stdout_logfile_maxbytes": LOG_BYTES,
                "stdout_logfile_backups": 1,
            }
            sections.append((f"program:{program.name}", settings))
        lines = []
        for title, settings in sections:
            lines += [f"[{title}]", *(f"{key} = {str(value).replace('%', '%%')}" for key, value in settings.items()), ""]
        return "\n".join(lines)


def _words(command: Sequence[str]) -> str:
    return " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in command)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie waits for its parent only.
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
