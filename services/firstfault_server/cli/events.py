"""`firstfault events search Q`: raw context from a terminal."""

from typing import Annotated, Any

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.fields import print_fields
from firstfault_server.cli.options import Identifier, LimitOption, PeriodOption

app = terminal.application("Exceptions and warnings as they arrived.")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="Q", help="Search, for instance 'run:xyz rank:3 \"out of memory\"'; empty: all.")] = "",
    period: PeriodOption = None,
    limit: LimitOption = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Search events, newest first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/events", limit, q=query or None, period=period))
    terminal.show_items(
        items,
        form,
        ["ID", "TIME", "RUN", "RANK", "EVENT", "TEXT"],
        lambda item: [
            item["id"],
            item["time"][:23],
            item["run"],
            item["rank"],
            item["event_name"],
            f"{item['exception']['type']}: {item['exception']['message']}" if item["exception"] else item["body"],
        ],
    )


@app.command()
def show(event: Identifier, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """Show one event with its stack trace."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/events/{segment(event)}")
    terminal.show(document, form, _print_event)


def _print_event(document: dict[str, Any]) -> None:
    exception = document["exception"] or {}
    print_fields(document | {"exception": f"{exception['type']}: {exception['message']}" if exception else None})
    for line in exception.get("stacktrace", "").splitlines():
        typer.echo(terminal.clean(line))


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "events")
