"""What detection writes to topics in the distributed deployment: which record goes where, under which key, in which message."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from firstfault_server.core import model
from firstfault_server.wire import codec
from firstfault_server.wire.rollups import decode_rollups, encode_rollups

ROLLUPS: Final = "firstfault.rollups.v1"
EVENTS: Final = "firstfault.events.v1"
FINDINGS: Final = "firstfault.findings.v1"
INCIDENTS: Final = "firstfault.incidents.v1"
RUNS: Final = "firstfault.runs.v1"
DEAD_LETTERS: Final = "firstfault.deadletter.v1"

OutputRecord: TypeAlias = model.Rollup | model.Event | model.Finding | model.Incident | model.RunStatus | model.DeadLetter
TOPICS: Final[Mapping[type[OutputRecord], str]] = {
    model.Rollup: ROLLUPS,
    model.Event: EVENTS,
    model.Finding: FINDINGS,
    model.Incident: INCIDENTS,
    model.RunStatus: RUNS,
    model.DeadLetter: DEAD_LETTERS,
}
_KINDS: Final = {topic: kind for kind, topic in TOPICS.items()}


class Outgoing(NamedTuple):
    """One record for a topic."""

    topic: str
    key: bytes
    value: bytes


def outgoing(records: Iterable[OutputRecord]) -> list[Outgoing]:
    """Records of one call of a stage for their topics; its rollups, which are of one process, go together."""
    sent: list[Outgoing] = []
    rollups: list[model.Rollup] = []
    for record in records:
        if isinstance(record, model.Rollup):
            rollups.append(record)
        else:
            sent.append(Outgoing(TOPICS[type(record)], key(record), codec.encode(record)))
    if rollups:
        named = key(rollups[0])
        sent += [Outgoing(ROLLUPS, named, value) for value in encode_rollups(rollups)]
    return sent


def incoming(topic: str, value: bytes) -> list[Any]:
    """Records of a message of one of `TOPICS`. Raises Unreadable, KeyError for another topic."""
    kind = _KINDS[topic]
    return list(decode_rollups(value)) if kind is model.Rollup else [codec.decode(kind, value)]


def key(record: OutputRecord) -> bytes:
    """Records with the same key stay in order; of incidents and runs the topic keeps the newest of each key."""
    match record:
        case model.Rollup():
            return f"{record.tenant}/{record.process}".encode()
        case model.Event() | model.Finding():
            return f"{record.identity.tenant}/{record.identity.run}".encode()
        case model.Incident():
            return f"{record.tenant}/{record.id}".encode()
        case model.RunStatus():
            return f"{record.tenant}/{record.run}".encode()
        case model.DeadLetter():
            return record.tenant.encode()
