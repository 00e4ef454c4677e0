"""What of the past goes by age, on real stores: never an open incident, and nobody is paged anew by it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from prometheus_client import CollectorRegistry

from firstfault_server.adapters import memory, sqlite
from firstfault_server.core import model
from firstfault_server.ports import Audit, ListQuery
from firstfault_server.writer import history
from firstfault_server.writer.history import History
from firstfault_server.writer.retention import DAY_NS, Retention, RetentionMetrics
from tests.contract.records import NOW_NS, FixedClock, delivery, incident, message, run

LOG = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(0))
DAYS = SimpleNamespace(retention_incidents_days=30, retention_runs_days=20, retention_audit_days=10, retention_deliveries_days=5)


@pytest.fixture(params=["sqlite", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> sqlite.SqliteStores | memory.MemoryStores:
    clock = FixedClock()
    opened = memory.open_stores(clock) if request.param == "memory" else sqlite.open_stores(tmp_path / "firstfault.sqlite", clock)
    request.addfinalizer(opened.close)
    return opened


def _round(stores: sqlite.SqliteStores | memory.MemoryStores, after_days: int) -> CollectorRegistry:
    kept = History(incidents=stores.incidents, triage=stores.triage, silences=stores.silences, outbox=stores.outbox).kept(DAYS)
    registry = CollectorRegistry()
    Retention(kept, FixedClock(NOW_NS + after_days * DAY_NS + DAY_NS // 2), RetentionMetrics(registry), LOG).prune()
    return registry


def _left(stores: sqlite.SqliteStores | memory.MemoryStores) -> dict[str, int]:
    everything = ListQuery(tenant="acme", limit=1000)
    return {
        "incidents": len(stores.incidents.incidents(everything, NOW_NS).items),
        "runs": len(stores.incidents.runs(everything).items),
        "audit": len(stores.triage.audit(everything).items),
        "silences": len(stores.silences.silences(everything, NOW_NS).items),
        "deliveries": len(stores.outbox.deliveries(everything).items),
        "messages": sum(len(stores.outbox.messages("acme", name)) for name in ("i-0001", "i-0002")),
    }


def test_each_kind_has_its_time_and_what_is_open_stays(
    stores: sqlite.SqliteStores | memory.MemoryStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BATCH", 1)
    over = {"state": "resolved", "resolved_at": NOW_NS}
    stores.incidents.write_incidents(
        [incident(1, run=model.RunRef(id="r-1"), **over), incident(2, run=model.RunRef(id="r-2")), incident(3, **over)]
    )
    stores.incidents.write_runs([run(1), run(2), run(3), run(4)])
    told = [message(1, state="delivered"), message(1, id="x", incident="i-0002", state="delivered")]
    stores.outbox.add(told)
    for one in told:
        stores.outbox.record(one, delivery(1, one))
    silence = model.Silence(
        id="s", tenant="acme", where="is:open", starts_ns=NOW_NS, ends_ns=NOW_NS, author="ada", comment="c", created_ns=NOW_NS
    )
    stores.silences.put_silence(silence, Audit(id="a", tenant="acme", time_ns=NOW_NS, actor="ada", action="silence", subject="s"))
    everything = {"incidents": 3, "runs": 4, "audit": 1, "silences": 1, "deliveries": 2, "messages": 2}
    _round(stores, 4)
    assert _left(stores) == everything
    _round(stores, 9)
    assert _left(stores) == everything | {"deliveries": 0}
    _round(stores, 19)
    assert _left(stores) == everything | {"deliveries": 0, "audit": 0, "silences": 0}
    _round(stores, 29)
    assert _left(stores) == {"incidents": 3, "runs": 2, "audit": 0, "silences": 0, "deliveries": 0, "messages": 2}
    registry = _round(stores, 31)
    assert registry.get_sample_value("firstfault_retention_removed_total", {"store": "incidents"}) == 2
    _round(stores, 400)
    assert _left(stores) == {"incidents": 1, "runs": 1, "audit": 0, "silences": 0, "deliveries": 0, "messages": 1}
    assert stores.incidents.incident("acme", "i-0002").state == "open"
