"""`firstfault completion SHELL`: a script by which a shell completes commands, options and their values, made from the commands."""

import importlib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Mapping
from typing import Annotated, Any, Final

import shtab
import typer

from firstfault import launch
from firstfault_server.cli import commands, terminal
from firstfault_server.cli.keys import SCOPES
from firstfault_server.offline.commands import explain_parser, group_parser

SHELLS: Final = ("bash", "zsh", "fish")
ARGPARSE: Final = {"explain": explain_parser, "group": group_parser, "run": launch.parser}
"""Commands whose arguments are described by argparse, as shtab wants them; those of the others are described by typer."""
VALUES: Final[Mapping[str, tuple[str, ...]]] = {"--output": terminal.FORMS, "--scope": SCOPES}
PATHS: Final[Mapping[str, Any]] = {"--data": shtab.DIRECTORY, "--config": shtab.FILE, "--save": shtab.FILE}

app = terminal.application("Print a script by which a shell completes commands, options and their values.")


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script by which a shell completes commands, options and their values.

    bash: put `source <(firstfault completion bash)` into ~/.bashrc.

    zsh: firstfault completion zsh > "${fpath[1]}/_firstfault"

    fish: firstfault completion fish > ~/.config/fish/completions/firstfault.fish
    """
    if shell not in SHELLS:
        terminal.fail(f"{shell!r}: is one of {', '.join(SHELLS)}", terminal.EXIT_USAGE)
    typer.echo(shtab.complete(described(), shell))


def described() -> ArgumentParser:
    """Every command with its arguments, as argparse describes them."""
    root = ArgumentParser(prog="firstfault")
    root.add_argument("-V", "--version", action="store_true", help="show the installed versions")
    children = root.add_subparsers()
    known = commands()
    helps = {**{name: command.help for name, command in known.items()}, "run": launch.HELP}
    for name, text in sorted(helps.items()):
        if name in ARGPARSE:
            child = children.add_parser(name, help=_plain(text), parents=[ARGPARSE[name]()], add_help=False)
            for action in child._actions:
                if str(action.metavar).startswith(("FILE", "CMD")):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        else:
            module = importlib.import_module(f"firstfault_server.cli.{name}")
            _add(children, name, text, typer.main.get_command(module.app))
    children.add_parser("help", help="explain a command").add_argument("command", choices=sorted(helps))
    return root


def _add(children: "_SubParsersAction[ArgumentParser]", name: str, text: str, command: Any) -> None:
    made = children.add_parser(name, help=_plain(text), add_help=False)
    made.add_argument("--help", action="store_true", help="explain it")
    for parameter in command.params:
        _add_parameter(made, parameter)
    below = getattr(command, "commands", {})
    if below:
        grandchildren = made.add_subparsers()
        for each, part in below.items():
            _add(grandchildren, each, part.get_short_help_str(200), part)


def _add_parameter(parser: ArgumentParser, parameter: Any) -> None:
    """A parameter of typer."""
    text = _plain(parameter.help or "")
    if parameter.param_type_name == "argument":
        words = SHELLS if parameter.metavar == "SHELL" else None
        parser.add_argument(parameter.name, nargs="*" if parameter.nargs < 0 else "?", help=text, choices=words)
        return
    for options in filter(None, (parameter.opts, parameter.secondary_opts)):
        if parameter.is_flag:
            parser.add_argument(*options, action="store_true", help=text)
            continue
        choices = next((VALUES[option] for option in options if option in VALUES), None)
        added = parser.add_argument(*options, help=text, choices=choices)
        path = next((PATHS[option] for option in options if option in PATHS), None)
        if path is not None:
            added.complete = path  # type: ignore[attr-defined]


def _plain(text: str) -> str:
    """Text in which argparse finds nothing to fill in."""
    return " ".join(text.split()).replace("%", "%%")


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "completion")
