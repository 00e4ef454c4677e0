"""The environment of the Flink job: PyFlink without Beam and tables, the Kafka connector, our Java classes. Made once, kept by its pins.

python -m deploy.native.servers.flink_env        # makes it when it is missing and prints its folder
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.native.servers.jars import cache_folder, fetch
from deploy.native.servers.process import ServerFailed

ROOT: Final = Path(__file__).resolve().parents[3]
LOCKS: Final = (ROOT / "requirements" / "flink.txt", ROOT / "requirements" / "flink-wheel.txt")
SOURCES: Final = ROOT / "services" / "firstfault_server" / "detect" / "flink" / "java"
JAVA_RELEASE: Final = "17"
SETUP_S: Final = 900


def ensure() -> Path:
    """Folder of the environment. Safe to call from several processes at once. Raises ServerFailed with what the failing step said."""
    jars = fetch("flink")
    folder = cache_folder() / "servers" / f"flink-env-{_key(jars)}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            print("servers: making the environment of Flink", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, jars)
            (folder / ".done").touch()
    return folder


def home(folder: Path) -> Path:
    """Flink's own folder in an environment: PyFlink carries a whole Flink. Raises ServerFailed."""
    found = next(folder.glob("lib/python3.*/site-packages/pyflink"), None)
    if found is None:
        raise ServerFailed(f"there is no PyFlink in {folder}")
    return found


def _key(jars: Path) -> str:
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix} {jars.name}".encode())
    for path in (*LOCKS, *sorted(SOURCES.glob("*/*.java")), Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make(folder: Path, jars: Path) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise ServerFailed("the environment of Flink is made by uv, which is not here; run `make setup`")
    # uv reads no pip configuration: hand over a private index if one is set.
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
    more = {"VIRTUAL_ENV": str(folder), "UV_NO_PROGRESS": "1", "UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "300")}
    environment = {**os.environ, **more, **({"UV_DEFAULT_INDEX": index} if index else {})}
    _run([uv, "venv", "-q", "--python", sys.executable, str(folder)], environment)
    _run([uv, "pip", "sync", "-q", "--require-hashes", *map(str, LOCKS)], environment)
    flink = home(folder)
    for jar in jars.glob("*.jar"):
        (flink / "lib" / jar.name).symlink_to(jar)
    python_jar = next((flink / "opt").glob("flink-python-*.jar"))
    # In lib/ it is loaded once for a TaskManager: it loads native code, which a second job could not load again.
    (flink / "lib" / python_jar.name).symlink_to(python_jar)
    _compile(flink)


def _compile(flink: Path) -> None:
    javac, jar = shutil.which("javac"), shutil.which("jar")
    if javac is None or jar is None:
        raise ServerFailed("the job's Java classes need a JDK (javac and jar) to be compiled")
    with tempfile.TemporaryDirectory() as classes:
        sources = [str(path) for path in sorted(SOURCES.glob("*/*.java"))]
        _run([javac, "--release", JAVA_RELEASE, "-nowarn", "-cp", f"{flink / 'lib'}/*", "-d", classes, *sources], os.environ)
        _run([jar, "cf", str(flink / "lib" / "firstfault-flink.jar"), "-C", classes, "."], os.environ)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SETUP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerFailed(f"the environment of Flink: {error}") from error
    if done.returncode != 0:
        raise ServerFailed(f"the environment of Flink: {' '.join(command[:4])} … failed:\n{(done.stdout + done.stderr)[-2000:]}")


def main() -> int:
    """Exit status."""
    try:
        print(ensure())
    except ServerFailed as error:
        print(f"servers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
