"""Build the Collector of `src/` and `incidentwindow/` once: the binary is kept in the cache folder, under a name made of its sources.

python -m deploy.collector.build      # prints the path
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.native.servers.jars import cache_folder
from deploy.native.servers.process import ServerFailed

SOURCES: Final = Path(__file__).with_name("src")
OURS: Final = Path(__file__).with_name("incidentwindow")
NAME: Final = "firstfault-collector"
BUILD_S: Final = 1800
GO: Final = (1, 26)
# The compiler that is there, modules exactly as go.sum has them, a binary without C that says nothing about this machine.
FIXED: Final = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}


def build() -> Path:
    """Path of the binary. Safe to call from several processes at once; only the first builds. Raises ServerFailed."""
    sources = (path for folder in (SOURCES, OURS) for path in sorted(folder.rglob("*")))
    files = [path for path in sources if path.is_file() and not path.name.endswith("_test.go")]
    key = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]
    folder = cache_folder() / "collector"
    binary = folder / f"{NAME}-{key}"
    if binary.is_file():
        return binary
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not binary.is_file():
            with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as temporary:
                made = Path(temporary) / NAME
                _compile(made)
                made.rename(binary)
    return binary


def _compile(into: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ServerFailed(f"the Collector needs Go {GO[0]}.{GO[1]} or newer to be built; install it, or use a filled FIRSTFAULT_CACHE")
    print("collector: building, once; minutes when Go's own caches are cold", file=sys.stderr, flush=True)
    command = [go, "build", "-ldflags=-s -w", "-o", str(into), "."]
    if nice := shutil.which("nice"):
        command = [nice, "-n", "10", *command]
    try:
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env=os.environ | FIXED,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServerFailed(f"the Collector was not built in {BUILD_S} s") from error
    if done.returncode != 0:
        raise ServerFailed(f"the Collector could not be built:\n{(done.stdout + done.stderr)[-2000:]}")


def main() -> int:
    """Exit status."""
    try:
        print(build())
    except ServerFailed as error:
        print(f"collector: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
