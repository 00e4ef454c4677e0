"""The node stage: which runs are on a node, and which kernel-level facts each of them must hear of."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.worker_events import integer
from firstfault_server.core.thresholds import Thresholds, nanoseconds

NodeInput: TypeAlias = model.Presence | model.Event
_KEEP_NS: Final = 3600 * SECOND_NS
_KINDS: Final = {names.XID: "xid", names.OOM_KILL: "oom_kill", names.KERNEL: "kernel"}
_FACTS: Final = 64
_OUTRANK: Final = frozenset({"gpu_memory_error", "gpu_lost", "interconnect_error", "host_oom"})
"""Kernel facts that may begin a failure; others (a link that flaps, a slow disk) are evidence."""


class Guest(msgspec.Struct, array_like=True):
    """One process on the node."""

    tenant: str
    run: str
    process: str
    pid: int | None
    gpu_uuid: str
    received_ns: int
    ended: bool = False
    first_ns: int = 0


class NodeState(msgspec.Struct, omit_defaults=True):
    """One node of one cluster."""

    cluster: str
    node: str
    guests: dict[str, Guest] = {}
    facts: dict[str, model.NodeFault] = {}
    """Facts of the last minutes without tenant and run, for processes whose presence comes later."""
    told: list[str] = []
    """Ids of the facts sent."""
    quiet_told: bool = False
    pardon_ns: int = 0
    pardon_until_ns: int = 0
    last_ns: int = 0
    gone: bool = False


class Node:
    """Stage `node`."""

    name = "node"
    eager = False

    def __init__(self, thresholds: Thresholds) -> None:
        self._limits = thresholds
        self._join_ns = nanoseconds(thresholds.death_join_s)
        codec = StateCodec(NodeState)
        self.encode, self.decode = codec.encode, codec.decode

    def key(self, record: NodeInput) -> str:
        """Cluster and node; tenants share nodes."""
        return f"{record.identity.cluster}/{record.identity.node}"

    def new(self, key: str) -> NodeState:
        """A node nobody is on."""
        cluster, _, node = key.partition("/")
        return NodeState(cluster=cluster, node=node)

    def urgent(self, record: NodeInput) -> bool:
        """Kernel records do not wait."""
        return isinstance(record, model.Event)

    def on_batch(self, state: NodeState, records: Sequence[NodeInput], now_ns: int) -> list[model.AnyRecord]:
        """Presence, and facts for everybody who is here."""
        for record in records:
            state.last_ns = max(state.last_ns, record.received_ns)
            if isinstance(record, model.Presence):
                self._present(state, record)
            else:
                self._fact(state, record)
        return self._tell(state)

    def on_tick(self, state: NodeState, now_ns: int) -> list[model.AnyRecord]:
        """Forget who left long ago, and say when everybody here fell silent together."""
        out = self._silence(state, now_ns)
        state.guests = {key: one for key, one in state.guests.items() if now_ns - one.received_ns < _KEEP_NS}
        state.gone = now_ns - state.last_ns >= _KEEP_NS and not state.guests
        return out

    def on_hole(self, state: NodeState, hole_ns: int, now_ns: int) -> None:
        """Receive time jumped: nobody is silent because of it."""
        state.pardon_ns = hole_ns + nanoseconds(self._limits.hole_grace_s)
        state.pardon_until_ns = now_ns

    def deadline(self, state: NodeState) -> int | None:
        """When the node would be silent, or may be forgotten."""
        if state.gone:
            return None
        due = state.last_ns + _KEEP_NS
        living = self._living(state)
        if len(living) > 1 and not state.quiet_told:
            due = min(due, self._quiet_ns(state, living) + 1)
        return due

    def _present(self, state: NodeState, record: model.Presence) -> None:
        who = record.identity
        key = f"{who.tenant}/{who.run}/{who.process}"
        known = state.guests.get(key)
        if known is None:
            known = state.guests[key] = Guest(
                who.tenant, who.run, who.process, who.pid, who.gpu_uuid, record.received_ns, first_ns=record.received_ns
            )
        known.received_ns = max(known.received_ns, record.received_ns)
        known.first_ns = min(known.first_ns, record.received_ns)
        known.ended = known.ended or record.ended
        state.quiet_told = False

    def _fact(self, state: NodeState, event: model.Event) -> None:
        kind = _KINDS.get(event.event_name, "kernel")
        attributes = event.attributes
        state.facts[event.id] = model.NodeFault(
            id=event.id,
            tenant="",
            run="",
            node=state.node,
            cluster=state.cluster,
            kind=kind,
            symptom=event.symptom or ("host_oom" if kind == "oom_kill" else ""),
            code=integer(attributes.get(names.XID_CODE)),
            pid=integer(attributes.get(names.VICTIM_PID)),
            gpu_uuid=str(attributes.get(names.GPU_UUID, "")),
            initiates=(event.symptom in _OUTRANK or kind == "oom_kill") and event.text_role not in ("cascade", "waiting", "teardown"),
            text=event.body or f"{event.event_name} {integer(attributes.get(names.XID_CODE)) or ''}".strip(),
            time_ns=event.time_ns,
            received_ns=event.received_ns,
        )
        if len(state.facts) > _FACTS:
            oldest = min(state.facts, key=lambda one: (state.facts[one].received_ns, one))
            del state.facts[oldest]

    def _tell(self, state: NodeState) -> list[model.AnyRecord]:
        """Each fact once to each run whose process was here around that time; a pid narrows it to one process."""
        out: list[model.AnyRecord] = []
        for fact in sorted(state.facts.values(), key=lambda one: (one.received_ns, one.id)):
            near = [one for one in state.guests.values() if self._here(one, fact.received_ns)]
            victims = [one for one in near if fact.pid is not None and one.pid == fact.pid]
            users = [one for one in near if fact.gpu_uuid and one.gpu_uuid == fact.gpu_uuid]
            for tenant, run in sorted({(one.tenant, one.run) for one in victims or users or near}):
                mine = [one.process for one in victims or users if (one.tenant, one.run) == (tenant, run)]
                process = mine[0] if len(mine) == 1 else ""
                told = digest("node_fault", fact.id, tenant, run)
                mark = f"{told} {process}"
                if mark in state.told:
                    continue
                state.told = [*state.told, mark][-4 * _FACTS :]
                out.append(msgspec.structs.replace(fact, id=told, tenant=tenant, run=run, process=process))
        return out

    def _here(self, guest: Guest, when_ns: int) -> bool:
        """Whether a process was on the node around a time."""
        return guest.first_ns <= when_ns + self._join_ns and (not guest.ended or guest.received_ns >= when_ns - self._join_ns)

    def _living(self, state: NodeState) -> list[Guest]:
        return [one for one in state.guests.values() if not one.ended]

    def _quiet_ns(self, state: NodeState, living: Sequence[Guest]) -> int:
        newest = max(one.received_ns for one in living)
        # Presence is told every five seconds only, so its silence takes that much longer to show.
        budget = nanoseconds(self._limits.silence_s) + 5 * SECOND_NS
        return newest + budget + (state.pardon_ns if newest < state.pardon_until_ns else 0)

    def _silence(self, state: NodeState, now_ns: int) -> list[model.AnyRecord]:
        living = self._living(state)
        if len(living) < 2 or state.quiet_told or now_ns <= self._quiet_ns(state, living):
            return []
        state.quiet_told = True
        since = max(one.received_ns for one in living)
        return [
            model.NodeFault(
                id=digest("node_silent", state.cluster, state.node, since, tenant, run),
                tenant=tenant,
                run=run,
                node=state.node,
                cluster=state.cluster,
                kind="silent",
                symptom="node_failure",
                text=f"all {len(living)} processes on node {state.node} fell silent",
                time_ns=since,
                received_ns=now_ns,
            )
            for tenant, run in sorted({(one.tenant, one.run) for one in living})
        ]
