"""Which attempt a process belongs to: decided from starts and ends, so that late records change nothing that was right.

A new attempt begins with a process that replaces one of its rank when every process of the attempt before has ended, has fallen
silent or is replaced. A replacement whose peers live on joins the running attempt after `restart_window_s`.
"""

from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.run_state import Member, RunState
from firstfault_server.core.thresholds import Thresholds, nanoseconds


def counted(member: Member) -> bool:
    """Whether a process takes part in training; launchers and data workers do not."""
    return member.role not in ("auxiliary", "node_agent")


def assign(state: RunState, now_ns: int, limits: Thresholds) -> None:
    """Set `attempt` of every process kept; 0 where it cannot be told yet."""
    window = nanoseconds(limits.restart_window_s)
    members = sorted((m for m in state.members.values() if counted(m)), key=lambda m: (m.started_ns, _rank(m), m.process))
    last_of = {member.rank: member.process for member in members}
    attempts: list[list[Member]] = []
    state.unassigned = False
    before = {member.process: member.attempt for member in members}
    for member in members:
        if not attempts:
            attempts.append([])
        current = attempts[-1]
        twin = member.rank is not None and any(other.rank == member.rank for other in current)
        if not twin and not (current and _complete(state, current) and _over(current, member, window, last_of, strict=True)):
            current.append(member)
        elif _over(current, member, window, last_of, strict=not twin):
            attempts.append([member])
        elif now_ns - member.first_ns >= window:
            current.append(member)
        else:
            member.attempt = 0
            state.unassigned = True
            continue
        member.attempt = state.dropped_attempts + len(attempts)
    state.attempt = state.dropped_attempts + len(attempts)
    kept = [min(m.started_ns for m in each) for each in attempts]
    state.attempts_started_ns = [*state.attempts_started_ns[: state.dropped_attempts], *kept]
    for member in state.members.values():
        if not counted(member):
            member.attempt = state.attempt
    if any(before[m.process] != m.attempt for m in members):
        state.dirty = state.moved = True
    _drop_old(state, limits)


def _over(current: list[Member], member: Member, window_ns: int, last_of: dict[int | None, str], strict: bool) -> bool:
    """Whether an attempt was over when a process started; peers on other nodes may take a while to go."""
    slack = SECOND_NS if strict else window_ns
    for other in current:
        if other.ended:
            gone = min(one.time_ns for one in other.exits) <= member.started_ns + slack
        else:
            gone = other.silent or (not strict and other.rank is not None and last_of[other.rank] != other.process)
        if not gone:
            return False
    return True


def _complete(state: RunState, current: list[Member]) -> bool:
    return state.world_size is None or len({m.rank for m in current if m.rank is not None}) >= state.world_size


def _rank(member: Member) -> int:
    return -1 if member.rank is None else member.rank


def _drop_old(state: RunState, limits: Thresholds) -> None:
    """Forget the processes of attempts that can no longer change."""
    oldest = state.attempt - limits.attempts_kept + 1
    if oldest <= state.dropped_attempts + 1:
        return
    for process, member in list(state.members.items()):
        if 0 < member.attempt < oldest:
            for fault in member.faults:
                state.texts.pop(fault.id, None)
            del state.members[process]
    state.numbers = {key: one for key, one in state.numbers.items() if one.process in state.members}
    state.dropped_attempts = oldest - 1
