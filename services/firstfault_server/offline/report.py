"""Reports for a terminal: the message a person understands in ten seconds, and groups as a table.

Log text is written by whoever trains; control characters and markup in it are shown, never obeyed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from firstfault_server.core import model
from firstfault_server.core.documents import rfc3339

SHOWN_EVIDENCE: Final = 8
LONGEST_EVIDENCE: Final = 240
_COLOURS: Final = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
_ROLE_WORDS: Final = {
    "initiating": "failed first",
    "waiting": "waited",
    "cascade": "followed",
    "teardown": "was stopped",
    "unknown": "said",
}


def print_report(incidents: Sequence[model.Incident], console: Console | None = None) -> None:
    """Headline, what happened, evidence with source lines, what was not seen, what to do; the incident to act on first in front."""
    out = console or Console(highlight=False)
    if not incidents:
        out.print(Text("No failure found in these logs."))
        return
    for number, incident in enumerate(incidents):
        if number:
            out.print()
        _incident(out, incident, number)


def _incident(out: Console, incident: model.Incident, number: int) -> None:
    colour = _COLOURS.get(incident.severity, "")
    head = Text()
    head.append(f"[{incident.severity.upper()}][{incident.cause.domain}] ", style=colour)
    head.append(printable(incident.title), style="bold")
    out.print(head, soft_wrap=True)
    first = incident.first_fault
    facts = [f"symptom {incident.symptom}", f"cause {incident.cause.domain} {incident.cause.confidence:.0%}"]
    if first.time:
        facts.append(f"at {rfc3339(first.time)}")
    if incident.recurrences:
        facts.append(f"in {len(incident.attempts)} attempts")
    if incident.state == "resolved":
        facts.append(incident.resolved_why)
    elif number:
        facts.append(f"attempt {incident.run.attempt}")
    _row(out, "what", ", ".join(facts))
    if first.rank is None and (first.candidates or first.scope != "rank"):
        _row(out, "who", _candidates(first))
    if incident.ranks:
        _row(out, "ranks", _roles(incident.ranks))
        why = next((rank.why for rank in incident.ranks if rank.role == "initiating" and rank.why), "")
        if why and why not in incident.evidence[0].text:
            _row(out, "because", _short(why))
    for place, item in enumerate(incident.evidence[:SHOWN_EVIDENCE]):
        rank = f" rank {item.rank}" if item.rank is not None else ""
        _row(out, "evidence" if not place else "", f"{item.source}{rank} {_ROLE_WORDS[item.role]}: {_short(item.text)}")
    if len(incident.evidence) > SHOWN_EVIDENCE:
        _row(out, "", f"and {len(incident.evidence) - SHOWN_EVIDENCE} more")
    if incident.not_seen:
        _row(out, "not seen", "; ".join(incident.not_seen))
    for place, advice in enumerate(incident.advice):
        _row(out, "do" if not place else "", advice.text)


def _row(out: Console, name: str, text: str) -> None:
    line = Text(f"  {name:<9}", style="dim")
    line.append(printable(text), style="not dim")
    out.print(line, soft_wrap=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_EVIDENCE else text[: LONGEST_EVIDENCE - 1] + "…"


def _candidates(first: model.FirstFault) -> str:
    scope = {"all": "all ranks alike", "group": "several ranks", "node": f"node {first.node}", "rank": "one rank"}[first.scope]
    shown = ", ".join(str(rank) for rank in first.candidates[:16])
    more = f" and {len(first.candidates) - 16} more" if len(first.candidates) > 16 else ""
    return f"{scope}: {shown}{more}; no single rank can be named" if shown else f"{scope}; no single rank can be named"


def _roles(ranks: Sequence[model.RankRole]) -> str:
    by_role: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.rank is not None:
            by_role.setdefault(rank.role, []).append(rank.rank)
    return " · ".join(
        f"{spans(found)} {_ROLE_WORDS[role] if role != 'unknown' else 'said nothing of use'}" for role, found in by_role.items()
    )


def spans(numbers: Sequence[int]) -> str:
    """Ranks as people write them.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    ordered = sorted(set(numbers))
    found: list[tuple[int, int]] = []
    for number in ordered:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ", ".join(f"{low}-{high}" if high > low else str(low) for low, high in found)


def printable(text: str) -> str:
    """The text with control characters, also the bidirectional ones, as escapes."""
    return "".join(char if char.isprintable() or char == " " else char.encode("unicode_escape").decode() for char in text)


def print_groups(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Groups, the largest first, and the pairs asked for."""
    out = console or Console(highlight=False)
    for group in document["groups"]:
        head = Text(f"{group['id']}  {len(group['members'])} ", style="bold")
        head.append(printable("; ".join(group["why"])), style="dim")
        out.print(head, soft_wrap=True)
        for member in group["members"]:
            out.print(Text(f"  {printable(str(member))}"), soft_wrap=True)
    for pair in document.get("pairs", ()):
        out.print(Text(printable(f"{pair['similarity']:.3f}  {pair['a']}  {pair['b']}")), soft_wrap=True)
