"""The worker stage: one training process. Drops what came twice, makes rollups, events and findings, says where the process stands."""

from collections.abc import Sequence
from typing import Final

import msgspec

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.detect import detectors
from firstfault_server.core.detect.protocol import Detector, Points, Signal
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.breadth import REASON, Breadth
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.columns import Spans
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.ordered import Held, Queue, Run
from firstfault_server.core.stages.phases import Mark
from firstfault_server.core.stages.reading import Reader
from firstfault_server.core.stages.rollups import rollups
from firstfault_server.core.stages.sequences import Seen
from firstfault_server.core.stages.worker_events import event_id, event_of, integer, number
from firstfault_server.core.stages.worker_state import Collective, WorkerState
from firstfault_server.core.thresholds import Thresholds, nanoseconds

WINDOW_NS: Final = 10 * SECOND_NS
_PRESENCE_NS: Final = 5 * SECOND_NS
_MINUTE_NS: Final = 60 * SECOND_NS
_KEEP_NS: Final = 24 * 3600 * SECOND_NS
_FOREIGN_LOGS: Final = 1024


class Worker:
    """Stage `worker`; eager: the host calls it for every batch."""

    name = "worker"
    eager = True

    def __init__(self, thresholds: Thresholds, reader: Reader) -> None:
        self._limits = thresholds
        self._reader = reader
        self._detectors: dict[str, list[Detector]] = {}
        for detector in detectors(thresholds):
            for metric in detector.metrics:
                self._detectors.setdefault(metric, []).append(detector)
        self._breadth = Breadth(thresholds.series_per_process)
        self._late_ns = nanoseconds(thresholds.lateness_s)
        self._clamp_ns = nanoseconds(thresholds.clamp_s)
        codec = StateCodec(WorkerState)
        self.encode, self.decode = codec.encode, codec.decode

    def key(self, record: model.Batch) -> str:
        """Tenant, process, and run: one process may name several runs."""
        return "/".join((record.identity.tenant, record.identity.process, record.identity.run))

    def new(self, key: str) -> WorkerState:
        """Nothing seen."""
        return WorkerState()

    def urgent(self, record: model.Batch) -> bool:
        """Every record is handled at once anyway."""
        return True

    def on_batch(self, state: WorkerState, records: Sequence[model.Batch], now_ns: int) -> list[model.AnyRecord]:
        """Take batches of this process."""
        out: list[model.AnyRecord] = []
        for batch in records:
            if batch.sequence is not None and not state.seen.setdefault(batch.sender, Seen()).add(batch.sequence):
                continue
            self._take(state, batch, out)
        self._release(state, max(now_ns, state.received_ns), out)
        return out

    def on_tick(self, state: WorkerState, now_ns: int) -> list[model.AnyRecord]:
        """Points whose predecessors are not coming any more go to the detectors."""
        out: list[model.AnyRecord] = []
        self._release(state, now_ns, out)
        state.gone = now_ns >= state.received_ns + _KEEP_NS
        return out

    def on_hole(self, state: WorkerState, hole_ns: int, now_ns: int) -> None:
        """Nothing here is judged by silence."""

    def deadline(self, state: WorkerState) -> int | None:
        """The next release of waiting points; a day after the last word the state may go."""
        if state.gone:
            return None
        dues = [due for queue in state.queues.values() if (due := queue.due(self._late_ns)) is not None]
        if (due := state.buffer.due(self._late_ns)) is not None:
            dues.append(due)
        return min([*dues, state.received_ns + _KEEP_NS])

    # ---- one batch -----------------------------------------------------------------------------------------------------

    def _take(self, state: WorkerState, batch: model.Batch, out: list[model.AnyRecord]) -> None:
        state.identity = batch.identity
        state.received_ns = max(state.received_ns, batch.received_ns)
        spans = Spans()
        series = self._clamped(batch, spans)
        if batch.sequence is None:
            series = self._unseen_points(state, series)
        newest = spans.newest(series)
        out += rollups(batch, self._stored(state, batch, series, out), WINDOW_NS, spans)
        self._numbers(state, batch, series, spans)
        events: list[model.AnyRecord] = []
        for place, record in enumerate(batch.logs):
            time_ns = self._time(record.time_ns, batch)
            newest = max(newest, time_ns)
            if batch.sequence is None and not self._unseen_log(state, event_id(batch, place, record), batch.received_ns):
                continue
            self._log(state, batch, place, record, time_ns, events)
        if newest:
            self._skew(state, batch.received_ns, batch.received_ns - newest)
            state.time_ns = max(state.time_ns, newest)
        if batch.identity.run and batch.identity.role != "node_agent":
            # Before the events: whoever judges them must know whether something sent earlier is missing.
            out.append(self._summary(state, batch.identity))
            self._presence(state, batch, out)
        out += events

    def _stored(self, state: WorkerState, batch: model.Batch, series: list[model.Series], out: list[model.AnyRecord]) -> list[model.Series]:
        kept, points = self._breadth.stored(state.series, series)
        if points:
            who = batch.identity
            out.append(
                model.Dropped(tenant=who.tenant, run=who.run, process=who.process, reason=REASON, points=points, first=not state.overfull)
            )
            state.overfull = True
        return kept

    def _time(self, time_ns: int, batch: model.Batch) -> int:
        """Sender's time, replaced by receive time when it cannot be true."""
        ahead = time_ns - batch.received_ns
        if time_ns <= 0 or ahead > self._clamp_ns or (batch.sequence is None and -ahead > self._clamp_ns):
            return batch.received_ns
        return time_ns

    def _clamped(self, batch: model.Batch, spans: Spans) -> list[model.Series]:
        """The batch's series, their times replaced where they cannot be true."""
        kept: list[model.Series] = []
        believed: list[int] | None = None
        for one in batch.series:
            times = one.times_ns
            if times and times is not believed:
                low, high, _ = spans.of(times)
                if self._time(low, batch) == low and self._time(high, batch) == high:
                    believed = times
                else:
                    possible = [self._time(time_ns, batch) for time_ns in times]
                    one = msgspec.structs.replace(one, times_ns=possible, clamped=0)
            kept.append(one)
        return kept

    def _numbers(self, state: WorkerState, batch: model.Batch, series: list[model.Series], spans: Spans) -> None:
        """Step and progress now; what detectors want, once its turn has come."""
        marks: dict[int, int] = {}
        runs: list[Run] = []
        for one in series:
            metric, times, steps = one.metric, one.times_ns, one.steps
            if metric == names.STEP:
                # Beyond 2^53 a float no longer tells one step from the next; NaN compares false.
                marks.update([(t, int(value)) for t, value in zip(times, one.values, strict=True) if abs(value) < 2**53])
                continue
            if steps is not None and spans.first_sight(times, steps):
                marks.update([(time_ns, step) for time_ns, step in zip(times, steps, strict=True) if step is not None])
            if metric in self._detectors and not one.attributes:
                runs.append((metric, times, one.values, steps if steps is not None else [None] * len(one.values)))
        if marks:
            ordered = sorted(marks.items())
            runs.append((names.STEP, [t for t, _ in ordered], [float(step) for _, step in ordered], [step for _, step in ordered]))
            self._progress(state, max(marks.values()), batch.received_ns)
        elif series and state.step is None and max((max(one.times_ns, default=0) for one in series), default=0) > state.time_ns:
            # A process that logs without steps moves on as long as it logs.
            state.progress_ns = max(state.progress_ns, batch.received_ns)
        if batch.sequence is not None:
            queue = state.queues.setdefault(batch.sender, Queue())
            queue.put(batch.sequence, Held(batch.received_ns, runs, sum(len(run[1]) for run in runs)))
        else:
            for run in runs:
                state.buffer.put(run, batch.received_ns)

    def _progress(self, state: WorkerState, step: int, received_ns: int) -> None:
        if state.step is None or step > state.step:
            state.step = step
            state.progress_ns = max(state.progress_ns, received_ns)

    def _log(
        self, state: WorkerState, batch: model.Batch, place: int, record: model.LogRecord, time_ns: int, out: list[model.AnyRecord]
    ) -> None:
        attributes = record.attributes
        order = min(max(batch.sequence or 0, 0), 1 << 48) * 4096 + min(place, 4095)
        if record.event_name == names.HEARTBEAT:
            state.heartbeat_ns = max(state.heartbeat_ns, batch.received_ns)
        elif record.event_name == names.PHASE:
            phase = str(attributes.get(names.PHASE_NAME, ""))
            begin = attributes.get(names.PHASE_STATE) != "end"
            state.phases.add(Mark(time_ns, order, begin, phase, batch.received_ns, number(attributes.get(names.PHASE_EXPECT_S))))
            state.progress_ns = max(state.progress_ns, batch.received_ns)
        elif record.event_name == names.COLLECTIVE:
            sequence = integer(attributes.get(names.COLLECTIVE_SEQ))
            group = str(attributes.get(names.COLLECTIVE_GROUP, ""))
            entered = Collective(time_ns, order, group, sequence, str(attributes.get(names.COLLECTIVE_STATE, "")))
            if sequence is not None and (entered.time_ns, entered.place) >= (state.collective.time_ns, state.collective.place):
                state.collective = entered
        elif record.event_name == names.CHECKPOINT:
            step = integer(attributes.get(names.CHECKPOINT_STEP))
            if step is not None and (time_ns, step) >= (state.checkpoint or (0, 0)):
                state.checkpoint = (time_ns, step)
        elif record.event_name == names.EXIT:
            state.ended = True
        event = event_of(batch, place, record, time_ns, self._reader)
        if event is not None:
            if event.step is None and not event.event_name.startswith("node."):
                event.step = state.step
            if not event.phase and (current := state.phases.current()) is not None:
                event.phase = current.name
            out.append(event)

    # ---- senders without batch numbers ---------------------------------------------------------------------------------

    def _unseen_points(self, state: WorkerState, series: list[model.Series]) -> list[model.Series]:
        """Points not seen yet: equal (series, timestamp) within the lateness bound is one point."""
        fresh: list[model.Series] = []
        for one in series:
            key = digest(one.metric, sorted(one.attributes.items()))
            known = set(state.foreign.get(key, ()))
            keep: list[int] = []
            for i, time_ns in enumerate(one.times_ns):
                if time_ns not in known:
                    known.add(time_ns)
                    keep.append(i)
            state.foreign[key] = sorted(known)
            if len(keep) == len(one.times_ns):
                fresh.append(one)
            elif keep:
                fresh.append(
                    model.Series(
                        metric=one.metric,
                        attributes=one.attributes,
                        times_ns=[one.times_ns[i] for i in keep],
                        values=[one.values[i] for i in keep],
                        steps=None if one.steps is None else [one.steps[i] for i in keep],
                    )
                )
        self._forget_points(state)
        return fresh

    def _forget_points(self, state: WorkerState) -> None:
        if sum(len(times) for times in state.foreign.values()) <= self._limits.foreign_points:
            return
        newest = max(times[-1] for times in state.foreign.values() if times)
        # Twice the bound: a repeat may be as late as the bound allows, after the newest point.
        kept = {key: [t for t in times if t > newest - 2 * self._late_ns] for key, times in state.foreign.items()}
        most = max(16, self._limits.foreign_points // max(1, len(kept)))
        state.foreign = {key: times[-most:] for key, times in kept.items() if times}

    def _unseen_log(self, state: WorkerState, log_id: str, received_ns: int) -> bool:
        if log_id in state.foreign_logs:
            return False
        state.foreign_logs[log_id] = received_ns
        if len(state.foreign_logs) > _FOREIGN_LOGS:
            oldest = sorted(state.foreign_logs, key=lambda one: (state.foreign_logs[one], one))[: _FOREIGN_LOGS // 4]
            for one in oldest:
                del state.foreign_logs[one]
        return True

    # ---- what comes out ------------------------------------------------------------------------------------------------

    def _release(self, state: WorkerState, now_ns: int, out: list[model.AnyRecord]) -> None:
        for sender in sorted(state.queues):
            self._detect(state, state.queues[sender].ready(now_ns, self._late_ns, self._limits.held_values), out)
        self._detect(state, state.buffer.ready(now_ns, self._late_ns, self._limits.held_values), out)

    def _detect(self, state: WorkerState, runs: list[Run], out: list[model.AnyRecord]) -> None:
        for metric, times, values, steps in runs:
            if metric == names.STEP:
                for time_ns, step in zip(times, steps, strict=True):
                    if step is not None:
                        state.pause.step(time_ns, step)
                continue
            points = Points(metric=metric, times_ns=times, values=values, steps=steps)
            for detector in self._detectors[metric]:
                key = f"{detector.name} {metric}"
                if key not in state.detectors:
                    state.detectors[key] = detector.new()
                for signal in detector.update(state.detectors[key], points):
                    out.append(self._finding(state, detector.name, metric, signal))

    def _finding(self, state: WorkerState, detector: str, metric: str, signal: Signal) -> model.Finding:
        who = state.identity
        assert who is not None, "points come after the batch that brought them"
        return model.Finding(
            id=digest("finding", who.tenant, who.run, who.process, detector, metric, signal.time_ns, signal.ended),
            identity=who,
            detector=detector,
            symptom=signal.symptom,
            time_ns=signal.time_ns,
            received_ns=state.received_ns,
            step=signal.step,
            metric=metric,
            score=signal.score,
            text=signal.text,
            numbers=signal.numbers,
            opens=signal.opens,
            ended=signal.ended,
        )

    def _summary(self, state: WorkerState, who: model.Identity) -> model.Summary:
        phase = state.phases.current()
        learned = state.pause.total >= self._limits.pause_warmup
        return model.Summary(
            identity=who,
            received_ns=state.received_ns,
            time_ns=state.time_ns,
            step=state.step,
            progress_ns=state.progress_ns,
            phase=phase.name if phase is not None else "",
            phase_since_ns=phase.received_ns if phase is not None else 0,
            phase_expect_s=phase.expect_s if phase is not None else None,
            pause_p99_s=state.pause.quantile(0.99) if learned else None,
            longest_pause_s=state.pause.longest_s if state.pause.total else None,
            heartbeat_ns=state.heartbeat_ns,
            collective_group=state.collective.group,
            collective_seq=state.collective.sequence,
            collective_state=state.collective.state,
            checkpoint_step=state.checkpoint[1] if state.checkpoint is not None else None,
            skew_ns=min(state.skew[1:]) if state.skew is not None else 0,
            gap=any(queue.gap for queue in state.queues.values()),
        )

    def _presence(self, state: WorkerState, batch: model.Batch, out: list[model.AnyRecord]) -> None:
        if not batch.identity.node or (batch.received_ns < state.presence_ns + _PRESENCE_NS and not state.ended):
            return
        state.presence_ns = max(state.presence_ns, batch.received_ns)
        out.append(model.Presence(identity=batch.identity, received_ns=batch.received_ns, ended=state.ended))

    def _skew(self, state: WorkerState, received_ns: int, lag_ns: int) -> None:
        minute = received_ns // _MINUTE_NS
        if state.skew is None or minute > state.skew[0] + 1:
            state.skew = (minute, lag_ns, lag_ns)
        elif minute == state.skew[0] + 1:
            state.skew = (minute, lag_ns, state.skew[1])
        elif minute == state.skew[0]:
            state.skew = (minute, min(state.skew[1], lag_ns), state.skew[2])
