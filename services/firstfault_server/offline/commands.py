"""Command lines of the offline tools; `cli` mounts them. Imports stay lean: `explain` is called once per failed job."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firstfault_server.offline.binary import why_no_log
from firstfault_server.offline.explain import document, explain
from firstfault_server.offline.files import Unreadable
from firstfault_server.offline.group import group_texts, read_pairs, read_texts
from firstfault_server.tables import load_tables

DONE: Final = 0
FOUND: Final = 1
USAGE: Final = 2


def explain_parser() -> argparse.ArgumentParser:
    """Arguments of `firstfault explain`."""
    parser = argparse.ArgumentParser(prog="firstfault explain", description="Say what failed first in the logs of one job.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a log of the job, or one per rank; - reads standard input")
    _output(parser)
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 when a failure was found")
    return parser


def group_parser() -> argparse.ArgumentParser:
    """Arguments of `firstfault group`."""
    parser = argparse.ArgumentParser(prog="firstfault group", description="Group crash texts: one bug, one group.")
    parser.add_argument("files", nargs="+", metavar="FILE", help='a crash text, or a .jsonl file with {"id", "text"} a line')
    parser.add_argument("--pairs", metavar="FILE.jsonl", help='score just these pairs, {"a", "b"} a line')
    _output(parser)
    return parser


def explain_main(argv: Sequence[str]) -> int:
    """`firstfault explain FILE…`; returns the exit status."""
    options = _parsed(explain_parser(), argv)
    if isinstance(options, int):
        return options
    refused = [why_no_log(path) for path in options.files]
    if all(refused):
        for reason in refused:
            print(f"firstfault explain: {reason}", file=sys.stderr)
        return USAGE
    incidents, errors = explain(options.files, load_tables())
    for error in errors:
        print(f"firstfault explain: {error}", file=sys.stderr)
    if errors and len(errors) == len(options.files):
        return USAGE
    made = document(incidents)
    form = options.output or ("table" if sys.stdout.isatty() else "json")
    if form == "table":
        from firstfault_server.offline.report import print_report

        print_report(incidents)
    elif form == "jsonl":
        _write(made["incidents"], lines=True)
    else:
        _write(made)
    if errors:
        return USAGE
    return FOUND if options.exit_code and incidents else DONE


def group_main(argv: Sequence[str]) -> int:
    """`firstfault group FILE…`; returns the exit status."""
    options = _parsed(group_parser(), argv)
    if isinstance(options, int):
        return options
    try:
        pairs = read_pairs(options.pairs) if options.pairs else []
        made = group_texts(read_texts(options.files), pairs, load_tables())
    except Unreadable as error:
        print(f"firstfault group: {error}", file=sys.stderr)
        return USAGE
    form = options.output or ("table" if sys.stdout.isatty() else "json")
    if form == "table":
        from firstfault_server.offline.report import print_groups

        print_groups(made)
    elif form == "jsonl":
        _write(made["groups"], lines=True)
    else:
        _write(made)
    return DONE


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json", "jsonl"), help="table on a terminal, json otherwise")


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace | int:
    try:
        return parser.parse_args(list(argv))
    except SystemExit as stop:
        return int(stop.code or 0) if isinstance(stop.code, int) or stop.code is None else USAGE


def _write(made: Any, lines: bool = False) -> None:
    items = made if lines else [made]
    for item in items:
        sys.stdout.buffer.write(msgspec.json.encode(item) + b"\n")
    sys.stdout.buffer.flush()
