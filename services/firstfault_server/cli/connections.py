"""Connections of the distributed service, out of the settings."""

from typing import TYPE_CHECKING

from firstfault_server.settings import Settings, SettingsError

if TYPE_CHECKING:
    # Each library is loaded only by the commands that use it.
    from firstfault_server.adapters import elasticsearch, kafka
    from firstfault_server.adapters.clickhouse import Engine


def kafka_connection(settings: Settings) -> "kafka.Connection":
    """Raises SettingsError."""
    from firstfault_server.adapters.kafka import Connection

    connection = Connection(bootstrap=_required(settings, "kafka_bootstrap"), security=settings.kafka_security)
    try:
        connection.check()
    except ValueError as error:
        raise SettingsError(f"settings: kafka_security: {error}") from error
    return connection


def elasticsearch_connection(settings: Settings) -> "elasticsearch.Connection":
    """Raises SettingsError."""
    from firstfault_server.adapters.elasticsearch import Connection

    return Connection(
        url=_required(settings, "elasticsearch_url"),
        api_key=settings.elasticsearch_api_key,
        ca_file=settings.elasticsearch_ca_file,
        prefix=settings.elasticsearch_prefix,
    )


def clickhouse_engine(settings: Settings) -> "Engine":
    """Raises SettingsError; StoreUnavailable when the server does not answer."""
    from firstfault_server.adapters.clickhouse import server_engine

    url = _required(settings, "clickhouse_url")
    return server_engine(url, user=settings.clickhouse_user, password=settings.clickhouse_password)


def check_servers(settings: Settings, *needed: str) -> None:
    """Raises SettingsError, which names every setting that is missing."""
    missing = [f"FIRSTFAULT_{name.upper()}" for name in needed if not getattr(settings, name)]
    if missing:
        raise SettingsError(f"{', '.join(missing)}: not set; the distributed service needs {'it' if len(missing) == 1 else 'them'}")


def _required(settings: Settings, name: str) -> str:
    check_servers(settings, name)
    value: str = getattr(settings, name)
    return value
