"""A service as a child process: started on free ports, waited for, stopped for certain."""

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

_READY = re.compile(r"ready api=(\S+) otlp-http=(\S+) otlp-grpc=(\S+)\Z")
START_WITHIN_S = 90.0
STOP_WITHIN_S = 16.0


class ChildFailed(Exception):
    """The service did not start; the message has what it said."""


class ChildService:
    """`firstfault up` in a process of its own, for the length of a with block."""

    def __init__(self, data: Path, addresses: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it on (api, otlp_http, otlp_grpc) and wait until it is ready. Raises ChildFailed."""
        api, otlp_http, otlp_grpc = addresses
        command = [sys.executable, "-m", "firstfault_server", "up", "--data", str(data)]
        command += ["--api", api, "--otlp-http", otlp_http, "--otlp-grpc", otlp_grpc]
        self.errors = data / "service.err"
        data.mkdir(parents=True, exist_ok=True)
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=dict(environ))
        match = _READY.match(self._first_line())
        if match is None:
            self.stop()
            raise ChildFailed(f"the service did not start: {self.errors.read_text('utf-8', 'replace').strip()[-2000:]}")
        self.api_url, self.otlp_url = f"http://{match.group(1)}", f"http://{match.group(2)}"

    def _first_line(self) -> str:
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert self._process.stdout is not None
        read = self._process.stdout.readline
        threading.Thread(target=lambda: lines.put(read()), daemon=True).start()
        try:
            return lines.get(timeout=START_WITHIN_S).decode("utf-8", "replace").strip()
        except queue.Empty:
            return ""

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self.stop()

    def stop(self) -> int:
        """SIGTERM, and SIGKILL when that is not enough; returns the exit status."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        status = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def __enter__(self) -> "ChildService":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
