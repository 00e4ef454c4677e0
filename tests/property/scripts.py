"""A small language for scripted training runs: what every process sends and when, and a driver with the host's rules."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages import build_stages
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.keyed import KeyedStages
from firstfault_server.tables import Tables, load_tables

T0 = 1_800_000_000 * SECOND_NS
CLOCK_NS = SECOND_NS // 4


def at(seconds: float) -> int:
    """Script time as nanoseconds."""
    return T0 + round(seconds * SECOND_NS)


class Script:
    """What the processes of one run send. Times are seconds since the script's start; batches carry their time of sending."""

    def __init__(self, ranks: int = 2, *, nodes: int = 1, run: str = "job", tenant: str = "t1", world: int | None = None) -> None:
        self.ranks, self.nodes, self.run, self.tenant = ranks, nodes, run, tenant
        self.world = world if world is not None else ranks
        self.attempt = 1
        self.started = 0.0
        self.sent: list[tuple[float, model.Batch]] = []
        self._sequences: dict[tuple[str, str], int] = {}

    # ---- who -------------------------------------------------------------------------------------------------------------

    def node(self, rank: int) -> str:
        """Ranks fill nodes one after the other."""
        return f"node-{rank * self.nodes // self.ranks}"

    def pid(self, rank: int) -> int:
        """Process ids differ between attempts."""
        return 1000 * self.attempt + rank

    def identity(self, rank: int | None, role: str = "trainer") -> model.Identity:
        """The process that a rank is in this attempt."""
        who = "launcher" if rank is None else str(rank)
        return model.Identity(
            tenant=self.tenant,
            process=f"{self.run}-{self.attempt}-{who}",
            run=self.run,
            rank=rank,
            local_rank=rank,
            world_size=self.world,
            role=role,
            node=self.node(rank or 0),
            cluster="c1",
            pid=self.pid(rank or 0),
            started_ns=at(self.started),
        )

    # ---- what is sent ----------------------------------------------------------------------------------------------------

    def send(
        self,
        when: float,
        identity: model.Identity,
        *,
        series: Sequence[model.Series] = (),
        logs: Sequence[model.LogRecord] = (),
        sender: str = "sdk",
    ) -> None:
        """One batch of one process."""
        key = (identity.process, sender)
        number = self._sequences[key] = self._sequences.get(key, 0) + 1
        self.sent.append(
            (
                when,
                model.Batch(
                    identity=identity, received_ns=0, position="", sender=sender, sequence=number, series=list(series), logs=list(logs)
                ),
            )
        )

    def step(self, when: float, rank: int, step: int, loss: float = 1.0, **metrics: float) -> None:
        """One logged step."""
        time_ns = at(when)
        values = {names.LOSS: loss, **{f"train.{name}": value for name, value in metrics.items()}}
        series = [model.Series(metric=name, times_ns=[time_ns], values=[value], steps=[step]) for name, value in values.items()]
        series.append(model.Series(metric=names.STEP, times_ns=[time_ns], values=[float(step)]))
        self.send(when, self.identity(rank), series=series)

    def log(self, when: float, rank: int, event: str, sender: str = "sdk", severity: int = 9, body: str = "", **attributes: Any) -> None:
        """One log record; attribute names as in the conventions' constants."""
        named: dict[str, model.Attribute] = {getattr(names, key): value for key, value in attributes.items()}
        record = model.LogRecord(time_ns=at(when), event_name=event, severity=severity, body=body, attributes=named)
        self.send(when, self.identity(rank), logs=[record], sender=sender)

    def beat(self, when: float, rank: int) -> None:
        """A heartbeat of the sidecar."""
        self.log(when, rank, names.HEARTBEAT, sender="sidecar")

    def exception(
        self, when: float, rank: int, kind: str, message: str, *, fatal: bool = True, function: str = "train", step: int = 0
    ) -> None:
        """A Python exception with a stack of two frames."""
        stack = f'Traceback (most recent call last):\n  File "train.py", line 9, in {function}\n    go()\n{kind}: {message}'
        frames = f'[{{"module":"train","function":"<module>","in_app":true}},{{"module":"train","function":"{function}","in_app":true}}]'
        self.log(
            when,
            rank,
            names.EXCEPTION,
            severity=21 if fatal else 17,
            EXCEPTION_TYPE=kind,
            EXCEPTION_MESSAGE=message,
            EXCEPTION_STACKTRACE=stack,
            STACK_FRAMES=frames,
            EXCEPTION_FATAL=fatal,
            EXCEPTION_ORIGIN="excepthook" if fatal else "captured",
            EVENT_STEP=step,
        )

    def exit(
        self,
        when: float,
        rank: int,
        state: str,
        *,
        code: int | None = None,
        signal: int | None = None,
        source: str = "sidecar",
        tail: Sequence[str] = (),
    ) -> None:
        """An exit record."""
        attributes: dict[str, Any] = {"EXIT_STATE": state, "EXIT_SOURCE": source}
        if code is not None:
            attributes["EXIT_CODE"] = code
        if signal is not None:
            attributes["EXIT_SIGNAL"] = signal
        if tail:
            attributes["STDERR_TAIL"] = list(tail)
        self.log(when, rank, names.EXIT, sender="sidecar" if source == "sidecar" else "sdk", **attributes)

    def kernel(self, when: float, node: str, event: str, body: str, **attributes: Any) -> None:
        """A record of the node's agent."""
        agent = model.Identity(tenant="ops", process=f"agent-{node}", run="", role="node_agent", node=node, cluster="c1")
        named: dict[str, model.Attribute] = {getattr(names, key): value for key, value in attributes.items()}
        record = model.LogRecord(time_ns=at(when), event_name=event, severity=17, body=body, attributes=named)
        self.send(when, agent, logs=[record], sender="agent")

    # ---- stretches -------------------------------------------------------------------------------------------------------

    def train(
        self,
        start: float,
        end: float,
        *,
        first_step: int = 1,
        ranks: Iterable[int] | None = None,
        period: float = 1.0,
        loss: Callable[[int, int], float] = lambda rank, step: 1.0,
    ) -> int:
        """Steps and heartbeats of ranks from start to end; the step after the last."""
        step, when = first_step, start
        chosen = list(ranks if ranks is not None else range(self.ranks))
        while when < end:
            for rank in chosen:
                self.step(when, rank, step, loss(rank, step))
            step, when = step + 1, when + period
        self.beats(start, end, ranks=chosen)
        return step

    def beats(self, start: float, end: float, *, ranks: Iterable[int] | None = None) -> None:
        """Heartbeats only, every two seconds."""
        when = start
        while when < end:
            for rank in ranks if ranks is not None else range(self.ranks):
                self.beat(when, rank)
            when += 2.0

    def restart(self, when: float) -> None:
        """What follows belongs to the next attempt's processes."""
        self.attempt += 1
        self.started = when


class Arrival(msgspec.Struct, kw_only=True):
    """How the batches of a script get here."""

    jitter_s: float = 0.0
    """Each batch is late by up to this much."""
    repeats: float = 0.0
    """Share of batches delivered twice."""
    seed: int = 0
    snapshots: Sequence[float] = ()
    """Script times at which all state is encoded, thrown away and decoded."""
    outage: tuple[float, float] | None = None
    """Start and length of a time in which the service is down: what is sent in it arrives after it."""


class Outcome(msgspec.Struct, kw_only=True):
    """What came out."""

    revisions: list[model.Incident]
    runs: dict[str, model.RunStatus]
    events: list[model.Event]
    rollups: list[model.Rollup]
    findings: list[model.Finding]
    failures: dict[str, int]
    times: dict[tuple[str, int], int]
    """(incident, revision) -> receive time at which it left."""

    def incidents(self) -> list[model.Incident]:
        """The last revision of each incident that was not withdrawn, in order of opening."""
        last: dict[str, model.Incident] = {}
        for one in self.revisions:
            if one.id not in last or one.revision > last[one.id].revision:
                last[one.id] = one
        kept = [one for one in last.values() if not one.resolved_why.startswith("withdrawn")]
        return sorted(kept, key=lambda one: (one.run.id, one.number))

    def only(self) -> model.Incident:
        """The one incident there must be."""
        incidents = self.incidents()
        assert len(incidents) == 1, [(one.symptom, one.title, one.state, one.resolved_why) for one in incidents]
        return incidents[0]

    def pages(self, incident: model.Incident) -> int:
        """How often the page flag went up."""
        flags = [one.page for one in self.revisions if one.id == incident.id]
        return sum(1 for before, after in zip([False, *flags], flags, strict=False) if after and not before)


def same(incident: model.Incident) -> tuple[object, ...]:
    """What makes two incidents the same (architecture.md, section 5)."""
    fault = incident.first_fault
    roles = sorted((one.rank if one.rank is not None else -1, one.role) for one in incident.ranks)
    return (
        incident.id,
        incident.symptom,
        fault.scope,
        fault.rank,
        tuple(fault.candidates),
        tuple(roles),
        incident.fingerprint.id,
        incident.history.group,
        incident.state,
        incident.recurrences,
    )


class Driver:
    """Feeds scripts to the four stages in order of receipt, with clock records in between."""

    def __init__(self, thresholds: Thresholds | None = None, tables: Tables | None = None) -> None:
        self._tables = tables or load_tables()
        self._limits = thresholds or Thresholds()
        self.stages = self._fresh()

    def _fresh(self) -> KeyedStages:
        tables = self._tables
        return KeyedStages(
            build_stages(
                self._limits,
                tables.taxonomy,
                tables.text_reader(),
                tables.advice,
                codes=tables.codes,
                frames=tables.frames,
                advice_marks=tables.patterns.advice_marks,
            )
        )

    def play(self, scripts: Sequence[Script], until: float, arrival: Arrival | None = None) -> Outcome:
        """Everything the scripts send, then silence until `until`."""
        how = arrival or Arrival()
        arrivals = _arrivals(scripts, how)
        marks = sorted(at(when) for when in how.snapshots)
        end = at(until)
        outcome = Outcome(revisions=[], runs={}, events=[], rollups=[], findings=[], failures={}, times={})
        snapshots: dict[tuple[str, str], bytes | None] = {}
        clock, index = T0, 0
        down = (at(how.outage[0]), at(how.outage[0] + how.outage[1])) if how.outage is not None else (0, 0)
        while clock <= end:
            while index < len(arrivals) and arrivals[index].received_ns <= clock:
                batch = arrivals[index]
                self.stages.advance(batch.received_ns)
                self.stages.give("worker", batch, batch.received_ns)
                index += 1
            if not down[0] < clock < down[1]:
                self.stages.advance(clock)
            self._collect(outcome, clock)
            if marks and clock >= marks[0]:
                marks.pop(0)
                snapshots.update(self.stages.take_snapshots())
                now_ns = self.stages.now_ns
                self.stages = self._fresh()
                self.stages.restore([(name, key, data) for (name, key), data in snapshots.items() if data is not None], now_ns)
            clock += CLOCK_NS
        return outcome

    def _collect(self, outcome: Outcome, clock: int) -> None:
        out = self.stages.take_output()
        outcome.revisions += out.incidents
        for one in out.incidents:
            outcome.times[one.id, one.revision] = clock
        for run in out.runs.values():
            outcome.runs[run.run] = run
        outcome.events += out.events
        outcome.rollups += out.rollups
        outcome.findings += out.findings
        for name, count in self.stages.failures.items():
            outcome.failures[name] = count
        assert not out.dead_letters, out.dead_letters[0].reason


def _arrivals(scripts: Sequence[Script], how: Arrival) -> list[model.Batch]:
    chance = random.Random(how.seed)
    pairs: list[tuple[int, int, model.Batch]] = []
    for script in scripts:
        for when, batch in script.sent:
            copies = 2 if chance.random() < how.repeats else 1
            for _ in range(copies):
                received = at(when) + SECOND_NS // 50 + round(chance.random() * how.jitter_s * SECOND_NS)
                if how.outage is not None and at(how.outage[0]) < received < at(how.outage[0] + how.outage[1]):
                    received = at(how.outage[0] + how.outage[1]) + len(pairs)
                pairs.append((received, len(pairs), batch))
    pairs.sort(key=lambda one: one[:2])
    return [
        msgspec.structs.replace(batch, received_ns=received, position=f"{number:012d}") for number, (received, _, batch) in enumerate(pairs)
    ]
