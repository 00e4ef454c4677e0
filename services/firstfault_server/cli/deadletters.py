"""`firstfault deadletters …`: what could not be used, and why, from a terminal."""

import base64
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.fields import print_fields
from firstfault_server.cli.options import Identifier, LimitOption, PeriodOption

MOST: Final = 2000
"""Characters of the bytes that are shown."""

app = terminal.application("What could not be used, and why: list, show.")


@app.command("list")
def list_letters(
    period: PeriodOption = None,
    limit: LimitOption = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List dead letters, received last first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/deadletters", limit, period=period))
    terminal.show_items(
        items,
        form,
        ["ID", "RECEIVED", "SIGNAL", "SIZE", "REASON"],
        lambda item: [item["id"], item["received"][:23], item["signal"], item["size"], item["reason"]],
    )


@app.command()
def show(
    letter: Identifier,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bytes there, as they came.")] = None,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Show one dead letter and the beginning of its bytes."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/deadletters/{segment(letter)}")
    if save is not None:
        try:
            save.write_bytes(base64.b64decode(document["data"]))
        except OSError as error:
            terminal.fail(f"{save}: {error.strerror}", terminal.EXIT_USAGE)
    terminal.show(document, form, _print_letter)


def _print_letter(document: dict[str, Any]) -> None:
    data = base64.b64decode(document["data"]).decode("utf-8", "backslashreplace")
    print_fields({name: value for name, value in document.items() if name != "data"})
    for line in data[:MOST].splitlines():
        typer.echo(terminal.clean(line))
    if len(data) > MOST:
        typer.echo(f"… and {len(data) - MOST} characters more; --save FILE writes all of it")


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "deadletters")
