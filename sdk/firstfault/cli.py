"""The console script `firstfault`: `run` lives here, other distributions add commands through entry points.

An entry point of group `firstfault.commands` names a callable without arguments that returns `dict[str, CommandSpec]`. Commands
are loaded only when `run` is not what was asked for: a broken plug-in never keeps a training job from starting.
"""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

from firstfault import launch

ENTRY_POINT_GROUP = "firstfault.commands"
USAGE = 2
"""Exit status for usage errors."""

# Commands of the service by name, so that an installation without it can say what is missing.
SERVICE_COMMANDS = (
    "completion",
    "deadletters",
    "demo",
    "destinations",
    "doctor",
    "events",
    "explain",
    "group",
    "incidents",
    "keys",
    "migrate",
    "runs",
    "serve",
    "silences",
    "up",
)


@dataclass(frozen=True)
class CommandSpec:
    """One command: a line for `firstfault help`, and what to call with the arguments behind its name; returns the exit status."""

    help: str
    main: Callable[[list[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args and args[0] == "run":
        return launch.main(args[1:])
    commands = {"run": CommandSpec(launch.HELP, launch.main), **_plugged_in()}
    if args and args[0] == "help" and len(args) > 1:
        args = [args[1], "--help"]
    if not args:
        print(_help(commands), end="", file=sys.stderr)
        return USAGE
    if args[0] in ("help", "--help", "-h"):
        print(_help(commands), end="")
        return 0
    if args[0] in ("--version", "-V", "version"):
        print(_versions())
        return 0
    if args[0] in commands:
        return commands[args[0]].main(args[1:])
    return _unknown(args[0], commands)


def _plugged_in() -> dict[str, CommandSpec]:
    commands: dict[str, CommandSpec] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        commands.update(_load(entry))
    return commands


def _load(entry: EntryPoint) -> dict[str, CommandSpec]:
    try:
        loaded: dict[str, CommandSpec] = entry.load()()
    except Exception as error:  # A plug-in may fail in any way; the others still work.
        print(f"firstfault: the commands of {entry.value} cannot be loaded: {type(error).__name__}: {error}", file=sys.stderr)
        return {}
    return loaded


def _help(commands: dict[str, CommandSpec]) -> str:
    parser = argparse.ArgumentParser(
        prog="firstfault",
        usage="firstfault COMMAND ...",
        description="Says which rank of a training job failed first, why, and whether it was seen before.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(_table(commands)),
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this list")
    parser.add_argument("-V", "--version", action="store_true", help="show the installed versions")
    return parser.format_help()


def _table(commands: dict[str, CommandSpec]) -> list[str]:
    width = max(len(name) for name in commands)
    lines = ["commands:", *(f"  {name:<{width}}  {spec.help}" for name, spec in sorted(commands.items()))]
    lines.append("\n`firstfault COMMAND --help` explains one.")
    if not any(name in commands for name in SERVICE_COMMANDS):
        lines.append("The commands of the service come with the distribution firstfault-server, which is not installed here.")
    return lines


def _versions() -> str:
    lines = []
    for distribution in ("firstfault", "firstfault-server"):
        try:
            lines.append(f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            continue
    return "\n".join(lines) or "firstfault (not installed as a distribution)"


def _unknown(name: str, commands: dict[str, CommandSpec]) -> int:
    if name in SERVICE_COMMANDS:
        message = f"`{name}` is a command of the service, which is not installed here: install firstfault-server"
    else:
        near = difflib.get_close_matches(name, sorted({*commands, *SERVICE_COMMANDS, "help"}), n=3, cutoff=0.5)
        message = f"unknown command {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "; see `firstfault help`")
    print(f"firstfault: {message}", file=sys.stderr)
    return USAGE
