"""Nodes, as runs and incidents of the last days know them."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import LONGEST_PERIOD, json_response, parse_period
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.services import WithServices
from firstfault_server.core.documents import Document, merged_state, rfc3339

router = APIRouter(prefix="/v1/nodes", tags=["nodes"])

MAX_READ = 2000
"""Runs, and incidents, that are looked at; beyond it the answer says `partial`."""


@router.get("", response_model=schemas.NodePage)
def list_nodes(
    services: WithServices, caller: Reader, wanted: WithPart, period: Annotated[str, Query(max_length=LONGEST_PERIOD)] = "7d"
) -> Response:
    """Nodes that ran something in the period, those with most failures first."""
    times = (max(services.clock.now_ns() - parse_period(period), 0), None)
    asked = part("nodes", wanted, caller, services, [period], times)
    query = ports.ListQuery(tenant=caller.tenant, since_ns=asked.since_ns or 0, limit=200)
    nodes: dict[str, Document] = {}
    runs = incidents = 0
    for run in ports.walk(services.incidents.runs, query, MAX_READ):
        runs += 1
        for name in run.nodes:
            node = _node(nodes, name, run.updated_ns)
            node["runs"] += 1
            node["running"] += run.state == "running"
    now_ns = services.clock.now_ns()
    for incident, triage in ports.walk(lambda query: services.incidents.incidents(query, now_ns), query, MAX_READ):
        incidents += 1
        if incident.first_fault.node:
            node = _node(nodes, incident.first_fault.node, incident.updated_at)
            node["first_faults"] += 1
            node["open"] += merged_state(incident, triage) != "resolved"
    items, following = asked.cut(nodes.values(), lambda node: (-node["first_faults"], node["node"]))
    for node in items:
        node["last_seen"] = rfc3339(node.pop("last_ns"))
    return json_response({"items": items, "next_cursor": following, "partial": runs >= MAX_READ or incidents >= MAX_READ})


def _node(nodes: dict[str, Document], name: str, time_ns: int) -> Document:
    node = nodes.setdefault(name, {"node": name, "runs": 0, "running": 0, "first_faults": 0, "open": 0, "last_ns": 0})
    node["last_ns"] = max(node["last_ns"], time_ns)
    return node
