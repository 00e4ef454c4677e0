"""Groups of failures: one bug is one group, two bugs are two. A join is decided once, with its reason, and never undone.

An exact join needs an equal stack hash (in-app frames or the whole stack) and the same symptom; otherwise the most alike
representative of the same symptom must reach `JOIN`. Cost per failure is bounded: candidates come from an index of the rarest frames
and words, whatever the number of groups.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firstfault.stack import Frame
from firstfault_server.core.grouping.fingerprint import joining_hashes, message_hash
from firstfault_server.core.grouping.similarity import FrameTable, Trace, cosine, parts_of, similarity, trace_of

JOIN: Final = 0.58
"""Least similarity that joins; chosen on labelled pairs by thread (docs/text.md)."""
MOST_REPRESENTATIVES: Final = 4
"""Differing members that stand for a group."""
KEYS: Final = 6
"""Rarest frames and words by which a failure is found again."""
MOST_CANDIDATES: Final = 24
"""Representatives compared at most."""
MOST_KEYS: Final = 256
"""Exact hashes kept of one group."""
LONGEST_LIST: Final = 64
"""Groups kept under one key; a key that more groups share tells nothing."""


MOST_OTHERS: Final = 6


class Told(msgspec.Struct, kw_only=True):
    """One exception (or telling line, with its pattern as type) of a text."""

    type: str
    message: str = ""
    frames: Sequence[Frame] = ()


class Failure(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """A failure as grouping sees it."""

    symptom: str
    hashes: tuple[str, ...]
    """Stack hashes of which an equal one joins; empty without frames."""
    message: str
    """Hash of type and parameterised message."""
    trace: Trace
    others: tuple[Trace, ...] = ()
    """Further exceptions of the same text, at most `MOST_OTHERS`."""
    parts: Mapping[str, float] = {}


class Join(msgspec.Struct, kw_only=True, frozen=True):
    """Where a failure went and why."""

    group: str
    why: str
    similarity: float = 1.0
    new: bool = False
    key: str = ""
    """The hash that was equal; empty for a join by likeness."""


class Group(msgspec.Struct, kw_only=True):
    """What is kept of a group: enough to recognise further members."""

    id: str
    symptom: str = ""
    keys: list[str] = []
    """Stack hashes, or for failures without frames message hashes, that join exactly."""
    representatives: list[Failure] = []


def failure_of(table: FrameTable, symptom: str, told: Told, others: Sequence[Told] = (), advice_marks: tuple[str, ...] = ()) -> Failure:
    """A failure from the exception that stands for it and the others of its text."""
    trace = trace_of(table, told.type, told.message, told.frames, advice_marks)
    rest = tuple(trace_of(table, other.type, other.message, other.frames, advice_marks) for other in others[:MOST_OTHERS])
    return Failure(
        symptom=symptom,
        hashes=joining_hashes(told.type, told.frames),
        message=message_hash(told.type, told.message, advice_marks),
        trace=trace,
        others=rest,
        parts=parts_of(table, (trace, *rest)),
    )


def alike(one: Failure, two: Failure) -> float:
    """Likelihood order, 0 to 1, that two texts are about the same bug: their most alike exceptions, and what they are about at all."""
    best = max(similarity(a, b) for a in (one.trace, *one.others) for b in (two.trace, *two.others))
    return (best + cosine(one.parts, two.parts)) / 2


class Groups:
    """Groups known so far. Not safe for use by several threads at once."""

    def __init__(self, kept: Sequence[Group] = ()) -> None:
        self._groups: dict[str, Group] = {}
        self._exact: dict[tuple[str, str], str] = {}
        self._found_by: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for group in kept:
            self._groups[group.id] = group
            self._exact.update(((group.symptom, key), group.id) for key in group.keys)
            for number, representative in enumerate(group.representatives):
                self._index(group.id, number, representative)

    def kept(self) -> list[Group]:
        """Everything known, to be stored and given to the next instance."""
        return list(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, failure: Failure, name: str = "") -> Join:
        """Put a failure into the group it belongs to, or into a new one, which gets the name where that is free."""
        found = self.find(failure)
        if found is None:
            made = name if name and name not in self._groups else self._id(failure)
            self._groups[made] = Group(id=made, symptom=failure.symptom)
            found = Join(group=made, why="first of its kind", new=True)
        if failure.hashes or not found.key:
            self._remember(found.group, failure, exact=bool(found.key))
        return found

    def forget(self, group: str) -> None:
        """Let a group go; what would have joined it begins a new one."""
        gone = self._groups.pop(group, None)
        if gone is None:
            return
        for key in gone.keys:
            if self._exact.get((gone.symptom, key)) == group:
                del self._exact[gone.symptom, key]
        for representative in gone.representatives:
            for key in _keys(representative):
                listed = self._found_by.get((representative.symptom, key), [])
                listed[:] = [place for place in listed if place[0] != group]
                if not listed:
                    self._found_by.pop((representative.symptom, key), None)

    def find(self, failure: Failure) -> Join | None:
        """Where a failure belongs among the groups known so far, without putting it there; None when to none of them."""
        for number, stack in enumerate(failure.hashes):
            known = self._exact.get((failure.symptom, stack))
            if known is not None:
                why = "same in-app frames" if number == 0 and len(failure.hashes) > 1 else "same stack"
                return Join(group=known, why=why, key=stack)
        if not failure.hashes:
            known = self._exact.get((failure.symptom, failure.message))
            if known is not None:
                return Join(group=known, why="same message", key=failure.message)
        best, score = "", 0.0
        for group, representative in self._candidates(failure):
            value = similarity(failure.trace, representative.trace, at_least=max(JOIN, score))
            if value > score or (value == score and group < best):
                best, score = group, value
        if best and score >= JOIN:
            return Join(group=best, why=f"alike: similarity {score:.2f}", similarity=score)
        return None

    def _id(self, failure: Failure) -> str:
        told = "\n".join((failure.symptom, *failure.hashes, failure.message))
        made = hashlib.sha256(told.encode()).hexdigest()[:16]
        return made if made not in self._groups else hashlib.sha256(f"{told}\n{len(self._groups)}".encode()).hexdigest()[:16]

    def _remember(self, group: str, failure: Failure, exact: bool) -> None:
        known = self._groups[group]
        for value in failure.hashes or (failure.message,):
            if self._exact.setdefault((failure.symptom, value), group) == group and value not in known.keys and len(known.keys) < MOST_KEYS:
                known.keys.append(value)
        if exact or len(known.representatives) >= MOST_REPRESENTATIVES:
            return
        known.representatives.append(failure)
        self._index(group, len(known.representatives) - 1, failure)

    def _index(self, group: str, number: int, failure: Failure) -> None:
        for key in _keys(failure):
            listed = self._found_by.setdefault((failure.symptom, key), [])
            if len(listed) < LONGEST_LIST:
                listed.append((group, number))

    def _candidates(self, failure: Failure) -> list[tuple[str, Failure]]:
        """Representatives that share rare frames or words, those that share most first."""
        shared: dict[tuple[str, int], int] = {}
        for key in _keys(failure):
            for place in self._found_by.get((failure.symptom, key), ()):
                shared[place] = shared.get(place, 0) + 1
        chosen = sorted(shared, key=lambda place: (-shared[place], place))[:MOST_CANDIDATES]
        return [(group, self._groups[group].representatives[number]) for group, number in chosen]


def _keys(failure: Failure) -> list[str]:
    trace = failure.trace
    frames = sorted(zip(trace.weights, trace.places, strict=True), key=lambda item: (-item[0], item[1]))[:KEYS]
    words = sorted(((weight, word) for word, weight in trace.words.items()), key=lambda item: (-item[0], item[1]))[:KEYS]
    return [*(f"f {place}" for _, place in frames), *(f"w {word}" for _, word in words), f"m {failure.message}"]
