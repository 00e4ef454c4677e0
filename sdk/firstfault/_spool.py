"""Keeps on the node's disk what could not be delivered, until a later process or the sidecar delivers it.

A folder per user and destination, so that nothing goes to another address or tenant than it was meant for. A file holds one
encoded, redacted request and appears whole or not at all. Delivering one twice does no harm: a request keeps its batch number.
At most `LIMIT_BYTES` for all destinations together; the oldest go first, and what goes is counted. Standard library only; no
call raises for a broken disk.
"""

import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from firstfault._guard import LOSSES
from firstfault._http import Reply

LIMIT_BYTES = 64 * 1024 * 1024
KEPT_S = 7 * 24 * 3600.0
"""What is older is of no use to a service that watches live runs."""
_CLAIM_S = 120.0
"""A claim older than that was left by a process that died while it delivered."""
_LATER_S = 60.0
"""What the service broke down over is tried again after so long; it must not hold up the rest."""
_PER_ROUND = 20
_SUFFIXES = {"application/json": ".json.gz", "application/x-protobuf": ".pb.gz"}
_CLAIMED, _LATER, _PARTIAL = ".claimed", ".later", ".partial"
_FOLDER = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(r"\d{20}-\d+-\d+-(?P<signal>metrics|logs)(?P<suffix>\.(?:json|pb)\.gz)(?:\.claimed|\.later|\.partial)?")

Send = Callable[[str, bytes, str], Reply]
"""Signal, body, content type -> how it went."""


def default_root(environ: Mapping[str, str]) -> Path | None:
    """FIRSTFAULT_SPOOL_DIR (set but empty: no spool), else a folder of this user's among the temporary files."""
    chosen = environ.get("FIRSTFAULT_SPOOL_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    user = os.getuid() if hasattr(os, "getuid") else environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"firstfault-spool-{user}"


def folder_for(root: Path, endpoint: str, headers: Mapping[str, str]) -> Path:
    """The folder of one destination; its name tells neither address nor key."""
    lines = [endpoint.rstrip("/"), *(f"{name.lower()}:{value}" for name, value in sorted(headers.items()))]
    return root / hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:16]


class Spool:
    """One folder of requests."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """The folder is made when something is put into it."""
        self.folder = folder
        self._limit = limit_bytes
        self._count = 0

    def put(self, signal: str, body: bytes, content_type: str, *, later: bool = False) -> bool:
        """Keep a request (gzip-compressed body); False, counted, when that is not possible. `later`: not to be sent again at once."""
        try:
            self._make_private()
            if not self._make_room(len(body)):
                LOSSES.count("spool_full")
                return False
            self._count += 1
            name = f"{time.time_ns():020d}-{os.getpid()}-{self._count}-{signal}{_SUFFIXES[content_type]}"
            partial = self.folder / (name + _PARTIAL)
            try:
                partial.write_bytes(body)
                partial.replace(self.folder / (name + _LATER if later else name))
            except OSError:
                partial.unlink(missing_ok=True)
                raise
        except (OSError, KeyError) as error:
            LOSSES.count(f"spool_error:{type(error).__name__}")
            return False
        return True

    def deliver(self, send: Send) -> int:
        """Send some of the oldest requests and remove those that were accepted or refused; how many went.

        Stops at the first to be tried again. Logs that the service breaks down over wait; numbers go, as they would have gone at once.
        """
        delivered = 0
        for path in self._oldest_first():
            if delivered >= _PER_ROUND:
                break
            claimed = self._claim(path)
            if claimed is None:
                continue
            if not self._send(claimed, path, send):
                break
            delivered += 1
        return delivered

    def __len__(self) -> int:
        """Requests that are kept, those that must wait too."""
        return sum(1 for path, _, _ in _files(self.folder) if path.name.endswith((".gz", _LATER)))

    def _send(self, claimed: Path, path: Path, send: Send) -> bool:
        try:
            signal, content_type = _meaning(path)
            reply = send(signal, claimed.read_bytes(), content_type)
            if reply.verdict == "try_again":
                claimed.rename(path)
                return False
            if reply.verdict == "failed" and signal == "logs":
                claimed.rename(path.with_name(path.name + _LATER))
                return True
            claimed.unlink(missing_ok=True)
        except (OSError, ValueError) as error:
            LOSSES.count(f"spool_error:{type(error).__name__}")
            return False
        if reply.verdict != "accepted":
            LOSSES.count(f"refused:{reply.reason}")
        return True

    def _claim(self, path: Path) -> Path | None:
        """Take a request for this process; None when another one has it."""
        claimed = path.with_name(path.name + _CLAIMED)
        try:
            path.rename(claimed)
            os.utime(claimed)
        except OSError:
            return None
        return claimed

    def _oldest_first(self) -> Iterator[Path]:
        """Requests nobody has claimed; old claims and what has waited are given back, what is too old is dropped."""
        now = time.time()
        for path, _, changed in _files(self.folder):
            wait_s = _CLAIM_S if path.name.endswith(_CLAIMED) else _LATER_S if path.name.endswith(_LATER) else None
            if wait_s is not None and now - changed > wait_s:
                with suppress(OSError):
                    path.rename(path.with_suffix(""))
            elif path.name.endswith(".gz"):
                if now - _made_s(path) > KEPT_S:
                    self._drop(path, "spool_expired")
                else:
                    yield path

    def _make_room(self, size: int) -> bool:
        """Drop the oldest requests of all destinations until there is room; False when there is none even then."""
        files = [found for folder in _folders(self.folder.parent) for found in _files(folder)]
        total = sum(size for _, size, _ in files)
        for path, held, changed in sorted(files, key=lambda found: found[0].name):
            if total + size <= self._limit:
                break
            # What is being written or delivered now stays; what was left behind goes.
            if path.name.endswith((".gz", _LATER)) or time.time() - changed > _CLAIM_S:
                self._drop(path, "spool_full")
                total -= held
        return total + size <= self._limit

    def _drop(self, path: Path, reason: str) -> None:
        with suppress(OSError):
            path.unlink()
            LOSSES.count(reason)

    def _make_private(self) -> None:
        """Make the folder for this user alone. Raises OSError when somebody else made it first, as anybody can among temporary files."""
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = os.getuid() if hasattr(os, "getuid") else 0
        # The root may be an administrator's; the folder in it must be ours.
        for folder, owners in ((self.folder.parent, (own, 0)), (self.folder, (own,))):
            status = os.lstat(folder)
            link_of_user = stat.S_ISLNK(status.st_mode) and status.st_uid == own and folder != self.folder
            if status.st_uid not in owners or not (stat.S_ISDIR(status.st_mode) or link_of_user):
                raise PermissionError(f"{folder} is not a folder of this user")


def _folders(root: Path) -> list[Path]:
    """Our folders under the root, which may be a folder of the user's with other things in it."""
    with suppress(OSError):
        return [Path(entry.path) for entry in os.scandir(root) if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
    return []


def _files(folder: Path) -> list[tuple[Path, int, float]]:
    """Our files in a folder, oldest first: path, size, time of the last change."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if _FILE.fullmatch(entry.name) and stat.S_ISREG(status.st_mode):
                    found.append((Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found)


def _meaning(path: Path) -> tuple[str, str]:
    """Signal and content type of a request, from its name. Raises ValueError."""
    found = _FILE.fullmatch(path.name)
    if found is None:
        raise ValueError(f"not a spooled request: {path.name}")
    return found["signal"], next(kind for kind, suffix in _SUFFIXES.items() if suffix == found["suffix"])


def _made_s(path: Path) -> float:
    return int(path.name.partition("-")[0]) / 1e9
