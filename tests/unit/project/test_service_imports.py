"""The services of the distributed deployment, in an environment without the packages of the embedded store."""

import subprocess
import sys
from pathlib import Path

import pytest

LEFT_OUT = Path(__file__).resolve().parents[3] / "requirements" / "services.without"
PROGRAM = """
import importlib, pkgutil, sys

class Away:
    # As if these were not installed.
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Away())
{more}
from firstfault_server.cli import commands
import firstfault_server.adapters as adapters
import firstfault_server.cli.serve as serve

for package in (serve, adapters):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
for name in ("serve", "migrate", "keys", "doctor"):
    assert commands()[name].main(["--help"]) == 0
assert not {blocked!r} & {{name.partition(".")[0] for name in sys.modules}}
"""


def blocked() -> set[str]:
    """Modules of the packages that are left out, and of what only they bring."""
    lines = [line.partition("#")[0].strip() for line in LEFT_OUT.read_text(encoding="utf-8").splitlines()]
    return {line.replace("-", "_") for line in lines if line} | {"pandas", "pyarrow"}


def run(more: str = "") -> "subprocess.CompletedProcess[str]":
    """Import everything that a service is made of."""
    program = PROGRAM.format(blocked=blocked(), more=more)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)


def test_services_import_nothing_of_the_embedded_store() -> None:
    done = run()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", sorted(blocked() - {"chdb_core"}))
def test_the_check_can_fail(module: str) -> None:
    done = run(f"import {module}")
    assert done.returncode != 0
    assert f"No module named '{module}'" in done.stderr
