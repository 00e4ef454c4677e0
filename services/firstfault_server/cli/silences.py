"""`firstfault silences …`: no pages about chosen incidents for a time."""

from typing import Annotated, Any, Final

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.options import ByOption, Identifier, LimitOption

app = terminal.application("Silences: create, list, show, expire.")

HEADINGS: Final = ("ID", "STATE", "WHERE", "STARTS", "ENDS", "AUTHOR", "COMMENT")
OPTIONS = {"period": "--for", "ends_at": "--until", "starts_at": "--start"}


@app.command()
def create(
    where: Annotated[str, typer.Argument(metavar="Q", help="Search that an incident must match, for instance 'node:h100-07'.")],
    comment: Annotated[str, typer.Option(help="Why.")],
    period: Annotated[str | None, typer.Option("--for", help="How long: 2h, 7d …")] = None,
    until: Annotated[str | None, typer.Option(help="Until when, RFC 3339.")] = None,
    start: Annotated[str | None, typer.Option(help="From when, RFC 3339 (default: now).")] = None,
    by: ByOption = None,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Send no messages about what the search selects; when it ends, what is still open is told."""
    if (period is None) == (until is None):
        terminal.fail("say one of --for and --until", terminal.EXIT_USAGE)
    given = {"where": where, "comment": comment, "period": period, "ends_at": until, "starts_at": start, "by": by}
    client, form = connect(api_url, output)
    document = client.post("/v1/silences", {name: value for name, value in given.items() if value is not None}, options=OPTIONS)
    terminal.show(document, form, _print_silence)


@app.command("list")
def list_silences(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search: is:pending, is:active, is:ended, author:NAME.")] = "!is:ended",
    limit: LimitOption = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List silences, newest first; those that have ended only when asked for."""
    client, form = connect(api_url, output)
    terminal.show_items(list(client.pages("/v1/silences", limit, q=query or None)), form, HEADINGS, _row)


@app.command()
def show(silence: Identifier, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """Show one silence."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/silences/{segment(silence)}")
    terminal.show(document, form, _print_silence)


@app.command()
def expire(silence: Identifier, by: ByOption = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """End it now: what is still open is told."""
    client, form = connect(api_url, output)
    document = client.post(f"/v1/silences/{segment(silence)}/expire", {"by": by} if by else {})
    terminal.show(document, form, _print_silence)


def _row(item: dict[str, Any]) -> list[str]:
    return [item["id"], item["state"], item["where"], item["starts_at"][:19], item["ends_at"][:19], item["author"], item["comment"]]


def _print_silence(document: dict[str, Any]) -> None:
    terminal.table(HEADINGS, [_row(document)])


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "silences")
