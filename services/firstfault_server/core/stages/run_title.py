"""The line an incident is known by: who, where, what; it fits the narrowest destination (150 characters)."""

import re
from typing import Final

from firstfault_server.core.cause.observation import Verdict
from firstfault_server.core.stages.run_state import Episode, Member, RunState

LONGEST: Final = 150


def title_of(state: RunState, episode: Episode, verdict: Verdict, first: Member | None, suspected: bool) -> str:
    """`run llama attempt 2: rank 17 (h100-07): RuntimeError: …`"""
    name = state.name or state.run
    run = f"run {name[:40]}" + (f" attempt {episode.attempt}" if episode.attempt > 1 else "")
    title = f"{run}: {_who(verdict, first)} {_what(episode, verdict, suspected)}"
    return title if len(title) <= LONGEST else title[: LONGEST - 1] + "…"


def _who(verdict: Verdict, first: Member | None) -> str:
    if verdict.rank is not None:
        node = verdict.node or (first.node if first is not None else "")
        return f"rank {verdict.rank}" + (f" ({node})" if node else "")
    if first is not None:
        return f"process {first.pid or first.process}" + (f" ({first.node})" if first.node else "")
    if verdict.scope == "node" and verdict.node:
        return f"node {verdict.node}"
    if verdict.scope == "all":
        return "all ranks" if verdict.certain else "the run"
    return "ranks " + ", ".join(str(rank) for rank in verdict.candidates[:8]) if verdict.candidates else "the run"


def with_step(text: str, step: str) -> str:
    """How a process ended, with the step behind the fact and before what explains it: `exit status 1 at step 3: no data`."""
    explained = re.search(r", |: | \(|$", text)
    at = explained.start() if explained else len(text)
    return text[:at] + step + text[at:]


def _what(episode: Episode, verdict: Verdict, suspected: bool) -> str:
    step = f" at step {episode.fault_step}" if episode.fault_step is not None else ""
    if verdict.symptom == "hang":
        return ("may hang" if suspected else "hangs") + step
    if verdict.symptom == "node_failure":
        return "is gone"
    if verdict.symptom == "telemetry_lost":
        return "out of sight on several nodes"
    if verdict.fact is not None:
        return f"{verdict.symptom.replace('_', ' ')}: {verdict.fact.text}"
    if episode.kind == "numbers":
        return f"{verdict.symptom}{step}: {verdict.why}"
    if verdict.exception is not None and verdict.fault is not None and verdict.fault.kind == "exception":
        return f"failed{step}: {verdict.fault.text}"
    if verdict.fault is not None and verdict.fault.kind != "silence":
        return with_step(verdict.fault.text, step)
    return f"{verdict.symptom.replace('_', ' ')}{step}"
