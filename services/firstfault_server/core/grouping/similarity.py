"""How alike two failures are: their frames aligned, rare ones counting more, and their messages compared.

The weight of a frame is its inverse document frequency from a table frozen per fingerprint version (`idf.yaml`), halved every
few frames away from where the exception was raised: what raised it tells more than how the program was started.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from firstfault.stack import Frame
from firstfault_server.core.grouping.fingerprint import short_type
from firstfault_server.core.grouping.normalise import parameterised

INNERMOST: Final = 40
"""Frames that take part, counted from where the exception was raised."""
HALVING: Final = 8.0
"""Frames after which a frame's weight is half."""
FRAME_SHARE: Final = 0.6
"""Share of the frames in the whole; the message has the rest. Without frames on either side the message is all."""
OTHER_TYPE: Final = 0.55
"""Factor for failures of different exception types."""
HALF_SEEN: Final = 0.7
"""Factor where only one of two failures shows its stack."""
TRUNCATED: Final = 0.8
"""Most that a stack without the line that names its exception can be like another."""
SHORTEST_PART: Final = 3
_PART: Final = re.compile(r"[._:]")
_WORD: Final = re.compile(r"<\w{1,10}>|[A-Za-z_][\w.]{0,80}|[^\w\s]{1,3}")
_DUNDER: Final = re.compile(r"^_{2}|_{2}$")


class FrameTable(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Document frequencies of frames, frozen with a fingerprint version."""

    version: int
    documents: int
    """Stacks that were counted."""
    frames: dict[str, int]
    """`module:function` -> stacks that hold it; what is absent was in one or none."""
    words: dict[str, int] = {}
    """Words of messages -> messages that hold them."""

    def frame_weight(self, place: str) -> float:
        """Inverse document frequency of a frame."""
        return math.log((self.documents + 1) / (self.frames.get(place, 0) + 1))

    def word_weight(self, word: str) -> float:
        """Inverse document frequency of a message word."""
        return math.log((self.documents + 1) / (self.words.get(word, 0) + 1))


class Trace(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """A failure ready to be compared."""

    type: str
    places: tuple[str, ...]
    """Frames, where it was raised first."""
    weights: tuple[float, ...]
    words: Mapping[str, float]
    """Message words with their weights."""
    frame_total: float = 0.0
    word_total: float = 0.0
    by_place: Mapping[str, float] = {}
    """Weight of all frames of one place together."""


def trace_of(table: FrameTable, exception_type: str, message: str, frames: Sequence[Frame], advice_marks: tuple[str, ...] = ()) -> Trace:
    """The comparable form of an exception; frames outermost first."""
    places: list[str] = []
    for frame in reversed(frames):
        place = place_of(frame)
        if place not in places[-6:]:
            places.append(place)
        if len(places) >= INNERMOST:
            break
    weights = tuple(table.frame_weight(place) * 0.5 ** (i / HALVING) for i, place in enumerate(places))
    words = {word: table.word_weight(word) for word in _WORD.findall(parameterised(message, advice_marks).lower())}
    by_place: dict[str, float] = {}
    for place, weight in zip(places, weights, strict=True):
        by_place[place] = by_place.get(place, 0.0) + weight
    return Trace(
        type=short_type(exception_type),
        places=tuple(places),
        weights=weights,
        words=words,
        frame_total=sum(weights),
        word_total=sum(words.values()),
        by_place=by_place,
    )


def place_of(frame: Frame) -> str:
    """`module:function`; of one's own modules the last name only, of dunder functions the bare name (text loses underscores)."""
    module = frame.module.rpartition(".")[2] if frame.in_app else frame.module
    return f"{module}:{_DUNDER.sub('', frame.function)}"


def similarity(one: Trace, two: Trace, at_least: float = 0.0) -> float:
    """0 to 1; symmetric, and 1 for equal traces. Where it cannot reach `at_least`, 0 without the cost of an alignment."""
    if one == two:
        return 1.0
    if not one.type or not two.type:
        return TRUNCATED * frames_alike(one, two)
    factor = 1.0 if one.type == two.type else OTHER_TYPE
    if factor < at_least:
        return 0.0
    message = words_alike(one, two)
    if not one.places or not two.places:
        return factor * message * (1.0 if not one.places and not two.places else HALF_SEEN)
    if factor * (FRAME_SHARE * most_alike(one, two) + (1 - FRAME_SHARE) * message) < at_least:
        return 0.0
    return factor * (FRAME_SHARE * frames_alike(one, two) + (1 - FRAME_SHARE) * message)


def words_alike(one: Trace, two: Trace) -> float:
    """Weighted Jaccard index of the message words."""
    if not one.words or not two.words:
        return 1.0 if not one.words and not two.words else 0.0
    other = two.words
    shared = sum([weight for word, weight in one.words.items() if word in other])
    total = one.word_total + two.word_total - shared
    return shared / total if total > 0 else 0.0


def most_alike(one: Trace, two: Trace) -> float:
    """What `frames_alike` cannot exceed: the weight of all frames that both have, in whatever order."""
    total = one.frame_total + two.frame_total
    if total <= 0:
        return 1.0
    mine, other = one.by_place, two.by_place
    return sum([weight + other[place] for place, weight in mine.items() if place in other]) / total


def frames_alike(one: Trace, two: Trace) -> float:
    """Weight of the best order-keeping alignment, as a share of what could be aligned (Dice)."""
    if not one.places or not two.places:
        return 0.0
    total = one.frame_total + two.frame_total
    if total <= 0:
        return 1.0 if one.places == two.places else 0.0
    return alignment(one, two) / total if most_alike(one, two) else 0.0


def alignment(one: Trace, two: Trace) -> float:
    """Longest common subsequence where a matched frame counts its weight on both sides; frames only one side has are left out first."""
    mine = [(place, weight) for place, weight in zip(one.places, one.weights, strict=True) if place in two.by_place]
    others = [(place, weight) for place, weight in zip(two.places, two.weights, strict=True) if place in one.by_place]
    previous = [0.0] * (len(others) + 1)
    for place, weight in mine:
        current = [0.0]
        for j, (other, other_weight) in enumerate(others):
            best = current[j] if current[j] > previous[j + 1] else previous[j + 1]
            if place == other:
                matched = previous[j] + weight + other_weight
                best = matched if matched > best else best
            current.append(best)
        previous = current
    return previous[-1]


def parts_of(table: FrameTable, traces: Iterable[Trace]) -> dict[str, float]:
    """Names of packages, modules and functions in all stacks of a text, with its message words and types: what it is about at all.

    Two bugs of one component share many of them though no frame is equal.
    """
    parts: dict[str, float] = {}
    for trace in traces:
        for place in trace.places:
            parts.update((part, 1.0) for part in _PART.split(place) if len(part) >= SHORTEST_PART)
        rarest = table.word_weight("") or 1.0
        parts.update((f"w {word}", weight / rarest) for word, weight in trace.words.items() if len(word) >= SHORTEST_PART)
        parts[f"t {trace.type}"] = 0.5
    return parts


def cosine(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """Cosine of two bags."""
    if len(two) < len(one):
        one, two = two, one
    shared = sum(weight * two[name] for name, weight in one.items() if name in two)
    size = math.sqrt(sum(weight * weight for weight in one.values()) * sum(weight * weight for weight in two.values()))
    return shared / size if size > 0 else 0.0
