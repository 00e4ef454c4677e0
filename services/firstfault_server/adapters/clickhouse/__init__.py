"""Rollups in ClickHouse: the engine within this process (chDB), or a server over HTTP; the same SQL for both."""

from firstfault_server.adapters.clickhouse.engine import Engine, embedded_engine, server_engine
from firstfault_server.adapters.clickhouse.rollups import ClickHouseAggregateStore

__all__ = ["ClickHouseAggregateStore", "Engine", "embedded_engine", "server_engine"]
