"""Flight Recorder dumps beside the logs of a job: what they say of ranks, as evidence, and which of them are missing."""

from collections.abc import Sequence
from typing import Final

from firstfault_server.core import model
from firstfault_server.core.cause.flight_recorder import FlightDump, Standing, stuck_group
from firstfault_server.core.cause.observation import Fault, RankObservation, Verdict

MOST_DUMPS_SHOWN: Final = 8


def add_dumps(dumps: Sequence[FlightDump], observed: dict[tuple[int | None, str], RankObservation]) -> set[int]:
    """Add the collective state of the ranks whose recorder spoke; the ranks of all their groups, since one without a dump said nothing."""
    ranks: set[int] = set()
    group = stuck_group(dumps)
    for dump in dumps:
        ranks.update(dump.ranks)
        if dump.rank is None:
            continue
        ranks.add(dump.rank)
        one = observed.setdefault((dump.rank, ""), RankObservation(rank=dump.rank, process=f"rank {dump.rank}"))
        for standing in dump.standings:
            if standing.group != group:
                continue
            one.group, one.sequence, one.entered = standing.group, standing.sequence, standing.entered
            if standing.entered:
                one.faults.append(Fault(id=dump.source, kind="log", symptom="hang", role="waiting", text=_told(standing)))
    return ranks


def any_stands(dumps: Sequence[FlightDump]) -> bool:
    """Whether a known rank stands in a collective that it entered."""
    group = stuck_group(dumps)
    return any(standing.entered and standing.group == group for dump in dumps if dump.rank is not None for standing in dump.standings)


def dump_evidence(dumps: Sequence[FlightDump], verdict: Verdict) -> list[model.Evidence]:
    """One piece of evidence for each dump that shows a rank in the group that stands still."""
    group = stuck_group(dumps)
    roles = {role.rank: role.role for role in verdict.roles}
    return [
        model.Evidence(
            id=dump.source,
            kind="log",
            text=_told(standing),
            rank=dump.rank,
            source=dump.source,
            role=roles.get(dump.rank, "unknown"),
        )
        for dump in dumps
        for standing in dump.standings
        if standing.group == group
    ][:MOST_DUMPS_SHOWN]


def missing_dumps(dumps: Sequence[FlightDump]) -> list[str]:
    """Ranks of the process groups that wrote no dump, as a line for people: a missing dump is evidence too."""
    absent = sorted({rank for dump in dumps for rank in dump.ranks} - {dump.rank for dump in dumps})
    shown = ", ".join(str(rank) for rank in absent[:16]) + (" …" if len(absent) > 16 else "")
    return [f"Flight Recorder dump of rank {shown}"] if absent else []


def _told(standing: Standing) -> str:
    """Where a rank stands, in words."""
    state = "entered and did not complete" if standing.entered else "completed"
    where = f" at {standing.place}" if standing.place else ""
    return f"{state} collective {standing.sequence} {standing.operation} of group {standing.group}{where}"
