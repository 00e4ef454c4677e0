"""Which attempt a process belongs to: decided from starts and ends, so that late records change nothing that was right.

A new attempt begins with a process that replaces one of its rank when every process of the attempt before has ended, has fallen
silent or is replaced. A replacement whose peers live on joins the running attempt after `restart_window_s`.
"""

from collections.abc import Mapping
from typing import Final

from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.run_state import Member, RunState
from firstfault_server.core.thresholds import Thresholds, nanoseconds

_NEVER: Final = 1 << 62


def counted(member: Member) -> bool:
    """Whether a process takes part in training; launchers and data workers do not."""
    return member.role not in ("auxiliary", "node_agent")


def assign(state: RunState, now_ns: int, limits: Thresholds) -> None:
    """Set `attempt` of every process kept; 0 where it cannot be told yet."""
    window = nanoseconds(limits.restart_window_s)
    members = sorted((m for m in state.members.values() if counted(m)), key=lambda m: (m.started_ns, _rank(m), m.process))
    last_of = {member.rank: member.process for member in members}
    attempts: list[_Attempt] = []
    state.unassigned = False
    before = {member.process: member.attempt for member in members}
    for member in members:
        if not attempts:
            attempts.append(_Attempt(last_of))
        current = attempts[-1]
        if not current.has(member):
            whole = bool(current.members) and _complete(state, current)
            if whole and current.ended_ns <= member.started_ns + SECOND_NS:
                attempts.append(_Attempt(last_of))
        elif current.replaced_ns <= member.started_ns + window:
            attempts.append(_Attempt(last_of))
        elif now_ns - member.first_ns < window:
            member.attempt = 0
            state.unassigned = True
            continue
        attempts[-1].add(member)
        member.attempt = state.dropped_attempts + len(attempts)
    state.attempt = state.dropped_attempts + len(attempts)
    kept = [min(m.started_ns for m in each.members) for each in attempts]
    state.attempts_started_ns = [*state.attempts_started_ns[: state.dropped_attempts], *kept]
    for member in state.members.values():
        if not counted(member):
            member.attempt = state.attempt
    if any(before[m.process] != m.attempt for m in members):
        state.dirty = state.moved = True
    _drop_old(state, limits)


class _Attempt:
    """Processes of one attempt, and when they were all gone."""

    def __init__(self, last_of: Mapping[int | None, str]) -> None:
        """`last_of`: the last process of each rank."""
        self.members: list[Member] = []
        self.ranks: set[int] = set()
        self.ended_ns = 0
        """Sender's time at which the last process had ended; of a silent one, after its last sign of life."""
        self.replaced_ns = 0
        """The same, if silent processes, and those that another one of their rank came after, do not count."""
        self._last_of = last_of

    def add(self, member: Member) -> None:
        """One more process."""
        self.members.append(member)
        # Carried along: asked of all members for every process that comes, it grows with the square of a run's processes.
        self.ended_ns = max(self.ended_ns, _gone_ns(member))
        self.replaced_ns = max(self.replaced_ns, 0 if self._passed_over(member) else _gone_ns(member))
        if member.rank is not None:
            self.ranks.add(member.rank)

    def has(self, member: Member) -> bool:
        """Whether the process's rank is taken."""
        return member.rank is not None and member.rank in self.ranks

    def _passed_over(self, member: Member) -> bool:
        # One that has ended was there until then, replaced or not.
        return not member.ended and (member.silent or (member.rank is not None and self._last_of[member.rank] != member.process))


def _gone_ns(member: Member) -> int:
    if member.ended:
        return min(one.time_ns for one in member.exits)
    # Ranks that fell silent together were together: only who started after the last sign of life came after them.
    return max(member.time_ns, member.started_ns) + SECOND_NS if member.silent else _NEVER


def _complete(state: RunState, current: _Attempt) -> bool:
    return state.world_size is None or len(current.ranks) >= state.world_size


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
