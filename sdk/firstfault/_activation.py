"""Decides in which processes under `firstfault run` the SDK switches itself on, and does it when a framework is imported.

Loaded by `autostart/sitecustomize.py` in every Python process below the command, also by interpreters that lack this package: it
imports next to nothing before it is needed. On is the top process of a rank: one that imports a training framework, is no
launcher, and has no watched ancestor of the same rank. Data workers, compile workers and other children stay quiet; so do
processes that `multiprocessing` starts, unless they carry a rank of their own.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` and `importlib.abc` take longer to import than everything else here.
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

AUTOSTART = "FIRSTFAULT_AUTOSTART"
"""Set by `firstfault run`."""
WATCHED = "FIRSTFAULT_WATCHED"
"""`PID:RANK` of the nearest watched ancestor or of the process itself; set by `init`, inherited by children."""

FRAMEWORKS = frozenset({"torch", "jax", "tensorflow", "paddle", "mindspore", "oneflow", "mxnet", "mlx"})
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.launcher",
    "torch.multiprocessing.spawn",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
    "horovodrun",
    "horovod.runner.launch",
    "fabric",
    "lightning.fabric.cli",
    "composer",
    "composer.cli",
    "composer.cli.launcher",
    "colossalai",
    "ray",
    "firstfault",
)
_VALUE_OPTIONS = ("-W", "-X", "--check-hash-based-pycs")


def rank_of(environ: Mapping[str, str]) -> str:
    """The rank as launchers give it, empty without one."""
    return next((environ[name] for name in _RANKS if environ.get(name)), "")


def mark_watched(environ: MutableMapping[str, str], pid: int) -> None:
    """Tell the children of process `pid` that their rank is watched already."""
    environ[WATCHED] = f"{pid}:{rank_of(environ)}"


def is_top_of_rank(environ: Mapping[str, str], command: Sequence[str], pid: int, started_as: tuple[int, str]) -> bool:
    """Whether the process should be watched. `command` is the interpreter's command line (`sys.orig_argv`).

    `started_as` is process id and rank when the interpreter started: a process forked since then has another id.
    """
    if environ.get("FIRSTFAULT_DISABLED") == "1" or program_of(command) in _LAUNCHERS:
        return False
    rank = rank_of(environ)
    watched_pid, _, watched_rank = environ.get(WATCHED, "").partition(":")
    if watched_pid and watched_pid != str(pid):
        return bool(rank) and rank != watched_rank
    forked = pid != started_as[0]
    return not (forked or "--multiprocessing-fork" in command) or (bool(rank) and rank != (started_as[1] if forked else ""))


def program_of(command: Sequence[str]) -> str:
    """Module or script that an interpreter's command line runs, without folder and ending; empty for `-c` and a terminal."""
    words = iter(command[1:])
    for word in words:
        if word == "-m":
            return next(words, "")
        if word.startswith("-m"):
            return word[2:]
        if word.startswith("-c"):
            return ""
        if word in _VALUE_OPTIONS:
            next(words, "")
        elif not word.startswith("-"):
            name = word.replace("\\", "/").rpartition("/")[2]
            return name[:-3] if name.endswith(".py") else name
        # -u, -O and the like may end in m or c: -um module.
        elif not word.startswith("--") and word[-1] in "mc" and word[1] not in "WX":
            return next(words, "") if word[-1] == "m" else ""
    return ""


class FrameworkWatch:
    """A finder in front of `sys.meta_path`: has the SDK switched on behind the first framework that is really loaded.

    To look for a framework (`importlib.util.find_spec`) is not to load it, so the watch stays until one is.
    """

    def __init__(self) -> None:
        self._started_as = (os.getpid(), rank_of(os.environ))
        self._asking = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Let the other finders find a framework; its loader gets company."""
        if fullname not in FRAMEWORKS or self._asking:
            return None
        if not is_top_of_rank(os.environ, sys.orig_argv, os.getpid(), self._started_as):
            self.remove()
            return None
        self._asking = True
        try:
            spec = next((spec for finder in list(sys.meta_path) if (spec := finder.find_spec(fullname, path, target))), None)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenStart(spec.loader, self)  # type: ignore[assignment]  # a loader by its methods
        return spec

    def install(self) -> None:
        """Watch imports."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch them no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _ThenStart:
    """Loads a module with its own loader, which is put back where programs look for it, and starts the SDK behind it."""

    def __init__(self, loader: Loader, watch: FrameworkWatch) -> None:
        self._loader = loader
        self._watch = watch

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watch.remove()
        start()


def start() -> None:
    """Switch the SDK on in this process; says so on stderr when this interpreter does not have it."""
    try:
        import firstfault
    except ImportError as error:
        print(f"firstfault: not watched, this Python lacks the package: {error}", file=sys.stderr)
        return
    firstfault.init()
