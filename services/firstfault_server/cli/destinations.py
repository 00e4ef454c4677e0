"""`firstfault destinations …`: where pages go."""

from typing import Annotated, Any

import typer

from firstfault_server.cli import terminal
from firstfault_server.cli.client import EVERYTHING, TRY_TIMEOUT_S, UrlOption, connect, segment
from firstfault_server.cli.options import Identifier, LimitOption

app = terminal.application("Where pages go: add, list, test, enable, disable, remove; and what was delivered.")


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are posted (Standard Webhooks).")],
    name: Annotated[str, typer.Option(help="What it is called.")] = "webhook",
    where: Annotated[str, typer.Option(help="Search that an incident must match.")] = "is:page",
    secret: Annotated[
        str | None, typer.Option(help="whsec_… to sign with; made when left out.", envvar="FIRSTFAULT_WEBHOOK_SECRET")
    ] = None,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="Allow addresses of private networks and this machine.")] = False,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Add a webhook; its secret is shown this once."""
    client, form = connect(api_url, output)
    body: dict[str, Any] = {"name": name, "url": url, "where": where, "allow_private": allow_private}
    document = client.post("/v1/destinations", body | ({"secret": secret} if secret else {}))
    if form == "table":
        typer.echo(f"destination {document['id']}; its secret, shown this once:", err=True)
        typer.echo(document["secret"])
    else:
        terminal.emit(document, form)


@app.command("list")
def list_destinations(output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """List destinations."""
    client, form = connect(api_url, output)
    terminal.show_items(
        list(client.pages("/v1/destinations", EVERYTHING)),
        form,
        ["ID", "NAME", "URL", "WHERE", "ENABLED"],
        lambda item: [item["id"], item["name"], item["url"], item["where"], "yes" if item["enabled"] else f"no: {item['disabled_why']}"],
    )


@app.command()
def test(destination: Identifier, output: terminal.OutputOption = None, api_url: UrlOption = None) -> None:
    """Send a test message; exit 1 when it is not delivered."""
    client, form = connect(api_url, output)
    document = client.post(f"/v1/destinations/{segment(destination)}/test", timeout_s=TRY_TIMEOUT_S)
    if form == "table":
        result = "delivered" if document["delivered"] else f"not delivered: {document['error']}"
        typer.echo(terminal.clean(f"{result} after {document['duration_s']:.2f} s"))
    else:
        terminal.emit(document, form)
    if not document["delivered"]:
        raise typer.Exit(terminal.EXIT_FOUND)


@app.command()
def enable(destination: Identifier, api_url: UrlOption = None) -> None:
    """Send to it again."""
    _change(destination, {"enabled": True}, api_url)


@app.command()
def disable(destination: Identifier, api_url: UrlOption = None) -> None:
    """Send nothing more to it; messages that wait are given up."""
    _change(destination, {"enabled": False}, api_url)


def _change(destination: str, body: dict[str, Any], api_url: str | None) -> None:
    client, _ = connect(api_url, None)
    client.request("PATCH", f"/v1/destinations/{segment(destination)}", body=body)


@app.command()
def remove(destination: Identifier, api_url: UrlOption = None) -> None:
    """Remove it; messages that wait for it are given up."""
    client, _ = connect(api_url, None)
    client.request("DELETE", f"/v1/destinations/{segment(destination)}")


@app.command()
def deliveries(
    query: Annotated[str, typer.Argument(metavar="[Q]", help="Search, for instance 'delivered:false incident:abc'.")] = "",
    limit: LimitOption = 50,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """List tries to deliver messages, newest first."""
    client, form = connect(api_url, output)
    items = list(client.pages("/v1/deliveries", limit, q=query or None))
    terminal.show_items(
        items,
        form,
        ["TIME", "DESTINATION", "INCIDENT", "KIND", "TRY", "STATUS", "RESULT"],
        lambda item: [
            item["time"][:23],
            item["destination"],
            item["incident"],
            item["kind"],
            item["attempt"],
            item["status"],
            item["error"] or "ok",
        ],
    )


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "destinations")
