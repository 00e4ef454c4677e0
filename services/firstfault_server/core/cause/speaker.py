"""Which rank a line or an exception is of, where no prefix says so: what its own words name."""

import re
from collections.abc import Mapping
from typing import Final

_BODY_RANK: Final = re.compile(r"\[(?:PG [^\]\n]{0,120} )?[Rr]ank[ =:]{1,2}(?P<rank>\d{1,6})\]|\bon rank (?P<on>\d{1,6})\b")
_NAMES_RANK: Final = ("rank", "local", "local_rank", "child", "task")
"""Facts by which a line says whose it is; a local rank is the rank on one node, and a guess on more."""
_SPAWNED: Final = re.compile(
    r"-- Process (\d{1,6}) terminated with the following error|\bprocess (\d{1,6}) terminated with (?:signal|exit code)"
)
"""`torch.multiprocessing.spawn` numbers its children, which are the ranks of one node."""


def speaker(prefixed: int | None, facts: Mapping[str, str], text: str, *, exception: bool) -> int | None:
    """The rank, given that of the prefix and the facts of the reading; what the reading names outranks the prefix."""
    said = next((value for name in _NAMES_RANK if (value := facts.get(name))), "")
    if said.isdecimal():
        return int(said)
    if prefixed is not None:
        return prefixed
    found = _SPAWNED.search(text[:400]) if exception else _BODY_RANK.search(text[:2000])
    return int(found[1] or found[2]) if found is not None else None
