"""`firstfault keys …`: API keys, through the API or straight in the store of the service: the first one has to be made so."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import msgspec
import typer

from firstfault_server import ports
from firstfault_server import settings as configuration
from firstfault_server.cli import terminal
from firstfault_server.cli.client import EVERYTHING, UrlOption, connect, segment
from firstfault_server.cli.options import Identifier
from firstfault_server.core.access import DEFAULT_TENANT

app = terminal.application("API keys: create, list, revoke.")

DataOption = Annotated[Path | None, typer.Option("--data", help="Work on this data folder instead of through the API.", show_default=False)]
DirectOption = Annotated[
    bool, typer.Option("--direct", help="Work on the Elasticsearch that the settings name instead of through the API.", show_default=False)
]
SCOPES = get_args(ports.Permission)


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for.")] = "key",
    scope: Annotated[
        list[str] | None,
        typer.Option(help=f"What it may do, can be repeated: {', '.join(SCOPES)}. Default: all but node.", show_default=False),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose key it is.", show_default=False)] = None,
    data: DataOption = None,
    direct: DirectOption = False,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Make a key; it is shown this once."""
    scopes = scope or [known for known in SCOPES if known != "node"]
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        terminal.fail(f"--scope {unknown[0]!r}: is one of {', '.join(SCOPES)}", terminal.EXIT_USAGE)
    if direct or data is not None:
        form = terminal.choose(output)
        document = _create_in(data, name, cast(list[ports.Permission], scopes), tenant or DEFAULT_TENANT)
    else:
        client, form = connect(api_url, output)
        document = client.post("/v1/keys", {"name": name, "scopes": scopes, **({"tenant": tenant} if tenant else {})})
    if form == "table":
        typer.echo(f"key {document['id']} of tenant {document['tenant']}, shown this once:", err=True)
        typer.echo(document["key"])
    else:
        terminal.emit(document, form)


@app.command("list")
def list_keys(
    data: DataOption = None, direct: DirectOption = False, output: terminal.OutputOption = None, api_url: UrlOption = None
) -> None:
    """List keys, without their secrets."""
    if direct or data is not None:
        from firstfault_server.api.routes.keys import key_document

        form = terminal.choose(output)
        with _access(data) as access:
            stored = access.keys()
            items = [key_document(key) for key in stored]
    else:
        client, form = connect(api_url, output)
        items = list(client.pages("/v1/keys", EVERYTHING))
    terminal.show_items(
        items,
        form,
        ["ID", "TENANT", "NAME", "SCOPES", "CREATED", "REVOKED"],
        lambda key: [key["id"], key["tenant"], key["name"], ",".join(key["scopes"]), key["created_at"], key["revoked_at"]],
    )


@app.command()
def revoke(key: Identifier, data: DataOption = None, direct: DirectOption = False, api_url: UrlOption = None) -> None:
    """Revoke a key: it is refused from now on."""
    if data is None and not direct:
        client, _ = connect(api_url, None)
        client.request("DELETE", f"/v1/keys/{segment(key)}")
        return
    from firstfault_server.cli.clocks import SystemClock

    with _access(data) as access:
        for stored in access.keys(None):
            if stored.id == key and stored.revoked_ns is None:
                now_ns = SystemClock().now_ns()
                access.put_key(msgspec.structs.replace(stored, revoked_ns=now_ns), _entry(stored, "revoke_key", now_ns))
            if stored.id == key:
                return
    terminal.fail(f"there is no key {key!r}", terminal.EXIT_USAGE)


def _create_in(data: Path | None, name: str, scopes: list[ports.Permission], tenant: str) -> dict[str, Any]:
    from firstfault_server.api.routes.keys import key_document, make_key
    from firstfault_server.cli.clocks import SystemClock

    now_ns = SystemClock().now_ns()
    with _access(data) as access:
        text, stored = make_key(secrets.token_hex(12), secrets.token_bytes(32), tenant, name, scopes, now_ns)
        access.put_key(stored, _entry(stored, "make_key", now_ns))
    return {**key_document(stored), "key": text}


def _entry(key: ports.AccessKey, action: str, now_ns: int) -> ports.Audit:
    """The audit entry of a change that somebody makes who may write the store itself."""
    return ports.Audit(
        id=secrets.token_hex(12),
        tenant=key.tenant,
        time_ns=now_ns,
        actor="local",
        action=action,
        subject=key.id,
        detail={"name": key.name, "scopes": list(key.scopes)},
    )


@contextmanager
def _access(data: Path | None) -> Iterator[ports.AccessStore]:
    """The keys in a data folder, or in the Elasticsearch of the settings."""
    with ExitStack() as stack:
        try:
            access = _open_folder(stack, data) if data is not None else _open_elasticsearch(stack)
            yield access
        except (OSError, configuration.SettingsError) as error:
            terminal.fail(str(error), terminal.EXIT_USAGE)
        except ports.StoreUnavailable as error:
            terminal.fail(str(error), terminal.EXIT_USAGE if data is not None else terminal.EXIT_UNREACHABLE)


def _open_folder(stack: ExitStack, data: Path) -> ports.AccessStore:
    from firstfault_server.adapters.sqlite import open_stores
    from firstfault_server.cli.clocks import SystemClock

    data.mkdir(parents=True, exist_ok=True)
    stores = open_stores(data / "firstfault.sqlite", SystemClock())
    stack.callback(stores.close)
    return stores.access


def _open_elasticsearch(stack: ExitStack) -> ports.AccessStore:
    from firstfault_server.adapters.elasticsearch import open_stores
    from firstfault_server.cli.clocks import SystemClock
    from firstfault_server.cli.connections import elasticsearch_connection

    stores = open_stores(elasticsearch_connection(configuration.load()), SystemClock(), "command line")
    stack.callback(stores.close)
    return stores.access


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "keys")
