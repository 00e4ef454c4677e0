"""Every budget, bound and limit of detection: defaults that a deployment or a tenant may change."""

import difflib
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from firstfault_server.core.model import SECOND_NS

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Factor: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]


class Thresholds(msgspec.Struct, kw_only=True, frozen=True):
    """Typed settings of the core. Times are seconds; the defaults are those of the design (detectors.md, architecture.md section 5)."""

    # ---- time ----------------------------------------------------------------------------------------------------------
    lateness_s: Seconds = 30.0
    """How late a record may be and still count for alarms; a missing batch number is waited for this long."""
    clamp_s: Seconds = 300.0
    """A sender's time further than this ahead of receive time is replaced by it."""
    hole_grace_s: Seconds = 30.0
    """Added to a gap of more than 5 s in receive time, an outage of the service, when deadlines move by it."""
    skew_trust_s: Seconds = 3.0
    """Clocks of hosts are corrected only when they are off by more than delivery alone explains."""
    clock_margin_s: Seconds = 1.0
    """Events of two nodes closer than this have no order that may be trusted."""

    # ---- silence -------------------------------------------------------------------------------------------------------
    silence_s: Seconds = 15.0
    """No heartbeat for this long: the process is silent."""
    silence_plain_s: Seconds = 300.0
    """The same for processes that never sent a heartbeat (foreign senders)."""
    together_s: Seconds = 15.0
    """Nodes that fall silent within this of each other were lost from sight together."""
    telemetry_page_s: Seconds = 60.0
    """Several nodes out of sight page only after this."""

    # ---- hang ----------------------------------------------------------------------------------------------------------
    pause_factor: Factor = 5.0
    """Budget of the training phase: this times the learned p99 of the time between steps."""
    pause_floor_s: Seconds = 10.0
    """Lowest budget of the training phase, also the budget before a p99 is learned."""
    pause_warmup: Count = 30
    """Steps before a p99 counts as learned."""
    init_budget_s: Seconds = 600.0
    compile_budget_s: Seconds = 1800.0
    evaluation_budget_s: Seconds = 1800.0
    checkpoint_budget_s: Seconds = 1800.0
    hang_confirm_s: Seconds = 60.0
    """Least time without progress that confirms a hang by itself."""
    hang_confirm_factor: Factor = 3.0
    """Or this times the longest pause the run has survived, if that is more."""
    hang_confirm_blind_s: Seconds = 600.0
    """The same for a run that has shown no pause longer than its floor."""

    # ---- incidents -----------------------------------------------------------------------------------------------------
    settle_s: Seconds = 4.0
    """From first evidence to the verdict that pages."""
    settle_waiters_s: Seconds = 15.0
    """The same while only waiting or reacting ranks have spoken."""
    speak_first_s: Seconds = 2.0
    """The same error on several ranks: a lead longer than this names the first."""
    stop_window_s: Seconds = 60.0
    """What a process says within this of a request to stop is teardown."""
    death_join_s: Seconds = 30.0
    """A captured exception, or a kernel record without a known pid, this close to a death explains it."""
    restart_window_s: Seconds = 120.0
    """A replaced process whose peers live on this long has joined the running attempt."""
    retention_days: Factor = 14.0
    """How long the state of a run is kept after its last record."""

    # ---- numbers -------------------------------------------------------------------------------------------------------
    nonfinite_values: Count = 5
    """Logged loss values in a row that are NaN or infinite and open an incident."""
    nonfinite_hold_s: Seconds = 60.0
    """Only finite values for this long: recovered."""

    # ---- bounds --------------------------------------------------------------------------------------------------------
    held_values: Count = 20_000
    """Values a process may have waiting for a missing batch."""
    foreign_points: Count = 4096
    """Timestamps remembered per process of a sender without batch numbers."""
    series_per_process: Count = 2_000
    """Series (name and attributes) stored of one process in one run; points of further ones are dropped. The metrics of the conventions
    always count for detection and are always stored."""
    faults_per_process: Count = 16
    texts_per_attempt: Count = 16
    """Exceptions kept with their whole stack, the earliest first."""
    evidence_per_incident: Count = 40
    attempts_kept: Count = 3
    incidents_per_run: Count = 200
    status_s: Seconds = 1.0
    """A run's status is written at most this often, and half as often per thousand ranks more."""


def nanoseconds(seconds: float) -> int:
    """Seconds as integer nanoseconds."""
    return round(seconds * SECOND_NS)


def overridden(values: Mapping[str, float]) -> Thresholds:
    """The defaults with some values of one's own. Raises ValueError for a name or value that cannot be."""
    known = {field.name for field in msgspec.structs.fields(Thresholds)}
    unknown = sorted(set(values) - known)
    if unknown:
        near = {name: difflib.get_close_matches(name, sorted(known), n=1) for name in unknown}
        told = ", ".join(f"{name} (did you mean {near[name][0]}?)" if near[name] else name for name in unknown)
        raise ValueError(f"unknown {told}" + ("" if all(near.values()) else f"; known are {', '.join(sorted(known))}"))
    whole = {name: int(value) if float(value).is_integer() else value for name, value in values.items()}
    try:
        return msgspec.convert(whole, Thresholds)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
