"""Under `firstfault run` the SDK is on in the top process of each rank, and nothing else of the program changes."""

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.sdk.jobs import SDK, Jobs
from tests.integration.sdk.peer import Receiver

pytestmark = pytest.mark.integration
RUN = [sys.executable, "-m", "firstfault", "run", "--"]


@pytest.fixture
def program(jobs: Jobs) -> Path:
    """A folder on the path of the job with a stand-in for torch and its launcher."""
    folder = jobs.folder / "program"
    (folder / "torch" / "distributed").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("LOADER = type(__spec__.loader).__name__\n")
    (folder / "torch" / "distributed" / "__init__.py").write_text("")
    (folder / "torch" / "distributed" / "run.py").write_text(
        textwrap.dedent("""
        import os, subprocess, sys, torch
        workers = [
            subprocess.Popen([sys.executable, sys.argv[1]], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"}) for rank in range(2)
        ]
        sys.exit(max(worker.wait() for worker in workers))
        """)
    )
    return folder


def _run(
    jobs: Jobs,
    program: Path,
    script: str,
    *,
    command: tuple[str, ...] = (),
    meanwhile: Callable[[], object] = lambda: None,
    **environ: str,
) -> tuple[int, str]:
    """Run a script under `firstfault run`; its status and output. `meanwhile` is called while it runs."""
    path = program / "train.py"
    path.write_text(textwrap.dedent(script))
    process = jobs.command(
        [*RUN, sys.executable, *command, str(path)],
        environ={"PYTHONPATH": os.pathsep.join([SDK, str(program)]), "FIRSTFAULT_SIDECAR_LOG": "", **environ},
        ready=False,
    )
    meanwhile()
    out, _ = process.communicate(timeout=40)
    return process.returncode, out.decode()


def _watched(receiver: Receiver) -> set[tuple[int, int | None]]:
    """Process id and rank of all that ended and said so."""
    return {(record.resource["process.pid"], record.resource.get("train.rank")) for record in receiver.of("train.exit")}


def test_a_program_that_imports_a_framework_is_watched(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    status, out = _run(jobs, program, "import torch, os; print(os.getpid(), torch.LOADER, type(torch.__spec__.loader).__name__)")
    pid, *loaders = out.split()
    assert status == 0
    assert loaders == ["SourceFileLoader", "SourceFileLoader"]
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.resource["process.pid"] == int(pid)
    assert exit_record.resource["train.run.id.source"] == "own"
    assert exit_record.resource["train.launcher"] == "firstfault"


def test_a_program_without_framework_is_quiet(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    assert _run(jobs, program, "import json; print('done')") == (0, "done\n")
    assert receiver.of("train.heartbeat") == receiver.of("train.exit") == []


def test_ranks_are_watched_and_their_launcher_is_not(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    status, out = _run(jobs, program, "import torch, os; print(os.getpid(), os.environ['RANK'])", command=("-m", "torch.distributed.run"))
    assert status == 0
    ranks = {(int(pid), int(rank)) for pid, rank in (line.split() for line in out.splitlines())}
    receiver.wait("train.exit", 2)
    assert _watched(receiver) == ranks
    assert len({record.resource["train.run.id"] for record in receiver.of("train.exit")}) == 1


@pytest.mark.parametrize(
    "helper",
    [
        "subprocess.run([sys.executable, '-c', 'import torch'], check=True)",
        "multiprocessing.get_context('spawn').Pool(2).map(work, range(4))",
        "multiprocessing.get_context('fork').Pool(2).map(work, range(4))",
    ],
)
@pytest.mark.parametrize("rank", ["", "5"])
def test_children_of_a_rank_are_quiet(jobs: Jobs, receiver: Receiver, program: Path, helper: str, rank: str) -> None:
    script = f"""
    import multiprocessing, os, subprocess, sys, time, torch

    def work(number):
        import torch
        return number

    if __name__ == "__main__":
        {helper}
        print(os.getpid())
        sys.stdout.flush()
        while not os.path.exists({str(jobs.folder / "seen")!r}):
            time.sleep(0.01)
    """

    def until_it_has_been_heard_of() -> None:
        receiver.wait("train.heartbeat", timeout_s=40)
        (jobs.folder / "seen").touch()

    status, out = _run(jobs, program, script, RANK=rank, meanwhile=until_it_has_been_heard_of)
    assert status == 0
    receiver.wait("train.exit")
    assert _watched(receiver) == {(int(out), int(rank) if rank else None)}
    assert {record.resource["process.pid"] for record in receiver.of("train.heartbeat")} == {int(out)}


def test_a_rank_started_by_a_program_of_the_users_own_is_watched(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    script = """
    import os, subprocess, sys
    if "RANK" in os.environ:
        import torch
        print(os.getpid())
    else:
        for rank in "01":
            subprocess.run([sys.executable, __file__], env={**os.environ, "RANK": rank}, check=True)
    """
    status, out = _run(jobs, program, script)
    assert status == 0
    receiver.wait("train.exit", 2)
    assert _watched(receiver) == {(int(pid), rank) for rank, pid in enumerate(out.split())}


def test_a_missing_framework_is_missing_as_ever_and_the_next_one_counts(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    (program / "jax.py").write_text("")
    script = """
    import os
    try:
        import tensorflow
    except ModuleNotFoundError as error:
        print(error)
    import jax
    print(os.getpid())
    """
    status, out = _run(jobs, program, script)
    assert status == 0
    message, pid = out.splitlines()
    assert message == "No module named 'tensorflow'"
    receiver.wait("train.exit")
    assert _watched(receiver) == {(int(pid), None)}


def test_looking_for_a_framework_is_not_loading_it(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    script = """
    import importlib.util, os
    spec = importlib.util.find_spec("torch")
    print(spec.loader.get_filename() == spec.origin)
    import torch
    print(os.getpid())
    """
    status, out = _run(jobs, program, script)
    assert status == 0
    delegated, pid = out.split()
    assert delegated == "True"
    receiver.wait("train.exit")
    assert _watched(receiver) == {(int(pid), None)}


def test_a_framework_that_fails_to_load_fails_as_ever(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    (program / "torch" / "__init__.py").write_text("raise ImportError('libcuda is missing')")
    assert _run(jobs, program, "try:\n    import torch\nexcept ImportError as error:\n    print(error)") == (0, "libcuda is missing\n")
    assert receiver.of("train.heartbeat") == receiver.of("train.exit") == []


def test_an_exception_of_the_program_is_reported_once_and_stderr_is_unchanged(jobs: Jobs, receiver: Receiver, program: Path) -> None:
    status, _ = _run(jobs, program, "import torch\nraise ValueError('loss is nan')\n")
    assert status == 1
    assert jobs.stderr.read_text().splitlines()[-1] == "ValueError: loss is nan"
    assert "firstfault" not in jobs.stderr.read_text()
    assert receiver.wait("exception")[0].attributes["exception.type"] == "ValueError"
    assert {record.attributes["train.exit.state"] for record in receiver.wait("train.exit")} == {"failed"}


def test_the_sitecustomize_that_was_there_runs_and_the_path_is_the_same(jobs: Jobs, program: Path) -> None:
    site = jobs.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.chained = __file__\n")
    script = "import sys, sitecustomize; print(sys.chained); print(sitecustomize.__file__); print(sys.path)"
    path = os.pathsep.join([SDK, str(site)])
    status, out = _run(jobs, program, script, PYTHONPATH=path)
    assert status == 0
    chained, own, sys_path = out.splitlines()
    assert chained == own == str(site / "sitecustomize.py")
    plain = jobs.command([sys.executable, str(program / "train.py")], environ={"PYTHONPATH": path}, ready=False)
    assert plain.communicate(timeout=20)[0].decode().splitlines()[2] == sys_path
    assert jobs.stderr.read_text() == ""


def test_a_sitecustomize_that_fails_is_reported_as_ever(jobs: Jobs, program: Path) -> None:
    site = jobs.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("raise ValueError('broken site')\n")
    path = os.pathsep.join([SDK, str(site)])
    assert _run(jobs, program, "print('runs')", PYTHONPATH=path) == (0, "runs\n")
    under_run = jobs.stderr.read_text()
    jobs.stderr.write_text("")
    jobs.command([sys.executable, str(program / "train.py")], environ={"PYTHONPATH": path}, ready=False).communicate(timeout=20)
    # `firstfault run` is a Python program itself and says it first.
    assert under_run == jobs.stderr.read_text() * 2
    assert "ValueError: broken site" in under_run


def test_an_interpreter_without_the_package_runs_and_says_so(jobs: Jobs, program: Path) -> None:
    (program / "train.py").write_text("import torch; print('runs')")
    bare = str(Path(sys.executable).resolve())
    process = jobs.command([*RUN, bare, "-S", "-c", "print('plain')"], ready=False)
    assert process.communicate(timeout=20)[0] == b"plain\n"
    # `firstfault run` itself finds the package through PYTHONPATH, its command does not.
    unset = ["env", f"PYTHONPATH={Path(SDK, 'firstfault', 'autostart')}:{program}", bare, str(program / "train.py")]
    process = jobs.command([*RUN, *unset], ready=False)
    assert process.communicate(timeout=20)[0] == b"runs\n"
    assert process.returncode == 0
    assert jobs.stderr.read_text().startswith("firstfault: not watched, this Python lacks the package: ")
