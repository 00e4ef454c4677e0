"""The environment of the torch fault jobs: torch on CPU, the SDK installed editable, made on first use."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.faults.torch_env import cuda_stubs

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".venv-torch"
LOCKS = (ROOT / "requirements" / "torch.txt", ROOT / "requirements" / "torch-wheel.txt")


class TorchUnavailable(RuntimeError):
    """The environment could not be made; the message says which step failed."""


def ensure() -> Path:
    """Folder of the environment; makes or renews it when its locks changed. Safe to call from several processes at once.

    Raises TorchUnavailable with the output of the step that failed.
    """
    stamp = FOLDER / ".setup-stamp"
    wanted = _key()
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".setup-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == wanted:
            return FOLDER
        stamp.unlink(missing_ok=True)
        print("setup-torch: installing torch on CPU (a 0.5 GB wheel on first use)", file=sys.stderr)
        uv = Path(sys.executable).parent / "uv"
        env = os.environ | {"VIRTUAL_ENV": str(FOLDER), "UV_NO_PROGRESS": "1", "UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "300")}
        _run([str(uv), "venv", "-q", "--allow-existing", "--python", sys.executable, str(FOLDER)], env)
        _run([str(uv), "pip", "sync", "-q", "--require-hashes", *(str(path) for path in LOCKS)], env)
        _run([str(uv), "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", str(ROOT / "sdk")], env)
        try:
            cuda_stubs.build(next(FOLDER.glob("lib/python3.*/site-packages/torch/lib")))
        except cuda_stubs.StubError as error:
            raise TorchUnavailable(f"stand-ins for the CUDA libraries: {error}") from error
        check = "import torch; assert not torch.cuda.is_available(); assert torch.distributed.is_gloo_available()"
        _run([str(FOLDER / "bin" / "python"), "-c", check], env)
        stamp.write_text(wanted)
    return FOLDER


def _key() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in (*LOCKS, ROOT / "sdk" / "pyproject.toml", Path(cuda_stubs.__file__), Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(command: list[str], env: dict[str, str]) -> None:
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise TorchUnavailable(f"cannot start {command[0]}: {error}; run `make setup` first") from error
    if done.returncode != 0:
        raise TorchUnavailable(f"{' '.join(command[:4])} … failed with {done.returncode}:\n{done.stderr[-2000:]}")
