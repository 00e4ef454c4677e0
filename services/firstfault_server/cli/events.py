"""`firstfault events search Q`: raw context from a terminal."""

from typing import Annotated

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.fields import print_fields

app = terminal.application("Exceptions and warnings as they arrived.")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="Q", help="Search, for instance 'run:xyz rank:3 \"out of memory\"'; empty: all.")] = "",
    period: Annotated[str | None, typer.Option("--since", help="How far back: 30m, 24h, 7d …")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Search events, newest first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/events", limit, q=query or None, period=period))
    if form == "table":
        terminal.table(
            ["ID", "TIME", "RUN", "RANK", "EVENT", "TEXT"],
            [
                [
                    item["id"],
                    item["time"][:23],
                    item["run"],
                    item["rank"],
                    item["event_name"],
                    f"{item['exception']['type']}: {item['exception']['message']}" if item["exception"] else item["body"],
                ]
                for item in items
            ],
        )
    else:
        terminal.emit({"items": items}, form)


@app.command()
def show(event: Annotated[str, typer.Argument(metavar="ID")], output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """Show one event with its stack trace."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/events/{segment(event)}")
    if form != "table":
        terminal.emit(document, form)
        return
    exception = document["exception"] or {}
    print_fields(document | {"exception": f"{exception['type']}: {exception['message']}" if exception else None})
    for line in exception.get("stacktrace", "").splitlines():
        typer.echo(terminal.clean(line))


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "events")
