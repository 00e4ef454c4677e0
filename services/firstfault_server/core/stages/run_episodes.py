"""Episodes: every look at an attempt goes through the table of `core/incident.py`, and failures that are the same share a number."""

from typing import Final

from firstfault_server.core import model
from firstfault_server.core.cause.observation import Verdict
from firstfault_server.core.incident import OPEN, step
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.run_state import Episode, EpisodeKind, RunState
from firstfault_server.core.stages.run_verdicts import Judged, confirm_due, judge, judge_numbers, members_of, state_of
from firstfault_server.core.thresholds import Thresholds, nanoseconds

_NEVER: Final = 1 << 61


def update(state: RunState, now_ns: int, limits: Thresholds, taxonomy: model.Taxonomy) -> None:
    """Bring every episode up to date with the evidence and the clock."""
    for attempt in range(state.dropped_attempts + 1, state.attempt + 1):
        for symptom in sorted({one.symptom for one in state.numbers.values()}):
            _numbers(state, attempt, symptom, now_ns, limits, taxonomy)
        _failure(state, attempt, now_ns, limits, taxonomy)
    passed(state, now_ns)
    for episode in state.episodes:
        _show(state, episode, now_ns, limits)
    _bound(state, limits)


def next_due(state: RunState, limits: Thresholds) -> int:
    """When an episode changes by time alone."""
    due = _NEVER
    for episode in state.episodes:
        if episode.life == "provisional":
            due = min(due, _settle_due(episode, limits))
            if not episode.number:
                due = min(due, episode.evidence_ns + nanoseconds(limits.settle_s))
        elif episode.life == "suspected":
            due = min(due, confirm_due(state, episode.attempt, limits))
    return due


def latest(state: RunState, attempt: int, kind: EpisodeKind, symptom: str = "") -> Episode | None:
    """The newest episode of an attempt and kind."""
    for episode in reversed(state.episodes):
        if episode.attempt == attempt and episode.kind == kind and episode.symptom == symptom:
            return episode
    return None


def _failure(state: RunState, attempt: int, now_ns: int, limits: Thresholds, taxonomy: model.Taxonomy) -> None:
    episode = latest(state, attempt, "failure")
    if episode is not None and episode.life == "resolved" and episode.why.startswith("attempt"):
        return
    hung = episode is not None and episode.confirmed_ns > 0 and episode.life in OPEN
    judged = judge(state, attempt, now_ns, limits, hung)
    verdict = judged.verdict
    if verdict is None or judged.trigger == "":
        if episode is not None:
            _end(state, episode, now_ns)
        return
    if judged.trigger == "stop":
        if episode is not None and episode.life in OPEN:
            episode.life, episode.ended_ns, episode.why = step(episode.life, "stop"), now_ns, verdict.why
        return
    if latest(state, attempt, "numbers", verdict.symptom) is not None:
        # The job's own complaint about numbers that were reported already is the same failure.
        return
    if episode is None or (episode.life in ("resolved", "withdrawn") and episode.fingerprint.id != _fingerprint(verdict).id):
        episode = Episode(attempt=attempt, kind="failure")
        state.episodes.append(episode)
    _take(state, episode, judged, now_ns, limits, taxonomy)


def _numbers(state: RunState, attempt: int, symptom: str, now_ns: int, limits: Thresholds, taxonomy: model.Taxonomy) -> None:
    judged = judge_numbers(state, attempt, symptom, limits)
    if judged.verdict is None:
        return
    episode = latest(state, attempt, "numbers", symptom)
    if judged.trigger == "recovered":
        if episode is not None and episode.life in OPEN:
            episode.life, episode.ended_ns = step(episode.life, "recovered"), now_ns
            episode.why = f"finite again for {limits.nonfinite_hold_s:g} s"
        return
    if episode is not None and episode.life == "resolved" and episode.why.startswith("attempt"):
        return
    if episode is None:
        episode = Episode(attempt=attempt, kind="numbers", symptom=symptom)
        state.episodes.append(episode)
    _take(state, episode, judged, now_ns, limits, taxonomy)


def _take(state: RunState, episode: Episode, judged: Judged, now_ns: int, limits: Thresholds, taxonomy: model.Taxonomy) -> None:
    verdict = judged.verdict
    assert verdict is not None
    stall = judged.trigger == "stall"
    if episode.life not in OPEN:
        episode.page, episode.settled_ns, episode.ended_ns, episode.why = False, 0, 0, ""
    episode.life = step(episode.life, "stall" if stall else "evidence")
    episode.verdict = verdict
    episode.fingerprint = _fingerprint(verdict)
    episode.evidence_ns = judged.evidence_ns if not stall else episode.evidence_ns or judged.evidence_ns
    episode.confirmed_ns = judged.confirmed_ns
    episode.fault_step = _fault_step(state, episode, verdict)
    episode.onset_ns = _onset(episode, verdict)
    if episode.life != "provisional" or stall:
        return
    if now_ns >= _settle_due(episode, limits) or (judged.accounted and verdict.symptom != "telemetry_lost"):
        episode.life, episode.settled_ns = step(episode.life, "due"), now_ns
        row = taxonomy.get(verdict.symptom) or taxonomy.get("unknown")
        episode.page = row.page if row is not None else True


def _settle_due(episode: Episode, limits: Thresholds) -> int:
    verdict = episode.verdict
    if verdict is not None and verdict.symptom == "telemetry_lost":
        wait = limits.telemetry_page_s
    elif verdict is not None and not verdict.certain and not episode.confirmed_ns:
        wait = limits.settle_waiters_s
    else:
        wait = limits.settle_s
    return episode.evidence_ns + nanoseconds(wait)


def _end(state: RunState, episode: Episode, now_ns: int) -> None:
    """The evidence is gone: progress came back, or a silent process was heard of again."""
    if episode.life not in OPEN:
        return
    hang = episode.verdict is not None and episode.verdict.symptom == "hang"
    episode.life = step(episode.life, "recovered" if hang else "gone")
    episode.ended_ns = now_ns
    if hang:
        ended = all(member.ended for member in members_of(state, episode.attempt))
        episode.why = "the run ended without a failure" if ended else "progress came back"
    else:
        episode.why = "the processes were heard of again"


def passed(state: RunState, now_ns: int) -> bool:
    """A later attempt that gets beyond the failed step, or finishes, shows that the failure is over; True when one did."""
    if state.attempt < 2:
        return False
    changed = False
    for episode in state.episodes:
        if episode.life not in OPEN or episode.attempt >= state.attempt:
            continue
        later = [m for m in state.members.values() if m.attempt > episode.attempt and m.role not in ("auxiliary", "node_agent")]
        steps = [member.step for member in later if member.step is not None]
        beyond = bool(steps) and (episode.fault_step is None or max(steps) > episode.fault_step)
        finished = bool(later) and all(m.ended and state_of(m)[0] == "finished" for m in later if m.attempt == state.attempt)
        if beyond or finished:
            what = "finished" if not beyond else "made progress" if episode.fault_step is None else f"passed step {episode.fault_step}"
            episode.life, episode.ended_ns = step(episode.life, "passed"), now_ns
            episode.why = f"attempt {state.attempt} {what}"
            changed = True
    return changed


def _show(state: RunState, episode: Episode, now_ns: int, limits: Thresholds) -> None:
    """Give an episode its number: that of an earlier attempt's episode with the same fingerprint, else the next one.

    Reactions and bare exit statuses wait a moment for their cause, so that the number rests on what failed.
    """
    verdict = episode.verdict
    if verdict is None or episode.life in ("none", "withdrawn"):
        return
    twin = next(
        (
            other.number
            for other in state.episodes
            if other is not episode
            and other.number
            and other.life != "withdrawn"
            and other.attempt < episode.attempt
            and other.fingerprint.id == episode.fingerprint.id
        ),
        0,
    )
    taken = max([*state.issues, *(other.number for other in state.episodes)], default=0)
    if episode.number:
        shared = any(other.number == episode.number and other.attempt < episode.attempt for other in state.episodes)
        if episode.life in OPEN and twin:
            episode.number = twin
        elif episode.life in OPEN and shared and _differs(state, episode):
            episode.number = taken + 1
        return
    bare = verdict.fault is not None and verdict.fault.kind == "exit"
    hasty = episode.kind == "failure" and episode.life == "provisional" and (bare or not verdict.certain) and not episode.confirmed_ns
    if not hasty or now_ns >= episode.evidence_ns + nanoseconds(limits.settle_s):
        episode.number = twin or taken + 1


def _differs(state: RunState, episode: Episode) -> bool:
    return all(
        other.fingerprint.id != episode.fingerprint.id
        for other in state.episodes
        if other.number == episode.number and other.attempt < episode.attempt
    )


def _bound(state: RunState, limits: Thresholds) -> None:
    """Forget the oldest episodes that are over; what they left in their incident stays."""
    while len(state.episodes) > limits.incidents_per_run:
        over = next((at for at, one in enumerate(state.episodes) if one.life not in OPEN), 0)
        del state.episodes[over]


def _fingerprint(verdict: Verdict) -> model.Fingerprint:
    """Identity of a failure: its text, or what stands for it where there is none."""
    fault, fact = verdict.fault, verdict.fact
    if fact is not None:
        return model.Fingerprint(id=digest("node", fact.symptom, fact.kind, fact.code))
    if fault is not None and fault.fingerprint and verdict.symptom != "hang":
        return model.Fingerprint(id=fault.fingerprint, stack_hash=fault.stack_hash)
    detail = fault.text if fault is not None and fault.kind == "exit" else ""
    return model.Fingerprint(id=digest("symptom", verdict.symptom, detail))


def _fault_step(state: RunState, episode: Episode, verdict: Verdict) -> int | None:
    if episode.kind == "numbers":
        started = [
            one.step
            for one in state.numbers.values()
            if one.symptom == episode.symptom and one.step is not None and _in(state, one.process, episode.attempt)
        ]
        return min(started, default=None)
    if verdict.fault is not None and verdict.fault.step is not None:
        return verdict.fault.step
    member = state.members.get(verdict.process)
    if member is not None and member.step is not None:
        return member.step
    return max((m.step for m in members_of(state, episode.attempt) if m.step is not None), default=None)


def _in(state: RunState, process: str, attempt: int) -> bool:
    member = state.members.get(process)
    return member is not None and member.attempt == attempt


def _onset(episode: Episode, verdict: Verdict) -> int:
    if verdict.fact is not None:
        return verdict.fact.time_ns
    if verdict.fault is not None and verdict.symptom != "hang":
        return verdict.fault.time_ns
    return episode.evidence_ns
