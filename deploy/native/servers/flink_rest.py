"""Questions to Flink's REST interface: what jobs do, and stopping them with a savepoint."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from deploy.native.servers.process import ServerFailed

REQUEST_S: Final = 10.0
PAUSE_S: Final = 0.1
ENDED: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})


class Rest:
    """One JobManager."""

    def __init__(self, address: str) -> None:
        self._base = f"http://{address}"

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The answer to a request, None when there is none now."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                return json.loads(answer.read() or b"{}")
        except (OSError, ValueError, urllib.error.HTTPError):
            return None

    def taskmanagers(self) -> int:
        """How many are registered."""
        return int((self.ask("/overview") or {}).get("taskmanagers", 0))

    def state(self, job: str) -> str:
        """State of a job; empty when it cannot be told now."""
        return str((self.ask(f"/jobs/{job}") or {}).get("state", ""))

    def running(self, job: str) -> bool:
        """Whether every task of the job runs."""
        found = self.ask(f"/jobs/{job}") or {}
        return found.get("state") == "RUNNING" and all(vertex["status"] == "RUNNING" for vertex in found["vertices"])

    def taskmanagers_of(self, job: str) -> set[str]:
        """Ids of the TaskManagers that work for a job. Raises ServerFailed."""
        found: set[str] = set()
        for vertex in (self.ask(f"/jobs/{job}") or {}).get("vertices", []):
            tasks = (self.ask(f"/jobs/{job}/vertices/{vertex['id']}") or {}).get("subtasks", [])
            found |= {str(task["taskmanager-id"]) for task in tasks}
        if not found:
            raise ServerFailed(f"nobody works for job {job}: {self.state(job)}")
        return found

    def failure(self, job: str) -> str:
        """The newest exception of a job, empty when it had none."""
        history = (self.ask(f"/jobs/{job}/exceptions") or {}).get("exceptionHistory", {})
        entries = history.get("entries", [])
        return str(entries[0]["stacktrace"]) if entries else ""

    def wait_running(self, job: str, timeout_s: float) -> None:
        """Raises ServerFailed when the job ends or the time is over first."""
        self.wait(lambda: self.running(job), timeout_s, f"job {job} did not run", job)

    def wait(self, ready: Callable[[], bool], timeout_s: float, what: str, job: str = "") -> None:
        """Raises ServerFailed when the time is over, or when the job has ended."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            state = self.state(job) if job else ""
            if time.monotonic() > deadline or state in ENDED:
                raise ServerFailed(f"{what} in {timeout_s:.0f} s ({state}):\n{self.failure(job)[:3000] if job else ''}")
            time.sleep(PAUSE_S)

    def stop(self, job: str, folder: str, timeout_s: float) -> str:
        """End a job with a savepoint and tell where that is. Raises ServerFailed."""
        asked = self.ask(f"/jobs/{job}/stop", {"targetDirectory": folder, "drain": False}) or {}
        trigger = asked.get("request-id")
        if trigger is None:
            raise ServerFailed(f"job {job} cannot be stopped: {self.state(job)}")
        answer: dict[str, Any] = {}

        def done() -> bool:
            answer.update(self.ask(f"/jobs/{job}/savepoints/{trigger}") or {})
            return bool(answer.get("status", {}).get("id") == "COMPLETED")

        self.wait(done, timeout_s, f"job {job} gave no savepoint")
        operation = answer.get("operation", {})
        if "location" not in operation:
            raise ServerFailed(f"job {job} gave no savepoint: {str(operation.get('failure-cause'))[:3000]}")
        return str(operation["location"])

    def cancel(self, job: str, timeout_s: float) -> None:
        """End a job at once. Raises ServerFailed."""
        self.ask(f"/jobs/{job}?mode=cancel", method="PATCH")
        self.wait(lambda: self.state(job) in ENDED, timeout_s, f"job {job} was not cancelled")
