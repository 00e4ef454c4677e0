"""Words that the records share, and what every record that crosses a stage boundary is made of."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

SECOND_NS = 1_000_000_000
OTHERWISE = "otherwise"
"""Under which a closed list says what a value counts as that it does not have."""

Scalar: TypeAlias = str | int | float | bool
Attribute: TypeAlias = Scalar | list[Scalar]


def otherwise(value: str | None) -> msgspec.Meta:
    """What a value of a closed list counts as that this version does not know (`core.later`); None: it is left out of its list."""
    return msgspec.Meta(extra={OTHERWISE: value})


Severity: TypeAlias = Annotated[Literal["critical", "error", "warning", "info"], otherwise("error")]
Scope: TypeAlias = Annotated[Literal["rank", "node", "group", "all"], otherwise("group")]
Role: TypeAlias = Annotated[Literal["initiating", "cascade", "waiting", "teardown", "unknown"], otherwise("unknown")]
RunState: TypeAlias = Annotated[
    Literal["running", "finished", "failed", "killed", "preempted", "cancelled", "time_limit", "unreachable"], otherwise("unreachable")
]


class Record(msgspec.Struct, kw_only=True, tag_field="record", omit_defaults=True):
    """Base of everything that crosses a stage boundary; msgpack carries the class name in `record`."""


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """The record as JSON-ready builtins, for tests and codecs."""
    built: dict[str, Any] = msgspec.to_builtins(record)
    return built
