"""The environment of the server image, without a container: the lock of the services and our two packages as wheels."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.integration.deploy.environment import ROOT, ensure

LOCK: Final = ROOT / "requirements" / "services.txt"


class SmallEnvironment:
    """Interpreter of the locked packages, and a folder with ours, built from this checkout."""

    def __init__(self, folder: Path) -> None:
        self.environment = ensure(LOCK)
        self.python = self.environment / "bin" / "python"
        self.ours = folder / "ours"
        tool = str(Path(sys.executable).with_name("uv"))
        environ = os.environ | {"UV_NO_PROGRESS": "1"}
        for source in (ROOT, ROOT / "sdk"):
            build = [
                tool,
                "build",
                "-q",
                "--python",
                sys.executable,
                "--no-build-isolation",
                "--wheel",
                "--out-dir",
                str(folder / "wheels"),
            ]
            subprocess.run([*build, str(source)], env=environ, check=True, stdin=subprocess.DEVNULL)
        wheels = [str(path) for path in (folder / "wheels").glob("*.whl")]
        install = [tool, "pip", "install", "-q", "--python", str(self.python), "--no-deps", "--target", str(self.ours)]
        subprocess.run([*install, *wheels], env=environ, check=True, stdin=subprocess.DEVNULL)

    def environ(self, environ: dict[str, str]) -> dict[str, str]:
        """Variables under which the interpreter finds our packages, and nothing of the checkout."""
        return environ | {"PYTHONPATH": str(self.ours), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}

    def megabytes(self) -> float:
        """Size of all packages on disk, without the caches of compiled modules."""
        (packages,) = (self.environment / "lib").glob("python*/site-packages")
        files = [path for folder in (packages, self.ours) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        return sum(path.stat().st_size for path in files) / 1e6
