"""Composition root and server commands of `firstfault`; a command's modules are imported only when it runs."""

import importlib
import sys
from collections.abc import Callable, Mapping


class Command:
    """One command as the console script mounts it; `entry` is MODULE:FUNCTION."""

    def __init__(self, name: str, help: str, entry: str) -> None:
        self.name = name
        self.help = help
        self._entry = entry

    def main(self, argv: list[str]) -> int:
        """Run it; returns the exit status."""
        module, _, function = self._entry.partition(":")
        run: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
        try:
            return run(argv)
        except BrokenPipeError:
            # The reader of our output has left, as `| head` does; Python must not complain about it at exit.
            sys.stdout = None
            return 0


def commands() -> Mapping[str, Command]:
    """Commands of the server distribution by name."""
    own = {
        "up": "run the whole service in this process",
        "demo": "fail a real two-process job on purpose and show the incident",
        "incidents": "list and show incidents, and act on them",
        "runs": "list and show training runs",
        "events": "search exceptions and warnings as they arrived",
        "deadletters": "list and show what could not be used, and why",
        "silences": "keep the pages of chosen incidents quiet for a time",
        "keys": "create, list and revoke API keys",
        "serve": "run one service of the distributed deployment: ingest, writer, api, alerter",
        "migrate": "create or upgrade topics, index templates and tables of the distributed service",
        "doctor": "send one marked event through the deployment and show each hop",
        "completion": "print a script for completion in bash, zsh or fish",
        "destinations": "say where pages go, and see what was delivered",
    }
    offline = {
        "explain": "say what failed first, from the logs of one failed job",
        "group": "group crash texts",
    }
    return {
        **{name: Command(name, help, f"{__name__}.{name}:main") for name, help in own.items()},
        **{name: Command(name, help, f"firstfault_server.offline.commands:{name}_main") for name, help in offline.items()},
    }
