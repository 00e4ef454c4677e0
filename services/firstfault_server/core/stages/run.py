"""The run stage: all processes of one run. Assigns attempts, judges what failed first, and owns the life of the run's incidents."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages import run_episodes, run_intake, run_status, run_watch
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.run_attempts import assign
from firstfault_server.core.stages.run_render import Renderer
from firstfault_server.core.stages.run_state import RunState
from firstfault_server.core.thresholds import Thresholds, nanoseconds

RunInput: TypeAlias = model.Summary | model.Event | model.Finding | model.NodeFault
_SEVERITY_ERROR: Final = 17
_DAY_NS: Final = 24 * 3600 * SECOND_NS


class Run:
    """Stage `run`."""

    name = "run"
    eager = False

    def __init__(
        self, thresholds: Thresholds, taxonomy: model.Taxonomy, advice: Sequence[AdviceRow] = (), codes: CodeTables | None = None
    ) -> None:
        self._limits = thresholds
        self._taxonomy = taxonomy
        self._renderer = Renderer(thresholds, taxonomy, advice, codes or CodeTables())
        codec = StateCodec(RunState)
        self.encode, self.decode = codec.encode, codec.decode

    def key(self, record: RunInput) -> str:
        """Tenant and run."""
        if isinstance(record, model.NodeFault):
            return f"{record.tenant}/{record.run}"
        return f"{record.identity.tenant}/{record.identity.run}"

    def new(self, key: str) -> RunState:
        """A run nobody has spoken of yet."""
        tenant, _, run = key.partition("/")
        return RunState(tenant=tenant, run=run)

    def urgent(self, record: RunInput) -> bool:
        """Errors do not wait for the next second."""
        if isinstance(record, model.Event):
            return record.severity >= _SEVERITY_ERROR or record.event_name == "train.exit"
        return isinstance(record, model.NodeFault | model.Finding)

    def on_batch(self, state: RunState, records: Sequence[RunInput], now_ns: int) -> list[model.AnyRecord]:
        """Take records, then look."""
        for record in records:
            if isinstance(record, model.Summary):
                member = run_intake.take_summary(state, record)
                state.watch_ns = min(state.watch_ns, run_watch.soonest(state, member, self._limits))
            elif isinstance(record, model.Event):
                run_intake.take_event(state, record, self._limits)
            elif isinstance(record, model.Finding):
                run_intake.take_finding(state, record)
            else:
                run_intake.take_fact(state, record)
        return self._look(state, max(now_ns, state.last_ns))

    def on_tick(self, state: RunState, now_ns: int) -> list[model.AnyRecord]:
        """Look again: somebody may have fallen silent or stalled, an incident may settle."""
        state.gone = now_ns >= state.last_ns + round(self._limits.retention_days * _DAY_NS)
        return self._look(state, now_ns)

    def on_hole(self, state: RunState, hole_ns: int, now_ns: int) -> None:
        """Receive time jumped: silences and stalls that span the hole are pardoned."""
        run_intake.on_hole(state, hole_ns, now_ns, self._limits)

    def deadline(self, state: RunState) -> int | None:
        """The next moment at which something changes by time alone; None after the retention."""
        if state.gone:
            return None
        dues = [state.last_ns + round(self._limits.retention_days * _DAY_NS), state.watch_ns]
        dues.append(run_episodes.next_due(state, self._limits))
        if (due := run_status.due(state, self._limits)) is not None:
            dues.append(due)
        if state.unassigned:
            window = nanoseconds(self._limits.restart_window_s)
            dues += [member.first_ns + window for member in state.members.values() if not member.attempt]
        return min(dues)

    def _look(self, state: RunState, now_ns: int) -> list[model.AnyRecord]:
        out: list[model.AnyRecord] = []
        if state.dirty or state.unassigned or now_ns >= state.watch_ns:
            run_watch.look(state, now_ns, self._limits)
            assign(state, now_ns, self._limits)
        if state.dirty or now_ns >= run_episodes.next_due(state, self._limits):
            run_episodes.update(state, now_ns, self._limits, self._taxonomy)
            out += self._renderer.incidents(state, now_ns)
            state.dirty = False
        elif run_episodes.passed(state, now_ns):
            out += self._renderer.incidents(state, now_ns)
        due = run_status.due(state, self._limits)
        if due is not None and now_ns >= due:
            status = run_status.status_of(state, now_ns, self._limits)
            state.moved, state.status_ns = False, now_ns
            if run_status.fresh(state, status):
                state.revision += 1
                status.revision = state.revision
                out.append(status)
        return out
