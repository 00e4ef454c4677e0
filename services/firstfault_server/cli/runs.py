"""`firstfault runs …`: the training runs of a service from a terminal."""

from typing import Annotated

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import UrlOption, connect, segment
from firstfault_server.cli.fields import print_fields
from firstfault_server.cli.options import Identifier, LimitOption, PeriodOption

app = terminal.application("Training runs of a service: list, show.")


@app.command("list")
def list_runs(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search, for instance 'state:failed owner:ann'.")] = "",
    period: PeriodOption = None,
    limit: LimitOption = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List runs, the one that changed last first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/runs", limit, q=query or None, period=period))
    terminal.show_items(
        items,
        form,
        ["ID", "STATE", "ATTEMPT", "RANKS", "STEP", "NAME", "STARTED", "UPDATED"],
        lambda item: [
            item["id"],
            item["state"],
            item["attempt"],
            item["world_size"],
            item["step"],
            item["name"],
            item["started_at"][:19],
            item["updated_at"][:19],
        ],
        whole=["ID", "STATE"],
        spare=["STARTED", "ATTEMPT", "RANKS", "STEP", "UPDATED"],
    )


@app.command()
def show(
    run: Identifier,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Show one run."""
    client, form = connect(api_url, output)
    document = client.get(f"/v1/runs/{segment(run)}")
    terminal.show(document, form, print_fields)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "runs")
