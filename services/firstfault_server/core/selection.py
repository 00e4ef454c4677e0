"""Whether a parsed search selects an incident as it stands at a time, people's marks included."""

from firstfault_server.core import model
from firstfault_server.core.documents import is_muted
from firstfault_server.core.search import Expression
from firstfault_server.core.search_fields import INCIDENT, incident_document
from firstfault_server.core.search_match import matches


def selects(where: Expression, incident: model.Incident, triage: model.Triage, now_ns: int) -> bool:
    """`where` must have been checked against the keys of incidents, as `core.query.parse` does."""
    document = incident_document(incident, triage)
    if is_muted(triage, now_ns):
        document.values["is"] = (*document.values["is"], "muted")
    return matches(where, document, INCIDENT)
