"""`firstfault runs …`: the training runs of a service from a terminal."""

from typing import Annotated

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.fields import print_fields

app = terminal.application("Training runs of a service: list, show.")


@app.command("list")
def list_runs(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search, for instance 'state:failed owner:ann'.")] = "",
    period: Annotated[str | None, typer.Option("--since", help="How far back: 30m, 24h, 7d …")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List runs, the one that changed last first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/runs", limit, q=query or None, period=period))
    if form == "table":
        terminal.table(
            ["ID", "STATE", "ATTEMPT", "RANKS", "STEP", "NAME", "STARTED", "UPDATED"],
            [
                [
                    item["id"],
                    item["state"],
                    item["attempt"],
                    item["world_size"],
                    item["step"],
                    item["name"],
                    item["started_at"][:19],
                    item["updated_at"][:19],
                ]
                for item in items
            ],
            whole=["ID", "STATE"],
            spare=["STARTED", "ATTEMPT", "RANKS", "STEP", "UPDATED"],
        )
    else:
        terminal.emit({"items": items}, form)


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="ID")],
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Show one run."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/runs/{segment(run)}")
    if form == "table":
        print_fields(document)
    else:
        terminal.emit(document, form)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "runs")
