"""Words that the records share, and what every record that crosses a stage boundary is made of."""

from typing import Any, Literal, TypeAlias

import msgspec

SECOND_NS = 1_000_000_000

Scalar: TypeAlias = str | int | float | bool
Attribute: TypeAlias = Scalar | list[Scalar]
Severity: TypeAlias = Literal["critical", "error", "warning", "info"]
Scope: TypeAlias = Literal["rank", "node", "group", "all"]
Role: TypeAlias = Literal["initiating", "cascade", "waiting", "teardown", "unknown"]
RunState: TypeAlias = Literal["running", "finished", "failed", "killed", "preempted", "cancelled", "time_limit", "unreachable"]


class Record(msgspec.Struct, kw_only=True, tag_field="record", omit_defaults=True):
    """Base of everything that crosses a stage boundary; msgpack carries the class name in `record`."""


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """The record as JSON-ready builtins, for tests and codecs."""
    built: dict[str, Any] = msgspec.to_builtins(record)
    return built
