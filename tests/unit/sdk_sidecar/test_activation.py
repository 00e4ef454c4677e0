"""Where the SDK switches itself on under `firstfault run`: one table of processes."""

import pytest

from firstfault._activation import WATCHED, is_top_of_rank, mark_watched, program_of

PYTHON = "/usr/bin/python3"
TRAIN = (PYTHON, "train.py")
SPAWNED = (PYTHON, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(3)", "--multiprocessing-fork")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ((PYTHON, "train.py", "--lr", "1"), "train"),
        ((PYTHON, "-u", "/jobs/train.py"), "train"),
        ((PYTHON, "-X", "dev", "-W", "error", "train.py"), "train"),
        ((PYTHON, "-m", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        ((PYTHON, "-um", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        ((PYTHON, "-mtorch.distributed.run"), "torch.distributed.run"),
        ((PYTHON, "/opt/venv/bin/torchrun", "--nproc", "2", "train.py"), "torchrun"),
        ((PYTHON, "-c", "import torch"), ""),
        ((PYTHON, "-uc", "import torch"), ""),
        ((PYTHON,), ""),
        ((PYTHON, "--check-hash-based-pycs", "never", "train.py"), "train"),
    ],
)
def test_program(command: tuple[str, ...], program: str) -> None:
    assert program_of(command) == program


@pytest.mark.parametrize(
    ("what", "environ", "command", "on"),
    [
        ("a program alone", {}, TRAIN, True),
        ("a rank of a launcher", {"RANK": "3"}, TRAIN, True),
        ("a rank of Slurm", {"SLURM_PROCID": "3"}, TRAIN, True),
        ("code given on the command line", {}, (PYTHON, "-c", "import torch"), True),
        ("torchrun", {}, (PYTHON, "/opt/bin/torchrun", "train.py"), False),
        ("torchrun as a module, with a rank of an operator", {"RANK": "0"}, (PYTHON, "-m", "torch.distributed.run"), False),
        ("accelerate", {}, (PYTHON, "/opt/bin/accelerate", "launch", "train.py"), False),
        ("deepspeed's launcher on a node", {}, (PYTHON, "-u", "-m", "deepspeed.launcher.launch"), False),
        ("a helper of a rank", {"RANK": "3", WATCHED: "7:3"}, (PYTHON, "eval.py"), False),
        ("a helper of a program alone", {WATCHED: "7:"}, (PYTHON, "eval.py"), False),
        ("a rank started by a watched program without one", {"RANK": "3", WATCHED: "7:"}, TRAIN, True),
        ("another rank started by a watched rank", {"RANK": "4", WATCHED: "7:3"}, TRAIN, True),
        ("a program that executed itself again", {"RANK": "3", WATCHED: "42:3"}, TRAIN, True),
        ("a spawned data worker", {WATCHED: "7:"}, SPAWNED, False),
        ("a spawned worker of an unwatched program", {}, SPAWNED, False),
        ("a spawned rank", {"RANK": "1"}, SPAWNED, True),
        ("disabled", {"FIRSTFAULT_DISABLED": "1"}, TRAIN, False),
    ],
)
def test_top_of_rank(what: str, environ: dict[str, str], command: tuple[str, ...], on: bool) -> None:
    assert is_top_of_rank(environ, command, 42, (42, environ.get("RANK", ""))) is on, what


def test_a_forked_process_is_on_only_with_a_rank_of_its_own() -> None:
    assert not is_top_of_rank({}, TRAIN, 43, (42, ""))
    assert not is_top_of_rank({"RANK": "1"}, TRAIN, 43, (42, "1"))
    assert is_top_of_rank({"RANK": "1"}, TRAIN, 43, (42, ""))


def test_the_mark_names_process_and_rank() -> None:
    environ = {"RANK": "3"}
    mark_watched(environ, 42)
    assert environ[WATCHED] == "42:3"
