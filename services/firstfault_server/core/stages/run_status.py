"""The run as `/v1/runs` shows it: state, attempt, ranks."""

from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.run_state import RunState
from firstfault_server.core.stages.run_verdicts import members_of, never_seen, state_of
from firstfault_server.core.thresholds import Thresholds, nanoseconds

# Of several ends the one that says most about the run comes first.
_WEIGHT: Final[tuple[model.RunState, ...]] = (
    "failed", "killed", "unreachable", "preempted", "time_limit", "cancelled", "finished",
)  # fmt: skip


def status_of(state: RunState, now_ns: int, limits: Thresholds) -> model.RunStatus:
    """The status as things stand; its revision is the number of statuses written so far."""
    members = members_of(state, state.attempt)
    ranks: dict[tuple[bool, int, str], model.RankStatus] = {}
    for member in members:
        shown, why = state_of(member)
        # A replaced process of the same rank gives way to its successor.
        key = (member.rank is None, member.rank or 0, member.process if member.rank is None else "")
        ranks[key] = model.RankStatus(
            rank=member.rank,
            process=member.process,
            node=member.node,
            local_rank=member.local_rank,
            pid=member.pid,
            gpu_uuid=member.gpu_uuid,
            state=shown,  # type: ignore[arg-type]
            state_reason=why,
            step=member.step,
            phase=member.phase,
            last_seen_ns=member.received_ns,
        )
    shown_ranks = [ranks[key] for key in sorted(ranks)]
    run_state, reason = _run_state(state, shown_ranks)
    ended = run_state != "running"
    absent = never_seen(state, state.attempt, now_ns, limits)
    return model.RunStatus(
        tenant=state.tenant,
        run=state.run,
        revision=state.revision,
        name=state.name,
        owner=state.owner,
        job_id=state.job_id,
        command=state.command,
        launcher=state.launcher,
        log_paths=state.log_paths,
        world_size=state.world_size,
        nodes=sorted({member.node for member in members if member.node}),
        attempt=max(1, state.attempt),
        attempts_started_ns=state.attempts_started_ns[-50:],
        state=run_state,
        state_reason=reason,
        started_ns=next((start for start in state.attempts_started_ns if start), state.first_ns),
        updated_ns=now_ns,
        ended_ns=max((one.last_seen_ns for one in shown_ranks), default=now_ns) if ended else None,
        step=max((one.step for one in shown_ranks if one.step is not None), default=None),
        ranks=shown_ranks,
        incidents=[state.issues[number].last.id for number in sorted(state.issues)],
        notes=[f"ranks never seen: {', '.join(str(rank) for rank in absent[:32])}"] if absent else [],
    )


def due(state: RunState, limits: Thresholds) -> int | None:
    """When the next status may be written; None while nothing moved."""
    if not state.moved:
        return None
    spacing = limits.status_s * (1.0 + len(state.members) / 2000)
    return state.status_ns + nanoseconds(spacing)


def fresh(state: RunState, status: model.RunStatus) -> bool:
    """Whether a status differs from the one written last in more than the clock; remembers it."""
    still = msgspec.structs.replace(
        status, revision=0, updated_ns=0, ranks=[msgspec.structs.replace(one, last_seen_ns=0) for one in status.ranks]
    )
    seen = digest(msgspec.msgpack.encode(still).hex())
    if seen == state.status_digest:
        return False
    state.status_digest = seen
    return True


def _run_state(state: RunState, ranks: list[model.RankStatus]) -> tuple[model.RunState, str]:
    """A run ends when every rank it has shown has; a world that is not complete yet may still be starting."""
    if not ranks or any(one.state == "running" for one in ranks):
        return "running", ""
    shown = {one.rank for one in ranks if one.rank is not None}
    if state.world_size is not None and len(shown) < state.world_size and all(one.state == "finished" for one in ranks):
        return "running", ""
    by_weight = sorted(ranks, key=lambda one: (_WEIGHT.index(one.state), one.rank is None, one.rank or 0))
    failed = [one for one in by_weight if one.state == "failed"]
    stopped = [one for one in by_weight if one.state in ("preempted", "time_limit", "cancelled")]
    chosen = by_weight[0]
    if stopped and not failed and not state.issues:
        chosen = stopped[0]
    reason = chosen.state_reason
    return chosen.state, f"rank {chosen.rank}: {reason}" if chosen.rank is not None and reason else reason
