"""One document on a terminal: a line a field, nested values in words, lists of things as small tables below."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import typer

from firstfault_server.cli import terminal

MOST: Final = 20
"""Values of one list that are shown in its line; the others are counted."""


def print_fields(document: Mapping[str, Any]) -> None:
    """The document on stdout; what holds nothing is left out."""
    filled = {name: value for name, value in document.items() if value not in (None, "", [], {})}
    below = {name: value for name, value in filled.items() if _is_rows(value)}
    terminal.table(["FIELD", "VALUE"], [row for name, value in filled.items() if name not in below for row in _rows(name, value)])
    for name, items in below.items():
        columns = list(dict.fromkeys(column for item in items for column in item))
        typer.echo(f"\n{name}:")
        terminal.table([_heading(column) for column in columns], [[flat(item.get(column)) for column in columns] for item in items])


def flat(value: object) -> str:
    """A value in one line, as people write it: `a, b` for a list, `name=value` for what has names, nothing for None."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={flat(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        more = f" and {len(value) - MOST} more" if len(value) > MOST else ""
        return ", ".join(map(flat, value[:MOST])) + more
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _rows(name: str, value: object) -> Iterator[list[str]]:
    lines = [f"{key}={flat(part)}" for key, part in value.items()] if isinstance(value, Mapping) else [flat(value)]
    for place, line in enumerate(lines):
        yield ["" if place else name, line]


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _heading(name: str) -> str:
    return name.replace("_", " ").upper()
