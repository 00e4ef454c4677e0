"""An incident as people read it in ten seconds: what, where, why, evidence, history, what to do."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firstfault_server.cli.terminal import clean

_STYLES = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
_TAIL_LINES = 8
_RANK = re.compile(r"\[[^\]]*\]:?")
"""What launchers put in front of each line."""
_SYNTAX = re.compile(r"\s*(?:Syntax|Indentation|Tab)Error\b")
_EVIDENCE = 12


def print_incident(document: Mapping[str, Any]) -> None:
    """The incident on stdout."""
    import sys

    from rich.console import Console
    from rich.text import Text

    from firstfault_server.cli.terminal import no_color

    console = Console(
        file=sys.stdout, highlight=False, markup=False, no_color=no_color(), soft_wrap=True, width=None if sys.stdout.isatty() else 200
    )
    style = _STYLES.get(str(document["severity"]), "")
    console.print(Text(headline(document), style=style))
    for name, value in lines(document):
        line = Text(f"  {name:<12}", style="bold" if name else "")
        line.append(clean(value), style="default" if name else "")
        console.print(line)


def headline(document: Mapping[str, Any]) -> str:
    """`[CRITICAL][workload] title`."""
    return clean(f"[{str(document['severity']).upper()}][{document['cause']['domain']}] {document['title'] or document['symptom']}")


def where(fault: Mapping[str, Any]) -> str:
    """The first fault's place in words."""
    parts: list[str] = []
    if fault["rank"] is not None:
        parts.append(f"rank {fault['rank']}")
    elif fault["scope"] == "all":
        parts.append("all ranks")
    elif fault["candidates"]:
        parts.append(f"one of ranks {_some(fault['candidates'])}")
    else:
        parts.append(f"scope {fault['scope']}, rank not known")
    if fault["node"]:
        parts.append(f"node {fault['node']}")
    for name, word in (("gpu_uuid", "GPU"), ("pid", "pid"), ("phase", "phase"), ("step", "step")):
        if fault[name] is not None and fault[name] != "":
            parts.append(f"{word} {fault[name]}")
    return ", ".join(parts) + f" ({fault['status']})"


def lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and text of every line after the headline; an empty label continues the one before."""
    run, fault, cause = document["run"], document["first_fault"], document["cause"]
    yield "incident", f"{document['id']}  {document['state']}, opened {document['opened_at']}"
    yield "run", f"{run['id']} attempt {run['attempt']}" + (f" ({run['name']})" if run["name"] else "")
    yield "first fault", where(fault)
    if fault["exception"]:
        yield "exception", f"{fault['exception']['type']}: {fault['exception']['message']}"
    likely = sorted(((share, name) for name, share in cause["domains"].items() if share >= 0.005), reverse=True)
    yield "cause", f"{document['symptom']}; " + ", ".join(f"{name} {share:.0%}" for share, name in likely)
    roles: dict[str, list[int]] = {}
    for rank in document["ranks"]:
        if rank["rank"] is not None:
            roles.setdefault(rank["role"], []).append(rank["rank"])
    if roles:
        yield "ranks", "; ".join(f"{role} {_some(ranks)}" for role, ranks in roles.items())
    yield from _listed("impact", [text for text in [_impact(document["impact"])] if text])
    yield from _listed("evidence", [_evidence(item) for item in document["evidence"][:_EVIDENCE]])
    if len(document["evidence"]) > _EVIDENCE:
        yield "", f"… and {len(document['evidence']) - _EVIDENCE} more"
    yield from _listed("not seen", document["not_seen"])
    yield from _listed("stderr", _without_markers(fault["stderr_tail"])[-_TAIL_LINES:])
    history = document["history"]
    if history["count_7d"] > 1 or document["recurrences"]:
        yield (
            "history",
            f"{history['count_7d']} in 7 days, {history['count_24h']} in 24 h; recurred {document['recurrences']} times in this run",
        )
    yield from _listed("do", [f"{advice['text']} (because {advice['because']})" for advice in document["advice"]])
    triage = document["triage"]
    people = [f"acknowledged by {triage['ack_by']}"] if triage["ack_by"] else []
    people += [f"assigned to {triage['assignee']}"] if triage["assignee"] else []
    people += [f"muted until {triage['muted_until']}"] if triage["muted_until"] else []
    yield from _listed("silenced", [f"until {one['ends_at']} by {one['author']}: {one['comment']}" for one in document["silences"]])
    if people:
        yield "people", ", ".join(people)
    yield from _listed("notes", [f"{note['author']}: {note['text']}" for note in triage["notes"]])
    if document["url"]:
        yield "link", document["url"]


def _without_markers(tail: Sequence[str]) -> list[str]:
    """The lines but for Python's underlining, which takes the place of lines that say more; of a syntax error it is what says where."""
    bare = [_RANK.sub("", line, count=1) if line.startswith("[") else line for line in tail]
    syntax = [*map(_SYNTAX.match, bare[1:]), None]
    return [line for place, line in enumerate(tail) if syntax[place] or not _is_marker(bare[place])]


def _is_marker(line: str) -> bool:
    return "^" in line and not line.strip(" \t~^")


def _listed(label: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, text in enumerate(texts):
        yield ("" if place else label), text


def _evidence(item: Mapping[str, Any]) -> str:
    origin = " ".join(str(part) for part in (f"rank {item['rank']}" if item["rank"] is not None else "", item["source"]) if part)
    time = f"{item['time'][11:23]} " if item["time"] else ""
    return f"{time}{origin + ': ' if origin else ''}{item['text']}"


def _impact(impact: Mapping[str, Any]) -> str:
    named = (("gpus", "GPUs"), ("idle_s", "s idle"), ("gpu_hours_lost", "GPU hours lost"), ("steps_lost", "steps lost"))
    parts = [f"{impact[key]} {word}" for key, word in named if impact[key] is not None]
    if impact["last_checkpoint_step"] is not None:
        parts.append(f"last checkpoint at step {impact['last_checkpoint_step']}")
    return ", ".join(parts)


def _some(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:16])
    return shown + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
