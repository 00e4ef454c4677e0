"""Fetch the jars of a server by Maven, once: `pins/NAME.xml` names them, `pins/NAME.sha256` is what they must be.

python -m deploy.native.servers.jars fetch kafka
python -m deploy.native.servers.jars lock kafka      # after a change of the .xml file: rewrites the .sha256 file
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.native.servers.process import ServerFailed

PINS: Final = Path(__file__).with_name("pins")
PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_S: Final = 900


def cache_folder() -> Path:
    """Where fetched files are kept: FIRSTFAULT_CACHE, else `firstfault` in the user's cache folder."""
    named = os.environ.get("FIRSTFAULT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firstfault"


def fetch(name: str) -> Path:
    """Folder with the jars of a server. Safe to call from several processes at once. Raises ServerFailed."""
    pom, sums = PINS / f"{name}.xml", PINS / f"{name}.sha256"
    key = hashlib.sha256(pom.read_bytes() + sums.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / "servers" / f"{name}-{key}"
    if folder.is_dir():
        return folder
    with _locked(cache_folder() / "servers"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as temporary:
                resolved = Path(temporary) / "jars"
                _resolve(pom, resolved)
                _check(_read_sums(sums), _sums(resolved), sums.name)
                resolved.rename(folder)
    return folder


def lock(name: str) -> int:
    """Write the checksums of what Maven resolves now; how many jars there are."""
    with _locked(cache_folder() / "servers"), tempfile.TemporaryDirectory() as temporary:
        _resolve(PINS / f"{name}.xml", Path(temporary))
        found = _sums(Path(temporary))
    (PINS / f"{name}.sha256").write_text("".join(f"{digest}  {jar}\n" for jar, digest in sorted(found.items())), encoding="ascii")
    return len(found)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time for the whole cache: Maven's own repository does not stand two writers."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _resolve(pom: Path, into: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerFailed("the servers need Maven (mvn) to be fetched; install it, or point FIRSTFAULT_CACHE at a filled cache")
    print(f"servers: fetching the jars of {pom.name} by Maven", file=sys.stderr, flush=True)
    # A repository of our own inside the cache: nothing of the user's is touched, and a second server shares the common jars.
    settings = [f"-Dmaven.repo.local={cache_folder() / 'maven'}", f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
    command = [maven, "-q", "-B", "-C", "-f", str(pom), *settings, PLUGIN]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ServerFailed(f"Maven did not fetch the jars of {pom.name} in {FETCH_S} s") from error
    if done.returncode != 0:
        raise ServerFailed(f"Maven could not fetch the jars of {pom.name}:\n{(done.stdout + done.stderr)[-2000:]}")


def _sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}


def _read_sums(path: Path) -> dict[str, str]:
    pairs = (line.split("  ", 1) for line in path.read_text(encoding="ascii").splitlines())
    return {jar: digest for digest, jar in pairs}


def _check(wanted: Mapping[str, str], found: Mapping[str, str], where: str) -> None:
    wrong = sorted(jar for jar in wanted.keys() | found.keys() if wanted.get(jar) != found.get(jar))
    if wrong:
        raise ServerFailed(f"these jars are not the ones of {where}: {', '.join(wrong[:10])}; nothing of them was kept")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(description="Jars of the servers.")
    parser.add_argument("action", choices=["fetch", "lock"])
    parser.add_argument("name", choices=sorted(path.stem for path in PINS.glob("*.xml")))
    given = parser.parse_args(arguments)
    try:
        print(fetch(given.name) if given.action == "fetch" else f"{lock(given.name)} jars")
    except ServerFailed as error:
        print(f"servers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
