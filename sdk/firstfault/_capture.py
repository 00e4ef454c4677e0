"""Reads a live exception into plain data: frames, causes, types of locals. Keeps no reference to any object it saw.

Cheap and bounded whatever the stack's depth. Of values it tells type, shape and dtype; it never calls code of the
user's classes except `str()` of the exception itself, as Python does when it prints it.
"""

import linecache
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, TracebackType
from typing import Any

from firstfault import stack

HEAD, TAIL = 20, 80
"""Frames kept of a stack: outermost and innermost."""
MESSAGE_LIMIT = 8192
STACKTRACE_LIMIT = 65536
_EXAMINED = 2000
_UNIQUE_CODES = 400
_CHAIN_LIMIT = 10
_GROUP_LIMIT = 8
_LOCALS_FRAMES = 5
_LOCALS_PER_FRAME = 24

_qualified_name: Callable[[type], Any] = type.__dict__["__qualname__"].__get__
_module_name: Callable[[type], Any] = type.__dict__["__module__"].__get__


@dataclass(frozen=True)
class Captured:
    """One exception, or one link of its chain."""

    type: str
    message: str
    frames: list[stack.Frame]
    left_out: int = 0
    """Frames between the head and the tail that were not kept."""
    hash: str = ""
    relation: str = ""
    """cause | context | group for a link of a chain; empty for the exception itself."""
    notes: tuple[str, ...] = ()
    chain: list["Captured"] = field(default_factory=list)


def type_name(kind: type) -> str:
    """Qualified name as Python prints it: builtins and the main module's classes without module."""
    name, module = _qualified_name(kind), _module_name(kind)
    if type(module) is not str or module in ("builtins", "__main__"):
        return str(name)
    return f"{module}.{name}"


def capture(error: BaseException, with_locals: bool = True) -> Captured:
    """Everything about an exception that may leave the process, but for secrets in its texts."""
    seen: set[int] = set()
    captured = _one(error, "", with_locals)
    seen.add(id(error))
    return replace(captured, chain=list(_links(error, seen)))


def _links(error: BaseException, seen: set[int]) -> Iterator[Captured]:
    """Causes and members, nearest first; each exception once."""
    waiting: deque[tuple[str, BaseException]] = deque(_next(error))
    while waiting and len(seen) <= _CHAIN_LIMIT:
        relation, link = waiting.popleft()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield _one(link, relation, with_locals=False)
        waiting.extend(_next(link))


def _next(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    members = getattr(error, "exceptions", None) if _is_group(error) else None
    for member in members[:_GROUP_LIMIT] if type(members) is tuple else ():
        yield "group", member
    if error.__cause__ is not None:
        yield "cause", error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield "context", error.__context__


def _is_group(error: BaseException) -> bool:
    return any(base.__name__ == "BaseExceptionGroup" for base in type(error).__mro__)


def _one(error: BaseException, relation: str, with_locals: bool) -> Captured:
    kind = type_name(type(error))
    frames, left_out, unique = _frames(error.__traceback__, with_locals)
    notes = getattr(error, "__notes__", ())
    return Captured(
        type=kind,
        message=message_of(error),
        frames=frames,
        left_out=left_out,
        hash=stack.stack_hash(kind, unique),
        relation=relation,
        notes=tuple(stack.clipped(note, 1000) for note in list(notes)[:10] if type(note) is str) if type(notes) is list else (),
    )


def message_of(error: BaseException) -> str:
    """`str(error)`, or a note that it raises; at most 8 kB."""
    try:
        text = str(error)
    except Exception as inner:
        text = f"<str() of this exception raised {type_name(type(inner))}>"
    return stack.clipped(stack.well_formed(text), MESSAGE_LIMIT)


def _frames(trace: TracebackType | None, with_locals: bool) -> tuple[list[stack.Frame], int, list[stack.Frame]]:
    """Kept frames, how many were left out, and one frame for each function that occurs at all."""
    count = 0
    link = trace
    while link is not None:
        count += 1
        link = link.tb_next
    head: list[tuple[FrameType, int]] = []
    tail: deque[tuple[FrameType, int]] = deque(maxlen=TAIL)
    codes: dict[CodeType, FrameType] = {}
    place = 0
    while trace is not None:
        # Of a very deep stack only the ends are looked at: making 100,000 frame objects readable takes longer than all the rest.
        if place < _EXAMINED or place >= count - _EXAMINED:
            frame = trace.tb_frame
            if place < HEAD:
                head.append((frame, trace.tb_lineno))
            else:
                tail.append((frame, trace.tb_lineno))
            if len(codes) < _UNIQUE_CODES:
                codes.setdefault(frame.f_code, frame)
        place += 1
        trace = trace.tb_next
    kept = [*head, *tail]
    built = {code: _frame(frame, None) for code, frame in codes.items()}
    frames = [replace(built.get(frame.f_code) or _frame(frame, None), line=line) for frame, line in kept]
    if with_locals:
        own = [index for index, one in enumerate(frames) if one.in_app][-_LOCALS_FRAMES:]
        for index in own:
            frames[index] = replace(frames[index], locals=_locals(kept[index][0]))
    return frames, count - len(kept), list(built.values())


def _frame(frame: FrameType, line: int | None) -> stack.Frame:
    code = frame.f_code
    module = frame.f_globals.get("__name__") if type(frame.f_globals) is dict else None
    return stack.frame(code.co_filename, code.co_name, line, module if type(module) is str else "")


def _locals(frame: FrameType) -> dict[str, str]:
    values = frame.f_locals
    # The body of a class may run in a mapping of the user's own.
    if type(values) is not dict and type(values).__name__ != "FrameLocalsProxy":
        return {}
    found: dict[str, str] = {}
    for name, value in values.items():
        if len(found) >= _LOCALS_PER_FRAME:
            break
        if type(name) is str and not name.startswith("__"):
            found[stack.clipped(stack.well_formed(name), 80)] = describe(value)
    return found


def describe(value: object) -> str:
    """Type, and for plain arrays and tensors shape and dtype; subclasses, whose attributes are code, tell only their type."""
    kind = type(value)
    name = type_name(kind)
    if name in ("torch.Tensor", "torch.nn.parameter.Parameter", "numpy.ndarray"):
        array: Any = value
        return f"{name}{list(array.shape)} {array.dtype}"
    return stack.clipped(name, 200)


def with_sources(captured: Captured) -> Captured:
    """The same with source lines, read from disk: work for the background."""
    return replace(
        captured,
        frames=[
            replace(one, source=linecache.getline(one.file, one.line).strip()[:500] or None) if one.line else one for one in captured.frames
        ],
        chain=[with_sources(link) for link in captured.chain],
    )


def with_texts(captured: Captured, change: Callable[[str], str]) -> Captured:
    """The same with each text that a user wrote (messages, notes, source lines) changed, for instance redacted."""
    return replace(
        captured,
        message=change(captured.message),
        notes=tuple(change(note) for note in captured.notes),
        frames=[replace(one, source=change(one.source)) if one.source else one for one in captured.frames],
        chain=[with_texts(link, change) for link in captured.chain],
    )


def stacktrace(captured: Captured) -> str:
    """Formatted as Python prints it, causes first, at most 64 kB."""
    text = _format(captured)
    after = {
        "cause": "The above exception was the direct cause of the following exception:",
        "context": "During handling of the above exception, another exception occurred:",
    }
    for link in captured.chain:
        if link.relation in after:
            text = f"{_format(link)}\n{after[link.relation]}\n\n{text}"
        else:
            text = f"{text}\nMember of the group:\n\n{_format(link)}"
    return stack.clipped(text, STACKTRACE_LIMIT)


def _format(captured: Captured) -> str:
    lines: list[str] = []
    if captured.frames:
        lines.append("Traceback (most recent call last):\n")
        split = HEAD if captured.left_out else len(captured.frames)
        lines += _format_frames(captured.frames[:split])
        if captured.left_out:
            lines.append(f"  [{captured.left_out} frames left out]\n")
            lines += _format_frames(captured.frames[split:])
    lines.append(f"{captured.type}: {captured.message}\n" if captured.message else f"{captured.type}\n")
    return "".join([*lines, *(f"{note}\n" for note in captured.notes)])


def _format_frames(frames: list[stack.Frame]) -> list[str]:
    return traceback.StackSummary.from_list([(one.file, one.line, one.function, one.source) for one in frames]).format()  # type: ignore[misc]


def link_to_wire(link: Captured) -> Mapping[str, Any]:
    """A link of the chain as the conventions describe it."""
    return {"relation": link.relation, "type": link.type, "message": link.message, "frames": [one.as_dict() for one in link.frames]}
