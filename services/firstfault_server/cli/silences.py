"""`firstfault silences …`: no pages about chosen incidents for a time."""

from typing import Annotated, Any

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment

app = terminal.application("Silences: create, list, show, expire.")

Identifier = Annotated[str, typer.Argument(metavar="ID")]
By = Annotated[str | None, typer.Option("--by", help="Who does it, when the key stands for several people.")]


@app.command()
def create(
    where: Annotated[str, typer.Argument(metavar="Q", help="Search that an incident must match, for instance 'node:h100-07'.")],
    comment: Annotated[str, typer.Option(help="Why.")],
    period: Annotated[str | None, typer.Option("--for", help="How long: 2h, 7d …")] = None,
    until: Annotated[str | None, typer.Option(help="Until when, RFC 3339.")] = None,
    start: Annotated[str | None, typer.Option(help="From when, RFC 3339 (default: now).")] = None,
    by: By = None,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Send no messages about what the search selects; when it ends, what is still open is told."""
    if (period is None) == (until is None):
        terminal.fail("say one of --for and --until", terminal.EXIT_USAGE)
    given = {"where": where, "comment": comment, "period": period, "ends_at": until, "starts_at": start, "by": by}
    client, form = connect(api_url, output)
    document = client.post("/v1/silences", {name: value for name, value in given.items() if value is not None})
    _emit([document], document, form)


@app.command("list")
def list_silences(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search: is:pending, is:active, is:ended, author:NAME.")] = "!is:ended",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List silences, newest first; those that have ended only when asked for."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/silences", limit, q=query or None))
    _emit(items, {"items": items}, form)


@app.command()
def show(silence: Identifier, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """Show one silence."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/silences/{segment(silence)}")
    _emit([document], document, form)


@app.command()
def expire(silence: Identifier, by: By = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """End it now: what is still open is told."""
    client, form = connect(api_url, output)
    document = client.post(f"/v1/silences/{segment(silence)}/expire", {"by": by} if by else {})
    _emit([document], document, form)


def _emit(items: list[dict[str, Any]], document: dict[str, Any], form: terminal.Form) -> None:
    if form == "table":
        rows = [
            [item["id"], item["state"], item["where"], item["starts_at"][:19], item["ends_at"][:19], item["author"], item["comment"]]
            for item in items
        ]
        terminal.table(["ID", "STATE", "WHERE", "STARTS", "ENDS", "AUTHOR", "COMMENT"], rows)
    else:
        terminal.emit(document, form)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "silences")
