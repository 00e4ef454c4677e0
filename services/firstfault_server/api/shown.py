"""Incidents as the API shows them: with people's marks, and with the silences that keep them quiet now."""

from firstfault_server.api.services import Services
from firstfault_server.core import model
from firstfault_server.core.documents import Document, incident_document
from firstfault_server.core.silencing import rules_of, silencing


class Shown:
    """One tenant's silences, read once, and the documents of any number of its incidents."""

    def __init__(self, services: Services, tenant: str) -> None:
        self._base_url = services.base_url
        self._now_ns = services.clock.now_ns()
        # A search that does not parse keeps nothing quiet; the alerter reports it.
        self._rules, _ = rules_of(services.silences.ending_after(tenant, self._now_ns))

    def document(self, incident: model.Incident, triage: model.Triage) -> Document:
        """INCIDENT of the contract."""
        return incident_document(incident, triage, self._base_url, silencing(self._rules, incident, triage, self._now_ns))
