"""The stores of the distributed service as parts of a process. They connect by themselves, also after an outage."""

import os
import secrets
import socket
from typing import Final

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore
from firstfault_server.adapters.elasticsearch import ElasticsearchStores, open_stores
from firstfault_server.cli import connections
from firstfault_server.cli.late_aggregates import LateAggregates, MeasuredAggregates
from firstfault_server.cli.process import Process

LEASE_MARGIN_S: Final = 5.0


def open_context_stores(process: Process) -> ElasticsearchStores:
    """Every store but the aggregates; closed at the end. Raises SettingsError."""
    owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    # Asked for every second, and then held for longer: it must outlast a pause of the process, and delays pages after a kill.
    lease_s = process.settings.alert_timeout_s + LEASE_MARGIN_S
    stores = open_stores(connections.elasticsearch_connection(process.settings), process.clock, owner, lease_s=lease_s)
    process.stack.callback(stores.close)
    return stores


def open_aggregates(process: Process) -> LateAggregates:
    """The store of rollups; closed at the end."""

    def opening() -> MeasuredAggregates:
        engine = connections.clickhouse_engine(process.settings)
        try:
            return ClickHouseAggregateStore(engine, database=process.settings.clickhouse_database, upgrade=False)
        except BaseException:
            engine.close()
            raise

    aggregates = LateAggregates(opening, process.log)
    process.stack.callback(aggregates.close)
    return aggregates
