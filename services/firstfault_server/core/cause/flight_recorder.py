"""Reads Flight Recorder dumps of torch (already decoded to plain data): in which collective each rank stands.

A dump holds the last collectives of one rank. Sequence numbers compare only inside one process group.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

MOST_ENTRIES: Final = 200_000
_COMPLETED: Final = "completed"
_NUMBER: Final = re.compile(r"\d{1,6}")


class Standing(msgspec.Struct, kw_only=True, frozen=True):
    """Where a rank stands in one process group."""

    group: str
    sequence: int
    entered: bool
    """It entered this collective and has not completed it."""
    operation: str = ""
    place: str = ""
    """`file:line in function` of the caller, innermost frame that is not torch's own."""


class FlightDump(msgspec.Struct, kw_only=True, frozen=True):
    """One rank's dump."""

    source: str
    rank: int | None
    standings: tuple[Standing, ...]
    ranks: tuple[int, ...] = ()
    """Ranks that the process groups of the dump have."""


def is_dump(data: Any) -> bool:
    """Whether decoded data looks like a dump."""
    return isinstance(data, Mapping) and isinstance(data.get("entries"), Sequence) and ("pg_config" in data or "pg_status" in data)


def dump_of(data: Mapping[str, Any], source: str, rank: int | None) -> FlightDump:
    """Where a rank stands, by process group; entries that are not understood are left out."""
    standings: dict[str, Standing] = {}
    for entry in list(data["entries"])[-MOST_ENTRIES:]:
        standing = _standing(entry)
        if standing is None:
            continue
        known = standings.get(standing.group)
        # The oldest collective that is not completed is where the rank stands; later ones queue behind it.
        if known is None or (not known.entered and standing.sequence >= known.sequence):
            standings[standing.group] = standing
    own = data.get("rank")
    return FlightDump(
        source=source,
        rank=own if isinstance(own, int) and not isinstance(own, bool) else rank,
        standings=tuple(standings[group] for group in sorted(standings)),
        ranks=tuple(_ranks(data.get("pg_config"))),
    )


def _standing(entry: Any) -> Standing | None:
    if not isinstance(entry, Mapping) or entry.get("is_p2p") is True:
        return None
    sequence = entry.get("collective_seq_id", entry.get("seq_id"))
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        return None
    group = entry.get("process_group", entry.get("pg_id"))
    name = ":".join(str(part)[:60] for part in group[:2]) if isinstance(group, list | tuple) else str(group)[:60]
    return Standing(
        group=name,
        sequence=sequence,
        entered=entry.get("state") != _COMPLETED,
        operation=str(entry.get("profiling_name") or "")[:80],
        place=_place(entry.get("frames")),
    )


def _place(frames: Any) -> str:
    for frame in frames if isinstance(frames, Sequence) and not isinstance(frames, str) else ():
        if isinstance(frame, Mapping) and "torch/" not in str(frame.get("filename")):
            return f"{str(frame.get('filename'))[:200]}:{frame.get('line')} in {str(frame.get('name'))[:100]}"
    return ""


def _ranks(config: Any) -> list[int]:
    found: set[int] = set()
    for group in config.values() if isinstance(config, Mapping) else ():
        ranks = group.get("ranks") if isinstance(group, Mapping) else None
        text = ranks if isinstance(ranks, str) else str(list(ranks)) if isinstance(ranks, list | tuple) else ""
        found.update(int(number) for number in _NUMBER.findall(text)[:100_000])
    return sorted(found)


def stuck_group(dumps: Sequence[FlightDump]) -> str:
    """The process group in which ranks wait: most entered and not completed, best with some rank that has not come as far."""
    waiting: dict[str, list[int]] = {}
    for dump in dumps:
        for standing in dump.standings:
            if standing.entered:
                waiting.setdefault(standing.group, []).append(standing.sequence)
    if not waiting:
        return ""

    def behind(group: str) -> bool:
        newest = max(waiting[group])
        return any(standing.group == group and standing.sequence < newest for dump in dumps for standing in dump.standings)

    return max(sorted(waiting), key=lambda group: (behind(group), len(waiting[group])))
