"""The folder that `firstfault run` and the sidecars under it share: the parent leaves its child's status there.

`PID.status` holds the wait status of process PID; `PID.sidecar` says that a sidecar of process PID may still read it. Whoever
finds the folder without marks removes it.
"""

import shutil
from pathlib import Path

from firstfault.sidecar.death import Status


class LaunchDir:
    """One such folder; every failure to read or write it is the same as not having it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def mark(self, pid: int) -> None:
        """A sidecar watches process `pid`."""
        try:
            (self._path / f"{pid}.sidecar").touch()
        except OSError:
            return  # Read-only or gone: then the status comes from elsewhere.

    def unmark(self, pid: int) -> None:
        """That sidecar is done."""
        (self._path / f"{pid}.sidecar").unlink(missing_ok=True)
        if (self._path / "done").exists():
            self.remove_if_unused()

    def marked(self) -> bool:
        """Some sidecar may still want to read."""
        return any(self._path.glob("*.sidecar"))

    def write(self, pid: int, wait_status: int) -> None:
        """Leave the status of a child. Raises OSError."""
        written = self._path / f"{pid}.writing"
        written.write_text(str(wait_status))
        written.rename(self._path / f"{pid}.status")

    def read(self, pid: int) -> Status | None:
        """The status of process `pid`, if its parent left it."""
        try:
            text = (self._path / f"{pid}.status").read_text()
        except OSError:
            return None
        return Status.of_wait(int(text), source="launcher") if text.isdigit() else None

    def finish(self) -> None:
        """The launcher is done: the last sidecar, or this call, removes the folder."""
        try:
            (self._path / "done").touch()
        except OSError:
            return
        self.remove_if_unused()

    def remove_if_unused(self) -> None:
        """Remove the folder unless a sidecar is marked in it."""
        if not self.marked():
            shutil.rmtree(self._path, ignore_errors=True)
