"""One episode of a job as its logs show it: whose each line is, what is known of each rank, and the verdict."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.first_fault import decide
from firstfault_server.core.cause.flight_recorder import FlightDump
from firstfault_server.core.cause.launcher import ROOT, blame_of
from firstfault_server.core.cause.log_dumps import add_dumps, any_stands
from firstfault_server.core.cause.log_faults import DEATHS, add_line, node_fact_of, one_line
from firstfault_server.core.cause.log_summary import LogSummary, Seen, leading
from firstfault_server.core.cause.observation import Fault, NodeFact, RankObservation, Verdict

_LAUNCHERS: Final = DEATHS - {"exit-signal"}
MOST_EPISODES: Final = 100


class Tabled(msgspec.Struct, kw_only=True, frozen=True):
    """The tables that judging needs."""

    taxonomy: model.Taxonomy
    codes: CodeTables
    advice: Sequence[AdviceRow]
    advice_marks: tuple[str, ...] = ()


Episode: TypeAlias = tuple[int, int]
"""(attempt, line of the progress that followed); the line is 0 for what nothing followed, and 1 where logs of several files meet."""


def episode_of(seen: Seen, logs: Sequence[LogSummary]) -> Episode:
    """Which episode an observation belongs to. Lines of several files do not compare: there all that was survived is one episode."""
    return seen.attempt, min(seen.survived, 1) if len(logs) > 1 else seen.survived


def episodes_of(logs: Sequence[LogSummary]) -> list[Episode]:
    """Episodes of a job: those that training did not survive first, then by attempt and line."""
    found = {episode_of(seen, logs) for log in logs for seen in log.seen}
    return sorted(found, key=lambda episode: (episode[1] > 0, episode))[:MOST_EPISODES]


class Case:
    """One episode: what an attempt of the job failed of, or something that it survived."""

    def __init__(self, logs: Sequence[LogSummary], episode: Episode, tables: Tabled, dumps: Sequence[FlightDump] = ()) -> None:
        self.logs = logs
        self.attempt, self.survived_at = episode
        self.tables = tables
        self.dumps = dumps
        self.observed: dict[tuple[int | None, str], RankObservation] = {}
        self.facts: list[NodeFact] = []
        self.by_id: dict[str, tuple[LogSummary, Seen]] = {}
        self._exceptions: dict[str, model.ExceptionInfo] = {}
        self._pids: dict[str, str] = {}
        self.telling = False
        self._gather()

    @property
    def survived(self) -> bool:
        """Training went on."""
        return self.survived_at > 0

    def _gather(self) -> None:
        ranks: set[int] = set()
        # Where a launcher's table says which rank died of a signal, its other lines about it add nothing.
        mine = (self.attempt, self.survived_at)
        self._blame = blame_of([seen for log in self.logs for seen in log.seen if episode_of(seen, self.logs) == mine])
        self._tabled = any(seen.reading.pattern == "exit-signal" and seen.attempt == self.attempt for log in self.logs for seen in log.seen)
        for log in self.logs:
            base = 0
            for seen in log.seen:
                if episode_of(seen, self.logs) != mine:
                    continue
                base = max(base, seen.time_ns or 0)
                self._take(log, seen, base + seen.line * 1000)
            ranks.update(log.ranks)
            if log.rank is not None:
                ranks.add(log.rank)
        self._own_up()
        self._own_what_came_before()
        ranks |= add_dumps(self.dumps, self.observed)
        self.telling = self.telling or any_stands(self.dumps)
        ranks.update(rank for seen in self.observed.values() for fault in seen.faults for rank in fault.missing)
        waits = [seen for seen in self.observed.values() if any(fault.role == "waiting" for fault in seen.faults)]
        if len(waits) >= 2 and ranks:
            # Numbers run from 0: a hole among ranks that wait is a rank that said nothing.
            ranks.update(range(max(ranks) + 1))
        for rank in sorted(ranks):
            if (rank, "") not in self.observed:
                self.observed[(rank, "")] = RankObservation(rank=rank, process=f"rank {rank}")

    def _own_up(self) -> None:
        """Exceptions without a rank belong to the one rank that a launcher says failed, where it failed once and nobody else did."""
        rank, nameless = self._blame.rank, [key for key in self.observed if key[0] is None]
        if rank is not None and not any(seen.faults for seen in self.observed.values()):
            self._blame_alone(rank)
        if rank is None or len(nameless) != 1 or (len(self.logs) > 1 and self.logs[0].rank is not None):
            return
        theirs = self.observed[nameless[0]]
        told = [fault for fault in theirs.faults if fault.kind == "exception" and fault.role in ("initiating", "unknown")]
        if self._blame.alike > 1 and any(self.by_id[fault.id][1].count > 1 for fault in told):
            return
        key = (rank, "")
        mine = self.observed.get(key)
        if mine is not None and any(fault.fatal and fault.kind == "exception" for fault in mine.faults):
            return
        if not told and theirs.faults:
            return
        mine = self.observed.setdefault(key, RankObservation(rank=rank, process=f"rank {rank}"))
        mine.faults += told
        mine.ended, mine.end = True, "failed"
        theirs.faults = [fault for fault in theirs.faults if fault not in told]
        if not theirs.faults and not theirs.stop_ns:
            del self.observed[nameless[0]]

    def _own_what_came_before(self) -> None:
        """Lines that native code and tools printed without a rank belong to the only rank that speaks, where its exception follows them."""
        crashed = [seen for _, seen in self.by_id.values() if seen.crash is not None]
        nameless = [key for key in self.observed if key[0] is None]
        if len(self.logs) != 1 or len(self.logs[0].ranks) != 1 or len(nameless) != 1 or not crashed:
            return
        rank = self.logs[0].ranks[0]
        theirs = self.observed[nameless[0]]
        if any(seen.rank != rank for seen in crashed) or any(fault.place > crashed[0].order for fault in theirs.faults):
            return
        mine = self.observed.setdefault((rank, ""), RankObservation(rank=rank, process=f"rank {rank}"))
        mine.faults = theirs.faults + mine.faults
        del self.observed[nameless[0]]

    def _blame_alone(self, rank: int) -> None:
        """All that is known is which rank ended with an error."""
        told = self._blame.seen
        assert told is not None
        ident = next((name for name, (_, seen) in self.by_id.items() if seen is told), "")
        fault = Fault(id=ident, kind="exit", symptom="unknown", text=one_line(told.text), source=ident, fatal=True)
        self.observed[(rank, "")] = RankObservation(
            rank=rank, process=f"rank {rank}", node=told.node, faults=[fault], ended=True, end="failed"
        )

    def _take(self, log: LogSummary, seen: Seen, time_ns: int) -> None:
        reading = seen.reading
        if not reading.symptom:
            return
        self.telling = True
        ident = f"{log.source}:{seen.line}"
        while ident in self.by_id:
            ident += "+"
        self.by_id[ident] = (log, seen)
        if seen.crash is not None:
            self._exceptions[ident] = model.ExceptionInfo(type=seen.crash.type, message=seen.crash.message)
        if reading.symptom == "unknown" and reading.weight == 0:
            return
        rank = seen.rank if seen.rank is not None else log.rank
        if self._tabled and reading.pattern in _LAUNCHERS and (rank is None or "local" in reading.facts):
            return
        key = (rank, "" if rank is not None else log.source)
        observed = self.observed.setdefault(key, RankObservation(rank=rank, process=f"rank {rank}" if rank is not None else log.source))
        observed.node = observed.node or seen.node
        if reading.pattern == "exit-signal" and (pid := reading.facts.get("pid")):
            self._pids[pid] = observed.process
        # After the first one torchrun stops the others, whatever signal they then end by.
        later = reading.pattern == "exit-signal" and self._blame.rooted and not reading.facts.get(ROOT)
        add_line(observed, seen, ident, time_ns, stopped=later)
        if (fact := node_fact_of(seen, ident, time_ns, self.tables.codes)) is not None:
            self.facts.append(fact)

    def judged(self) -> tuple[Verdict, tuple[LogSummary, Seen] | None]:
        """The verdict, and what stands for the failure."""
        observations = list(self.observed.values()) or [RankObservation(rank=None, process="job")]
        self._place_facts()
        verdict = decide(observations, facts=self.facts, exceptions=self._exceptions)
        verdict = self._without_clocks(verdict)
        lead_id = verdict.fault.id if verdict.fault is not None else verdict.fact.id if verdict.fact is not None else ""
        lead = self.by_id.get(lead_id) or self._any()
        if verdict.symptom == "unknown" and lead is not None and lead[1].reading.symptom:
            verdict.symptom = lead[1].reading.symptom
        return verdict, lead

    def _place_facts(self) -> None:
        """Kernel facts belong to the process whose pid they name; among logs without times they count as of the death they explain."""
        timed = all(log.timed for log in self.logs)
        deaths = [fault.time_ns for seen in self.observed.values() for fault in seen.faults if fault.kind == "signal"]
        for fact in self.facts:
            pid = self.by_id[fact.id][1].reading.facts.get("pid", "")
            fact.process = self._pids.get(pid, "")
            if not timed and deaths:
                fact.time_ns = fact.received_ns = min(deaths)

    def _without_clocks(self, verdict: Verdict) -> Verdict:
        """Files without times have no order among each other: two ranks with faults of their own stay candidates."""
        timed = all(log.timed for log in self.logs)
        if timed or len(self.logs) < 2 or verdict.rank is None or verdict.fact is not None:
            return verdict
        rivals = sorted(
            seen.rank
            for seen in self.observed.values()
            if seen.rank is not None and any(fault.role == "initiating" and fault.fatal for fault in seen.faults)
        )
        if len(rivals) > 1:
            first = verdict.rank
            verdict.candidates = sorted(rivals, key=lambda rank: rank != first)
            verdict.rank, verdict.scope = None, "group"
            verdict.not_seen.append("times that compare between the files")
        return verdict

    def _any(self) -> tuple[LogSummary, Seen] | None:
        """What stands for the case when no fault does: the most telling line."""
        return min(
            self.by_id.values(),
            key=lambda item: (leading(item[1].reading.role), -item[1].reading.weight, item[1].crash is None, item[1].line),
            default=None,
        )
