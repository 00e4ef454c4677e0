"""What one exception or one line of output says by itself: symptom, role, how sure, and its identity."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from firstfault.stack import Frame, frames_from_wire
from firstfault_server.core import model
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.patterns import Hit, Matcher, PatternTable, strongest
from firstfault_server.core.grouping.crash import Link
from firstfault_server.core.grouping.fingerprint import fingerprint, short_type
from firstfault_server.core.grouping.normalise import parameterised
from firstfault_server.core.grouping.parse import parse_text

_INNERMOST: Final = 12
"""Frames, innermost first, that patterns look at."""


class TextReading(msgspec.Struct, kw_only=True, frozen=True):
    """What a text says by itself. `symptom` is empty, and `weight` 0, when it says nothing."""

    symptom: str = ""
    role: model.Role = "unknown"
    weight: float = 0.0
    """Log-odds that the symptom is the right one, as far as this text goes."""
    pattern: str = ""
    fingerprint: model.Fingerprint = msgspec.field(default_factory=model.Fingerprint)
    facts: dict[str, str] = {}
    """What the pattern's named groups caught: pid, xid, rank …"""
    domains: dict[str, float] = {}
    """Log-odds the pattern adds to domains."""
    link: int = 0
    """Which exception of the chain said it: 0 the one raised last, 1 its cause or context, and so on."""


NOTHING: Final = TextReading()


class TextReader:
    """Reads text by the pattern tables. Holds only tables; safe to share."""

    def __init__(self, patterns: PatternTable, taxonomy: model.Taxonomy, codes: CodeTables | None = None) -> None:
        unknown = sorted({row.symptom for row in patterns.patterns} - set(taxonomy))
        if unknown:
            raise ValueError(f"patterns name symptoms that the taxonomy does not have: {', '.join(unknown)}")
        self._matcher = Matcher(patterns)
        self._codes = codes or CodeTables()
        self._advice_marks = patterns.advice_marks

    @property
    def matcher(self) -> Matcher:
        """The patterns, ready to match."""
        return self._matcher

    @property
    def advice_marks(self) -> tuple[str, ...]:
        """Beginnings of the advice that libraries print."""
        return self._advice_marks

    def exception(
        self,
        type: str,
        message: str = "",
        stacktrace: str = "",
        frames: Sequence[Mapping[str, Any] | Frame] = (),
        chain: Sequence[Mapping[str, Any] | Link] = (),
    ) -> TextReading:
        """Reading of an exception: `frames` outermost first, `chain` its causes nearest first (each with type, message, frames).

        The chain's most telling member gives the symptom; the exception itself gives the fingerprint.
        Where `frames` are absent the formatted `stacktrace` is parsed instead.
        """
        own = _frames(frames)
        links: list[tuple[str, str, list[Frame]]] = [(type, message, own)]
        links += [_chained(link) for link in chain]
        if stacktrace and not own:
            links = self._parsed(type, message, stacktrace, links)
        best, at = NOTHING, 0
        for index, (name, text, its) in enumerate(links):
            reading = self._link(name, text, its)
            # Among equals the root of the chain wins: it came first.
            if reading.symptom and (reading.weight >= best.weight or not best.symptom):
                best, at = reading, index
        identity = fingerprint(type, message, links[0][2], self._advice_marks)
        return msgspec.structs.replace(best, fingerprint=identity, link=at)

    def line(self, body: str) -> TextReading:
        """Reading of one line of output."""
        reading = self.glance(body)
        if not reading.pattern:
            return NOTHING
        return msgspec.structs.replace(reading, fingerprint=fingerprint("", body, (), self._advice_marks))

    def glance(self, body: str) -> TextReading:
        """Reading of one line without its identity, for logs of which few lines are kept."""
        hit = strongest(self._matcher.line(body))
        return self._reading(hit, model.Fingerprint()) if hit is not None else NOTHING

    def exit(self, status: int, facts: Mapping[str, str]) -> TextReading:
        """Reading of an exit status: negative, or 128 and more, is a signal."""
        signal = -status if status < 0 else status - 128 if status > 128 else 0
        code = self._codes.signal.get(signal)
        if code is None:
            return TextReading(symptom="unknown", role="cascade", pattern="exit", facts=dict(facts))
        role: model.Role = "teardown" if code.symptom == "preempted" else "initiating"
        return TextReading(symptom=code.symptom, role=role, weight=2.0, pattern="exit-signal", facts={**facts, "signal": code.name})

    def parameterised(self, message: str) -> str:
        """The message without what changes from one occurrence to the next, and without advice."""
        return parameterised(message, self._advice_marks)

    def _link(self, type_name: str, message: str, frames: Sequence[Frame]) -> TextReading:
        places = "\n".join(f"{frame.module}:{frame.function}" for frame in reversed(frames[-_INNERMOST:]))
        code = (frames[-1].source or "") if frames else ""
        hit = strongest(self._matcher.exception(short_type(type_name), f"{type_name}: {message}", places, code))
        return self._reading(hit, model.Fingerprint()) if hit is not None else NOTHING

    def _reading(self, hit: Hit, identity: model.Fingerprint) -> TextReading:
        pattern = hit.pattern
        symptom, role = pattern.symptom, pattern.role
        if pattern.lookup:
            code = self._codes.lookup(pattern.lookup, hit.facts.get(pattern.lookup, ""))
            if code is not None:
                symptom = code.symptom
                role = role if code.own_fault else "cascade"
        return TextReading(
            symptom=symptom,
            role=role,
            weight=hit.weight,
            pattern=pattern.id,
            fingerprint=identity,
            facts=hit.facts,
            domains=pattern.domains,
        )

    def _parsed(
        self, type_name: str, message: str, stacktrace: str, links: list[tuple[str, str, list[Frame]]]
    ) -> list[tuple[str, str, list[Frame]]]:
        parsed = parse_text(stacktrace)
        if not parsed:
            return links
        last = parsed[-1]
        return [(type_name or last.type, message or last.message, list(last.frames))] + (
            links[1:] or [(link.type, link.message, list(link.frames)) for link in last.chain]
        )


def _frames(rows: Any) -> list[Frame]:
    given = [row for row in rows if isinstance(row, Frame)]
    return given or frames_from_wire([dict(row) for row in rows if isinstance(row, Mapping)])


def _chained(link: Mapping[str, Any] | Link) -> tuple[str, str, list[Frame]]:
    if isinstance(link, Link):
        return link.type, link.message, link.frames
    return str(link.get("type") or ""), str(link.get("message") or ""), _frames(link.get("frames") or ())
