"""Record types are met before threads read records, since msgspec cannot have two threads meet one at once."""

from firstfault_server.cli import record_types
from firstfault_server.core import model


def test_every_record_of_the_model_is_met() -> None:
    assert {model.Incident, model.RunStatus, model.Event, model.Finding, model.Batch, model.Identity} <= set(record_types.record_types())
    record_types.meet()
