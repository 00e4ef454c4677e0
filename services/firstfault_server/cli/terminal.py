"""Output of the commands: data on stdout as table, json or jsonl; log text is made harmless before a terminal sees it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Annotated, Any, Final, Literal, NoReturn, TypeAlias, cast

import typer

Form: TypeAlias = Literal["table", "json", "jsonl"]
FORMS: Final = ("table", "json", "jsonl")

EXIT_DONE: Final = 0
EXIT_FOUND: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_UNREACHABLE: Final = 4

OutputOption = Annotated[str | None, typer.Option("-o", "--output", help="table, json or jsonl; default: table on a terminal, else json.")]

_HARMFUL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]")
_HARMFUL_IN_JSON: Final = re.compile(_HARMFUL.pattern.replace("\x00-\x1f", ""))


def fail(message: str, status: int) -> NoReturn:
    """Say what is wrong on stderr and leave."""
    sys.stderr.write(f"firstfault: {clean(message)}\n")
    raise typer.Exit(status)


def clean(text: object) -> str:
    """Text that a terminal shows and never obeys: control, direction and invisible characters become escapes, line ends blanks."""
    return _HARMFUL.sub(lambda match: " " if match.group() in "\n\r\t" else _escape(match.group()), str(text))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def choose(output: str | None, stream: IO[str] | None = None) -> Form:
    """The form of output asked for; a terminal gets a table when nothing was said."""
    if not output:
        return "table" if (stream or sys.stdout).isatty() else "json"
    if output not in FORMS:
        fail(f"-o {output!r}: is one of {', '.join(FORMS)}", EXIT_USAGE)
    return cast(Form, output)


def json_text(document: Any, indent: int | None = None) -> str:
    """JSON in which everything that a terminal might obey is escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(document, ensure_ascii=False, indent=indent, separators=separators)
    return _HARMFUL_IN_JSON.sub(lambda match: json.dumps(match.group()).strip('"') if match.group() != "\x7f" else "\\u007f", text)


def emit(document: Any, form: Form) -> None:
    """Write JSON: one document, or one line an item of `items`."""
    if form == "jsonl" and isinstance(document, Mapping) and "items" in document:
        for item in document["items"]:
            sys.stdout.write(json_text(item) + "\n")
    elif form == "jsonl":
        sys.stdout.write(json_text(document) + "\n")
    else:
        sys.stdout.write(json_text(document, indent=2) + "\n")
    sys.stdout.flush()


def show(document: Any, form: Form, as_table: Callable[[Any], None]) -> None:
    """Write a document the way people read it, or as JSON."""
    if form == "table":
        as_table(document)
    else:
        emit(document, form)


def show_items(
    items: Sequence[Any],
    form: Form,
    headings: Sequence[str],
    row: Callable[[Any], Sequence[object]],
    *,
    whole: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Write a list as a table of one row an item (`whole` and `spare` as for `table`), or as JSON."""
    show({"items": items}, form, lambda _: table(headings, map(row, items), whole=whole, spare=spare))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Sequence[str] = (), spare: Sequence[str] = ()) -> None:
    """A table on stdout, as wide as the terminal, or as wide as it must be elsewhere.

    With `whole` every row is one line: cells of these columns are never cut, those of others are. Columns of `spare` are whole too,
    but left out, the first named first, where the terminal has no room for them. Without `whole` long cells are folded.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(clean("" if cell is None else cell)) for cell in row] for row in rows]
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200, highlight=False, markup=False, no_color=no_color())
    natural = {heading: max([len(heading), *(row[index].cell_len for row in cells)]) for index, heading in enumerate(headings)}
    widths = _fitted(natural, console.width, whole, spare) if whole else natural
    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in widths.items():
        if whole:
            made.add_column(heading, overflow="ellipsis", no_wrap=True, width=width)
        else:
            made.add_column(heading, overflow="fold")
    shown = [index for index, heading in enumerate(headings) if heading in widths]
    for row in cells:
        made.add_row(*(row[index] for index in shown))
    if whole:
        # Longer ids than the terminal is wide run over its edge: it wraps what it is given, and a copied id stays one word.
        console.width = max(console.width, sum(widths.values()) + _GAP * (len(widths) - 1))
    console.print(made)


_GAP: Final = 2
_LEAST: Final = 20
"""Characters that are left of a cell that is cut."""


def _fitted(natural: Mapping[str, int], room: int, whole: Sequence[str], spare: Sequence[str]) -> dict[str, int]:
    """Widths of the columns that are shown."""
    widths = dict(natural)
    cut = [heading for heading in natural if heading not in whole and heading not in spare]

    def left() -> int:
        fixed = sum(width for heading, width in widths.items() if heading not in cut)
        return room - fixed - _GAP * (len(widths) - 1)

    least = sum(min(natural[heading], _LEAST) for heading in cut)
    for heading in spare:
        if left() >= least:
            break
        del widths[heading]
    for number, heading in enumerate(cut, 1):
        others = cut[number:]
        mine = left() - sum(widths[other] for other in cut[: number - 1]) - sum(min(natural[other], _LEAST) for other in others)
        widths[heading] = max(min(natural[heading], mine), min(natural[heading], len(heading) + 4))
    return widths


def no_color() -> bool:
    """Whether colours are unwanted (https://no-color.org) or would end up in a file."""
    return bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()


def run(app: typer.Typer, argv: Sequence[str], name: str) -> int:
    """Run a typer application as `firstfault NAME`; returns the exit status."""
    try:
        app(args=list(argv), prog_name=f"firstfault {name}")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else EXIT_FOUND
    return EXIT_DONE


def application(help: str) -> typer.Typer:
    """An empty typer application with plain help and plain errors."""
    return typer.Typer(help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
