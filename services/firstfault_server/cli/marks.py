"""`firstfault incidents ack …`: people's marks on incidents, added to the incidents command."""

from typing import Annotated, Any

import typer

from firstfault_server.cli import report, terminal
from firstfault_server.cli.abbreviated import incident_path
from firstfault_server.cli.around import Incident
from firstfault_server.cli.client import UrlOption, connect
from firstfault_server.cli.options import ByOption

OPTIONS = {"period": "--for", "until": "--until"}


def add_marks(app: typer.Typer) -> None:
    """Add the commands to an application."""

    @app.command()
    def ack(incident: Incident, by: ByOption = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Acknowledge: somebody is on it."""
        _mark(incident, "ack", {"by": by}, output, api_url)

    @app.command()
    def resolve(incident: Incident, by: ByOption = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Resolve: it is over."""
        _mark(incident, "resolve", {"by": by}, output, api_url)

    @app.command()
    def reopen(incident: Incident, by: ByOption = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Reopen: it is not over after all."""
        _mark(incident, "reopen", {"by": by}, output, api_url)

    @app.command()
    def mute(
        incident: Incident,
        period: Annotated[str | None, typer.Option("--for", help="How long: 2h, 7d … (default: until unmuted)")] = None,
        until: Annotated[str | None, typer.Option(help="Until when, RFC 3339.")] = None,
        by: ByOption = None,
        output: terminal.OutputOption = None,
        api_url: UrlOption = None,
    ) -> None:
        """Mute: no messages about it."""
        if period is not None and until is not None:
            terminal.fail("say one of --for and --until", terminal.EXIT_USAGE)
        _mark(incident, "mute", {"period": period, "until": until, "by": by}, output, api_url)

    @app.command()
    def unmute(incident: Incident, by: ByOption = None, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
        """Unmute: messages again."""
        _mark(incident, "mute", {"unmute": True, "by": by}, output, api_url)

    @app.command()
    def assign(
        incident: Incident,
        assignee: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Nobody, when left out.")] = None,
        by: ByOption = None,
        output: terminal.OutputOption = None,
        api_url: UrlOption = None,
    ) -> None:
        """Assign to a person."""
        body = {"assignee": assignee} | ({"by": by} if by else {})
        _send(incident, "assign", body, output, api_url)

    @app.command()
    def note(
        incident: Incident,
        words: Annotated[
            list[str], typer.Argument(metavar="TEXT", help="What to write: quotes are needed only for what the shell reads itself.")
        ],
        by: ByOption = None,
        output: terminal.OutputOption = None,
        api_url: UrlOption = None,
    ) -> None:
        """Write something down.

        For instance `note 3f2a91 cable of rank 3 was loose`. Behind `--` words may begin with a dash.
        """
        _mark(incident, "notes", {"text": " ".join(words), "by": by}, output, api_url)


def _mark(incident: str, action: str, body: dict[str, Any], output: str | None, api_url: str | None) -> None:
    _send(incident, action, {name: value for name, value in body.items() if value is not None}, output, api_url)


def _send(incident: str, action: str, body: dict[str, Any], output: str | None, api_url: str | None) -> None:
    client, form = connect(api_url, output)
    document = client.post(f"{incident_path(client, incident)}/{action}", body, options=OPTIONS)
    terminal.show(document, form, report.print_incident)
