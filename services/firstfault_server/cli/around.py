"""`firstfault incidents timeline · evidence · similar · watch`: what surrounds incidents, added to the incidents command."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from firstfault_server.cli import report, terminal
from firstfault_server.cli.abbreviated import incident_path
from firstfault_server.cli.client import EVERYTHING, Client, UrlOption, connect
from firstfault_server.cli.fields import flat

Incident = Annotated[str, typer.Argument(metavar="ID", help="The id, or as much of its beginning as no other has, at least 6 characters.")]
WATCH_EVERY_S = 1.0


def add_surroundings(app: typer.Typer) -> None:
    """Add the commands to an application."""

    @app.command()
    def timeline(incident: Incident, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """What detection concluded, people did and receivers were told."""
        client, form = connect(api_url, output)
        terminal.show_items(
            list(client.pages(f"{incident_path(client, incident)}/timeline", EVERYTHING)),
            form,
            ["TIME", "WHAT", "ACTION", "BY", "DETAIL"],
            lambda item: [item["time"][:23], item["what"], item["action"], item["actor"], flat(item["detail"])],
        )

    @app.command()
    def evidence(incident: Incident, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Every observation the verdict rests on."""
        client, form = connect(api_url, output)
        document = client.get(f"{incident_path(client, incident)}/evidence")
        if form == "table":
            rows = [[item["time"], item["kind"], item["rank"], item["role"], item["source"], item["text"]] for item in document["items"]]
            terminal.table(["TIME", "KIND", "RANK", "ROLE", "SOURCE", "TEXT"], rows)
        else:
            terminal.emit(document, form)

    @app.command()
    def similar(incident: Incident, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Other incidents that look like it."""
        client, form = connect(api_url, output)
        document = client.get(f"{incident_path(client, incident)}/similar")
        if form == "table":
            rows = [
                [item["incident"]["id"], item["why"], item["incident"]["run"]["id"], item["incident"]["title"]]
                for item in document["items"]
            ]
            terminal.table(["ID", "WHY", "RUN", "TITLE"], rows, whole=["ID"])
        else:
            terminal.emit(document, form)

    @app.command()
    def watch(
        query: Annotated[str, typer.Argument(metavar="[Q]", help="Search, as for list.")] = "",
        period: Annotated[str, typer.Option("--since", help="How far back to look: 30m, 24h …")] = "24h",
        output: terminal.OutputOption = None,
        api_url: UrlOption = None,
    ) -> None:
        """Print incidents as they open and change, until interrupted."""
        client, form = connect(api_url, output)
        try:
            for document in changes(client, query, period):
                terminal.show(document, "table" if form == "table" else "jsonl", report.print_incident)
        except KeyboardInterrupt:
            raise typer.Exit(terminal.EXIT_DONE) from None


def changes(client: Client, query: str, period: str) -> Iterator[dict[str, Any]]:
    """Incidents when they are new or have changed since they were last given, oldest first, for ever."""
    known: dict[str, tuple[int, int]] = {}
    while True:
        current = list(client.pages("/v1/incidents", 1000, q=query or None, period=period))
        for document in reversed(current):
            version = (document["revision"], document["triage"]["version"])
            if known.get(document["id"]) != version:
                known[document["id"]] = version
                yield document
        there = {document["id"] for document in current}
        known = {incident: version for incident, version in known.items() if incident in there}
        time.sleep(WATCH_EVERY_S)
