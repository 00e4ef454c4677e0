"""The environment with Helm's library, Compose's program and the schemas of Kubernetes; made once, kept in the cache folder by its lock."""

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


def ensure() -> Path:
    """Its folder. Safe to call from several processes at once. Raises CalledProcessError."""
    key = hashlib.sha256(f"{sys.version}{sys.base_prefix}".encode() + LOCK.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / f"deploy-env-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            uv = str(Path(sys.executable).with_name("uv"))
            index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
            environ = os.environ | {"VIRTUAL_ENV": str(folder), "UV_NO_PROGRESS": "1"} | ({"UV_DEFAULT_INDEX": index} if index else {})
            for command in (["venv", "-q", "--python", sys.executable, str(folder)], ["pip", "sync", "-q", "--require-hashes", str(LOCK)]):
                subprocess.run([uv, *command], env=environ, check=True, stdin=subprocess.DEVNULL)
            (folder / ".done").touch()
    return folder
