"""Composition root and server commands of `firstfault`; a command's modules are imported only when it runs."""

import importlib
import sys
from collections.abc import Callable, Mapping


class Command:
    """One command as the console script mounts it."""

    def __init__(self, name: str, help: str, module: str) -> None:
        self.name = name
        self.help = help
        self._module = module

    def main(self, argv: list[str]) -> int:
        """Run it; returns the exit status."""
        run: Callable[[list[str]], int] = importlib.import_module(f"{__name__}.{self._module}").main
        try:
            return run(argv)
        except BrokenPipeError:
            # The reader of our output has left, as `| head` does; Python must not complain about it at exit.
            sys.stdout = None
            return 0


def commands() -> Mapping[str, Command]:
    """Commands of the server distribution by name."""
    found = [
        Command("up", "run the whole service in this process", "up"),
        Command("demo", "fail a real two-process job on purpose and show the incident", "demo"),
        Command("incidents", "list and show incidents, and act on them", "incidents"),
        Command("runs", "list and show training runs", "runs"),
        Command("events", "search exceptions and warnings as they arrived", "events"),
        Command("keys", "create, list and revoke API keys", "keys"),
        Command("destinations", "say where pages go, and see what was delivered", "destinations"),
    ]
    return {command.name: command for command in found}
