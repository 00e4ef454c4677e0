"""What stands for the failure to act on in one text, for uses that need no incident: grouping, and fitting weights."""

from firstfault_server.core.cause.log_case import Case, Tabled, episodes_of
from firstfault_server.core.cause.log_summary import LogSummary, Seen
from firstfault_server.core.grouping.groups import Told


def leading_seen(log: LogSummary, tables: Tabled) -> Seen | None:
    """What stands for the failure to act on in one text; None when it holds none."""
    found = _leading(log, tables)
    return found[1] if found is not None else None


def _leading(log: LogSummary, tables: Tabled) -> tuple[str, Seen] | None:
    for episode in episodes_of([log]):
        case = Case([log], episode, tables)
        if case.telling:
            verdict, lead = case.judged()
            if lead is not None:
                return verdict.symptom, lead[1]
    return None


def leading_exception(log: LogSummary, tables: Tabled) -> tuple[str, Told, list[Told]]:
    """Symptom and exception of the failure to act on in one text, and its other exceptions; the symptom is empty when it holds none."""
    found = _leading(log, tables)
    if found is None:
        return "", Told(type=""), []
    symptom, first = found
    told = Told(type=first.reading.pattern, message=first.text, frames=first.native[::-1])
    others: list[Told] = []
    for seen in log.seen:
        if seen.crash is None:
            continue
        links = [Told(type=seen.crash.type, message=seen.crash.message, frames=seen.crash.frames)]
        links += [Told(type=link.type, message=link.message, frames=link.frames) for link in seen.crash.chain]
        if seen is first:
            at = seen.reading.link if seen.reading.link < len(links) else 0
            told = links.pop(at)
            if not told.frames and at:
                told.frames = seen.crash.frames
        others += links
    return symptom, told, others
