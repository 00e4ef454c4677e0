"""Node facts that outrank what processes say: broken memory, bus or link, and the kernel's oom-kill."""

from collections.abc import Sequence

from firstfault_server.core.cause.observation import NodeFact, RankObservation, RoleOf, Verdict
from firstfault_server.core.cause.own_fault import Part
from firstfault_server.core.model import Role
from firstfault_server.core.thresholds import Thresholds, nanoseconds


def hardware_verdict(
    ranks: Sequence[RankObservation], parts: Sequence[Part], facts: Sequence[NodeFact], limits: Thresholds
) -> Verdict | None:
    """The verdict a node fact gives; None without one, or when a rank elsewhere failed well before it."""
    chosen: tuple[NodeFact, list[int]] | None = None
    for fact in sorted((fact for fact in facts if fact.initiates), key=lambda fact: (fact.time_ns, fact.id)):
        if (who := _concerned(fact, ranks, parts, limits)) and not _later(fact, who, ranks, parts, limits):
            chosen = (fact, who)
            break
    if chosen is None:
        return None
    fact, who = chosen
    mates = [i for i, seen in enumerate(ranks) if seen.node == fact.node]
    verdict = Verdict(symptom=fact.symptom, fact=fact, node=fact.node, why=fact.text)
    verdict.candidates = [rank for i in who if (rank := ranks[i].rank) is not None]
    if len(who) == 1:
        verdict.rank, verdict.process = ranks[who[0]].rank, ranks[who[0]].process
        best = parts[who[0]].best
        verdict.fault = best.fault if best is not None else None
    else:
        verdict.scope = "node" if set(who) == set(mates) else "group"
    began = set(who)
    verdict.roles = [_role(i, seen, parts[i], began, fact) for i, seen in enumerate(ranks)]
    return verdict


def _concerned(fact: NodeFact, ranks: Sequence[RankObservation], parts: Sequence[Part], limits: Thresholds) -> list[int]:
    """Indexes of the ranks a fact is about: its process, the GPU's user, or those of the node that failed."""
    if fact.process:
        own = [i for i, seen in enumerate(ranks) if seen.process == fact.process]
        if fact.kind != "oom_kill":
            return own
        return [i for i in own if ranks[i].ended or ranks[i].silent]
    mates = [i for i, seen in enumerate(ranks) if seen.node == fact.node]
    if fact.kind == "silent":
        # Several nodes out of sight at once are judged together: losing sight of them is likelier.
        alone = all(seen.node == fact.node for seen in ranks if seen.silent)
        return [i for i in mates if ranks[i].silent] if alone else []
    if fact.kind == "oom_kill":
        return [i for i in mates if _killed_near(parts[i], fact.time_ns, nanoseconds(limits.death_join_s))]
    if fact.gpu_uuid and (users := [i for i in mates if ranks[i].gpu_uuid == fact.gpu_uuid]):
        return users
    failed = [i for i in mates if parts[i].owns or ranks[i].silent or ranks[i].stalled]
    return failed if len(failed) == 1 else mates


def _killed_near(part: Part, time_ns: int, near_ns: int) -> bool:
    """Whether the process died without a word, as an oom-kill leaves it, close to this time."""
    return any(own.fault.symptom == "process_killed" and abs(own.time_ns - time_ns) <= near_ns for own in part.owns)


def _later(fact: NodeFact, who: Sequence[int], ranks: Sequence[RankObservation], parts: Sequence[Part], limits: Thresholds) -> bool:
    """A rank of another node named a cause of its own well before the fact: then the fact came second."""
    near = nanoseconds(limits.death_join_s)
    inside = set(who)
    return any(
        part.best is not None and part.best.trust > 1 and ranks[i].node != fact.node and part.best.time_ns < fact.time_ns - near
        for i, part in enumerate(parts)
        if i not in inside
    )


def _role(index: int, seen: RankObservation, part: Part, began: set[int], fact: NodeFact) -> RoleOf:
    role: Role = "unknown"
    why = ""
    if index in began:
        role, why = "initiating", fact.text
    elif part.reaction is not None:
        role, why = part.reaction.role, part.reaction.text
    elif part.best is not None:
        role, why = ("teardown" if part.best.fault.kind in ("signal", "exit") else "cascade"), part.best.why
    elif seen.stop_ns or part.torn_down:
        role, why = "teardown", "asked to stop after the first fault"
    elif seen.stalled and not seen.ended:
        role, why = "waiting", "alive, without progress"
    return RoleOf(process=seen.process, rank=seen.rank, role=role, why=why[:200])
