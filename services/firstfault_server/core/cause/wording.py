"""The words of an incident: its title, and the facts of a message that advice may rest on."""

import re
from typing import Final

from firstfault_server.core import model

TITLE_LENGTH: Final = 150
"""A Slack header holds no more."""
_SIZE: Final = r"(\d{1,6}(?:\.\d{1,3})? ?[KMGT]i?B)"
_REQUESTED: Final = re.compile(rf"Tried to allocate {_SIZE}")
_UNALLOCATED: Final = re.compile(rf"and {_SIZE} is reserved by PyTorch but unallocated")
_TOTAL: Final = re.compile(rf"(?:total capacity of {_SIZE}|{_SIZE} total capacity)")
_FREE: Final = re.compile(rf"(?:of which {_SIZE} is free|{_SIZE} free)")
_ALLOCATED: Final = re.compile(rf"(?:{_SIZE} is allocated by PyTorch|{_SIZE} already allocated)")
_OTHER: Final = re.compile(rf"Process (\d{{1,9}}) has {_SIZE} memory in use")
_UNITS: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def title_of(symptom: model.Symptom, fault: model.FirstFault, said: str = "") -> str:
    """One line: who, what, in whose words. Never longer than `TITLE_LENGTH`."""
    who = _who(fault)
    what = symptom.about.split(":")[0].split(",")[0].split(";")[0].strip()
    if symptom.id in ("python_error", "unknown", "process_crashed") and said:
        what = ""
    line = f"{who}: {what}" if what else who
    if said:
        line = f"{line} - {said}" if what else f"{line}: {said}"
    line = " ".join(line.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def _who(fault: model.FirstFault) -> str:
    place = f" ({fault.node})" if fault.node else ""
    if fault.rank is not None:
        return f"rank {fault.rank}{place}"
    if fault.scope == "all":
        return "all ranks"
    if fault.scope == "node":
        return f"node {fault.node}" if fault.node else "one node"
    if fault.candidates:
        shown = ", ".join(str(rank) for rank in fault.candidates[:4])
        return f"one of ranks {shown}{' …' if len(fault.candidates) > 4 else ''}{place}"
    return f"a process{place}" if fault.node else "a process"


def memory_facts(message: str) -> dict[str, str]:
    """What an out-of-memory message of torch's allocator says in numbers: requested, total, free, allocated, and who else holds some.

    `reserved_unallocated_high` only where more is reserved and unallocated than was asked for: then fragmentation is the matter.
    """
    facts: dict[str, str] = {}
    for name, expression in (("requested", _REQUESTED), ("total", _TOTAL), ("free", _FREE), ("allocated", _ALLOCATED)):
        if (found := expression.search(message)) is not None:
            facts[name] = next(group for group in found.groups() if group)
    spare = _UNALLOCATED.search(message)
    if spare is not None and "requested" in facts and _bytes(spare[1]) > _bytes(facts["requested"]):
        facts["reserved_unallocated_high"] = spare[1]
    others = [(pid, size) for pid, size in _OTHER.findall(message)]
    if others and "this process has" in message:
        facts["other_process"], facts["other_memory"] = max(others, key=lambda item: _bytes(item[1]))
    return facts


def _bytes(size: str) -> float:
    number = re.match(r"[\d.]+", size)
    unit = re.search(r"[KMGT]", size)
    return float(number[0]) * _UNITS[unit[0]] if number and unit else 0.0
