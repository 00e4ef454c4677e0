"""`firstfault run -- CMD`: starts a training command with the SDK switched on and is otherwise not there.

Signals reach CMD once and the exit status is CMD's own (`_foreground`). CMD's Python processes find `autostart/` first on their
path; its `sitecustomize` switches the SDK on where a training framework is imported in the top process of a rank (`_activation`).
Interpreters started with -I, -E or -S look at neither; there, and where `multiprocessing` starts the ranks, call `init()`.
"""

import argparse
import hashlib
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from firstfault._activation import AUTOSTART
from firstfault._client import is_disabled
from firstfault._foreground import cannot_start, run_in_foreground
from firstfault._identity import FALLBACK_RUN_ID, RUN_ID, RUN_NAME
from firstfault.sidecar.launched import LaunchDir

HELP = "start a training command with the SDK switched on"
# Open MPI (PMIx and older) name the job of one `mpirun` after its host and process id.
_MPI_JOB = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
LAUNCH_DIR = "FIRSTFAULT_LAUNCH_DIR"
_AUTOSTART_DIR = Path(__file__).with_name("autostart")


def main(args: list[str]) -> int:
    """`firstfault run [--run-id ID] [--name N] [--capture-stderr] -- CMD …`; returns CMD's status, or dies of CMD's signal."""
    options, command = parse(args)
    if is_disabled(os.environ):
        return _become(command)
    launch_dir = _make_launch_dir()
    environ = environment(os.environ, run_id=options.run_id, name=options.name, launch_dir=launch_dir)
    launched = LaunchDir(launch_dir) if launch_dir else None
    return run_in_foreground(command, environ, launched, capture_stderr=options.capture_stderr)


def environment(environ: Mapping[str, str], *, run_id: str | None, name: str | None, launch_dir: str) -> dict[str, str]:
    """The environment of CMD: `environ` and what switches the SDK on in it."""
    path = [str(_AUTOSTART_DIR), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    changed = {
        **environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        AUTOSTART: str(Path(__file__).parent.parent),
        FALLBACK_RUN_ID: environ.get(FALLBACK_RUN_ID) or own_run_id(environ),
    }
    for variable, value in ((RUN_ID, run_id), (RUN_NAME, name), (LAUNCH_DIR, launch_dir)):
        if value:
            changed[variable] = value
    return changed


def own_run_id(environ: Mapping[str, str]) -> str:
    """The last resort where nothing names the job: the same for all processes that one `mpirun` starts, else a new one."""
    for variable in _MPI_JOB:
        if job := environ.get(variable):
            return "run-" + hashlib.sha256(f"{variable}={job}".encode("utf-8", "replace")).hexdigest()[:16]
    return f"run-{uuid.uuid4().hex[:16]}"


def parser() -> argparse.ArgumentParser:
    """Options of `run` itself."""
    made = argparse.ArgumentParser(
        prog="firstfault run", usage="firstfault run [--run-id ID] [--name N] [--capture-stderr] -- CMD ...", description=HELP
    )
    made.add_argument("--run-id", metavar="ID", help="id of the run, the same on every node (default: what the scheduler or launcher says)")
    made.add_argument("--name", metavar="N", help="name of the run, for people")
    made.add_argument(
        "--capture-stderr", action="store_true", help="keep stderr in a file on its way, so that its last lines can be reported"
    )
    made.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="the command and its arguments")
    return made


def parse(args: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Options of `run` itself, and the command; ends the process with status 2 on a usage error."""
    described = parser()
    # Everything behind the first `--` is CMD's, whatever it looks like.
    split = args.index("--") if "--" in args else len(args)
    options = described.parse_args(args[:split])
    # A `--` after the command's first word belongs to the command itself.
    command: list[str] = [*options.command, *args[split:]] if options.command else args[split + 1 :]
    if not command:
        described.error("no command given: firstfault run -- CMD ...")
    return options, command


def _become(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        return cannot_start(command[0], error)


def _make_launch_dir() -> str:
    try:
        return tempfile.mkdtemp(prefix="firstfault-run-")
    except OSError:
        return ""  # No place for temporary files: then the status comes from elsewhere.
