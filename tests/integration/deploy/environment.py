"""Environments of their own, made once and kept in the cache folder by their lock; first the one with Helm's library, Compose's program and
the schemas of Kubernetes."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.native.servers.jars import cache_folder

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements" / "deploy.txt"


def ensure(lock: Path = LOCK) -> Path:
    """Folder of the environment of a lock. Safe to call from several processes at once. Raises CalledProcessError."""
    key = hashlib.sha256(f"{sys.version}{sys.base_prefix}".encode() + lock.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"{lock.stem}-env-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            uv = str(Path(sys.executable).with_name("uv"))
            index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
            environ = os.environ | {"VIRTUAL_ENV": str(folder), "UV_NO_PROGRESS": "1"} | ({"UV_DEFAULT_INDEX": index} if index else {})
            for command in (["venv", "-q", "--python", sys.executable, str(folder)], ["pip", "sync", "-q", "--require-hashes", str(lock)]):
                subprocess.run([uv, *command], env=environ, check=True, stdin=subprocess.DEVNULL)
            (folder / ".done").touch()
    return folder
