"""Which rule prunes which store: each by its own settings, and an incident before the run that it keeps."""

from firstfault_server.adapters import memory
from firstfault_server.settings import Settings
from firstfault_server.writer.history import History
from firstfault_server.writer.rules import retention_rules
from tests.contract.records import FixedClock


def test_every_store_that_grows_has_its_rule_with_its_own_settings() -> None:
    stores = memory.open_stores(FixedClock())
    aggregates = stores.aggregates
    history = History(incidents=stores.incidents, triage=stores.triage, silences=stores.silences, outbox=stores.outbox)
    settings = Settings(
        retention_incidents_days=21,
        retention_runs_days=22,
        retention_audit_days=3,
        retention_deliveries_days=4,
        retention_events_days=5,
        retention_events_bytes=6,
        retention_rollups_days=7,
        retention_rollups_bytes=8,
    )

    rules = retention_rules(settings, history, stores.context, aggregates)

    assert [(rule.name, rule.days, rule.max_bytes) for rule in rules] == [
        ("incidents", 21, None),
        ("runs", 22, None),
        ("audit", 3, None),
        ("silences", 3, None),
        ("deliveries", 4, None),
        ("events", 5, 6),
        ("rollups", 7, 8),
    ]
    assert [rule.prune for rule in rules[-2:]] == [stores.context.prune, aggregates.prune]
    assert [rule.extents for rule in rules[-2:]] == [stores.context.extents, aggregates.extents]
