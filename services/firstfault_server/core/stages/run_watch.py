"""Silence and stalls: who has not been heard of, who has not moved on, and when to look again."""

from typing import Final

from firstfault_server.core.stages.run_attempts import counted
from firstfault_server.core.stages.run_state import Member, RunState
from firstfault_server.core.thresholds import Thresholds, nanoseconds

NEVER: Final = 1 << 61


def pardoned(state: RunState, since_ns: int) -> int:
    """By how much a deadline that began at this time moves because of holes in receive time after it."""
    return sum(extra for end_ns, extra in state.pardons if since_ns < end_ns)


def silence_ns(state: RunState, member: Member, limits: Thresholds) -> int:
    """When a process that is not heard of any more counts as silent."""
    budget = limits.silence_s if member.heartbeat_ns else limits.silence_plain_s
    return member.received_ns + nanoseconds(budget) + pardoned(state, member.received_ns)


def budget_s(member: Member, limits: Thresholds) -> float:
    """How long a process may go without progress in its phase."""
    if member.phase_expect_s is not None and member.phase_expect_s > 0:
        return member.phase_expect_s
    own = {
        "init": limits.init_budget_s,
        "compile": limits.compile_budget_s,
        "evaluation": limits.evaluation_budget_s,
        "checkpoint": limits.checkpoint_budget_s,
    }.get(member.phase)
    if own is not None:
        return own
    learned = 0.0 if member.pause_p99_s is None else limits.pause_factor * member.pause_p99_s
    # A foreign sender may report once a minute, and nothing tells its end from a hang before it counts as silent.
    return max(limits.pause_floor_s if member.heartbeat_ns else limits.silence_plain_s, learned)


def stall_ns(state: RunState, member: Member, limits: Thresholds) -> int:
    """When a process without progress counts as stalled; NEVER for one that has shown none yet."""
    if not member.progress_ns:
        return NEVER
    return member.progress_ns + nanoseconds(budget_s(member, limits)) + pardoned(state, member.progress_ns)


def confirm_s(members: list[Member], limits: Thresholds) -> float:
    """Time without progress that confirms a hang by itself."""
    longest = max((member.longest_pause_s or 0.0 for member in members), default=0.0)
    if longest <= limits.pause_floor_s:
        return limits.hang_confirm_blind_s
    return max(limits.hang_confirm_s, limits.hang_confirm_factor * longest)


def look(state: RunState, now_ns: int, limits: Thresholds) -> None:
    """Set `silent` and `stalled` of every living process, and when to look again."""
    after = NEVER
    changed = False
    for member in state.members.values():
        if not counted(member) or not member.process:
            continue
        ended = any(one.source != "signal_handler" for one in member.exits)
        quiet = silence_ns(state, member, limits)
        silent = not ended and now_ns > quiet
        if silent != member.silent:
            member.silent, changed = silent, True
        if ended:
            continue
        if not silent:
            after = min(after, quiet + 1)
        late = stall_ns(state, member, limits)
        stalled = now_ns > late
        if stalled != member.stalled:
            member.stalled, changed = stalled, True
        if not stalled:
            after = min(after, late + 1)
    if state.world_size is not None and state.absent_told != state.attempt and state.attempt:
        began = min((m.first_ns for m in state.members.values() if m.attempt == state.attempt), default=now_ns)
        due = began + nanoseconds(limits.init_budget_s) + pardoned(state, began)
        if now_ns >= due:
            state.absent_told, changed = state.attempt, True
        else:
            after = min(after, due)
    state.watch_ns = after
    if changed:
        state.dirty = state.moved = True
        state.unassigned = True


def soonest(state: RunState, member: Member, limits: Thresholds) -> int:
    """When this process could fall silent or stall, as things stand."""
    return min(silence_ns(state, member, limits), stall_ns(state, member, limits)) + 1
