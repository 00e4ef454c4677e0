"""Bodies of messages: the INCIDENT of the contract, kept below the size that receivers take. Pure."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

LIMIT_BYTES: Final = 20_000
"""Standard Webhooks asks for bodies below 20 kB."""
SHRINK_AT: Final = LIMIT_BYTES - 200
"""Leaves room for the list of what was cut."""

Document: TypeAlias = dict[str, Any]
_Cut: TypeAlias = Callable[[Document], str]


def message_body(document: Document) -> tuple[bytes, Document]:
    """UTF-8 JSON below the limit, and the document that it holds.

    Cut in this order: stack traces, stderr, evidence, then long lists; never the summary and the link. What was cut is listed in
    `truncated`.
    """
    encoded = msgspec.json.encode(document)
    if len(encoded) < SHRINK_AT:
        return encoded, document
    shown = copy.deepcopy(document)
    cut: list[str] = []
    for shrink in _cuts():
        name = shrink(shown)
        if name not in cut:
            cut.append(name)
        shown["truncated"] = cut
        encoded = msgspec.json.encode(shown)
        if len(encoded) < LIMIT_BYTES:
            break
    return encoded, shown


def _cuts() -> Iterator[_Cut]:
    for characters in (6000, 2000, 500, 0):
        yield partial(_stack, keep=characters)
    for lines, characters in ((100, 400), (40, 200), (10, 200), (0, 0)):
        yield partial(_stderr, keep=lines, width=characters)
    for items, characters in ((50, 500), (20, 300), (8, 200), (3, 100)):
        yield partial(_evidence, keep=items, width=characters)
    for items, characters in ((100, 1000), (20, 300), (5, 100), (1, 40)):
        yield partial(_rest, keep=items, width=characters)


def _stack(document: Document, keep: int) -> str:
    exception = document["first_fault"]["exception"]
    if exception:
        # The innermost frames stand last in a Python trace.
        exception["stacktrace"] = exception["stacktrace"][-keep:] if keep else ""
    return "first_fault.exception.stacktrace"


def _stderr(document: Document, keep: int, width: int) -> str:
    tail = document["first_fault"]["stderr_tail"]
    document["first_fault"]["stderr_tail"] = [line[:width] for line in tail[-keep:]] if keep else []
    return "first_fault.stderr_tail"


def _evidence(document: Document, keep: int, width: int) -> str:
    document["evidence"] = [{**item, "text": item["text"][:width]} for item in document["evidence"][:keep]]
    return "evidence"


_KEPT: Final = frozenset({"url", "id", "tenant", "type", "timestamp", "symptom", "truncated"})


def _rest(document: Document, keep: int, width: int) -> str:
    roles = document["ranks"]
    # Whoever started it is what people look for among thousands.
    document["ranks"] = [role for role in roles if role["role"] == "initiating"][:keep] or roles[:keep]
    for name, value in list(document.items()):
        if name == "title":
            document[name] = value[: max(width, 150)]
        elif name not in _KEPT:
            document[name] = _bounded(value, keep, width)
    return "lists and long texts"


def _bounded(value: Any, keep: int, width: int) -> Any:
    if isinstance(value, str):
        return value[:width]
    if isinstance(value, list):
        return [_bounded(item, keep, width) for item in value[:keep]]
    if isinstance(value, dict):
        return {name: item if name == "id" else _bounded(item, keep, width) for name, item in value.items()}
    return value
