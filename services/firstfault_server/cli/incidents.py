"""`firstfault incidents …`: the incidents of a service from a terminal."""

from typing import Annotated

import typer

from firstfault_server.cli import report, terminal
from firstfault_server.cli.abbreviated import incident_path
from firstfault_server.cli.around import Incident, add_surroundings
from firstfault_server.cli.client import UrlOption, connect
from firstfault_server.cli.marks import add_marks
from firstfault_server.cli.options import LimitOption, PeriodOption

app = terminal.application("Incidents of a service: list, show, act.")


@app.command("list")
def list_incidents(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search, for instance 'is:open run:xyz rank:>8'.")] = "",
    period: PeriodOption = None,
    limit: LimitOption = 50,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 when there is any.")] = False,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List incidents, newest first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/incidents", limit, q=query or None, period=period))
    terminal.show_items(
        items,
        form,
        ["ID", "STATE", "SEVERITY", "RUN", "FIRST FAULT", "SYMPTOM", "OPENED", "TITLE"],
        lambda item: [
            item["id"],
            item["state"] + (" (silenced)" if item["silences"] else ""),
            item["severity"],
            item["run"]["id"],
            "all" if item["first_fault"]["scope"] == "all" else _rank(item["first_fault"]["rank"]),
            item["symptom"],
            item["opened_at"][:19],
            item["title"],
        ],
        whole=["ID", "STATE"],
        spare=["OPENED", "SEVERITY", "SYMPTOM", "FIRST FAULT"],
    )
    if exit_code and items:
        raise typer.Exit(terminal.EXIT_FOUND)


@app.command()
def show(
    incident: Incident,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Show one incident with its evidence."""
    client, form = connect(api_url, output)
    document = client.get(incident_path(client, incident))
    terminal.show(document, form, report.print_incident)


def _rank(rank: int | None) -> str:
    return "rank ?" if rank is None else f"rank {rank}"


add_surroundings(app)
add_marks(app)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "incidents")
