"""Writing documents in bulk: what became of each, so that one that is refused costs no other."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from elasticsearch import ApiError, Elasticsearch

from firstfault_server.adapters.elasticsearch.connection import PASSING, Connection, out_of_room
from firstfault_server.ports import StorageFull, StoreUnavailable

MOST: Final = 500
MOST_BYTES: Final = 8 << 20
CONFLICT, MISSING, TOO_LARGE = 409, 404, 413


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One write of one document."""

    verb: Literal["create", "index", "update", "delete"]
    index: str
    id: str
    source: bytes = b""
    condition: dict[str, Any] = {}
    """What must hold of the stored document, in the words of the bulk API; else the write is a conflict."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    status: int
    reason: str = ""
    seq_no: int = -1
    primary_term: int = -1

    @property
    def done(self) -> bool:
        """It was written."""
        return self.status < 300

    @property
    def conflict(self) -> bool:
        """The stored document is another one than the condition says, or there is one already."""
        return self.status == CONFLICT

    @property
    def refused(self) -> bool:
        """The index does not take it, ever."""
        return not self.done and self.status not in (CONFLICT, MISSING)


def write(
    client: Elasticsearch, connection: Connection, doing: str, actions: Sequence[Action], *, refresh: bool | Literal["wait_for"]
) -> list[Outcome]:
    """Write all; what became of each. Raises StorageFull, StoreUnavailable; some may be written then."""
    outcomes: list[Outcome] = []
    for part in _parts(actions):
        operations: list[Any] = []
        for action in part:
            operations.append(msgspec.json.encode({action.verb: {"_index": action.index, "_id": action.id} | action.condition}))
            if action.verb != "delete":
                operations.append(action.source)
        with connection.asking(doing):
            try:
                answer = client.bulk(operations=operations, refresh=refresh, filter_path=FILTER)
            except ApiError as error:
                if error.status_code != TOO_LARGE or len(part) > 1:
                    raise
                outcomes.append(Outcome(status=TOO_LARGE, reason=f"{len(part[0].source)} bytes are more than Elasticsearch takes"))
                continue
        outcomes += [_outcome(connection, doing, next(iter(item.values()))) for item in answer["items"]]
    return outcomes


FILTER: Final = "items.*.status,items.*.error,items.*._seq_no,items.*._primary_term"


def _outcome(connection: Connection, doing: str, item: dict[str, Any]) -> Outcome:
    status, error = item["status"], item.get("error")
    if not error:
        return Outcome(status=status, seq_no=item.get("_seq_no", -1), primary_term=item.get("_primary_term", -1))
    reason = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    if cause:
        reason += f" ({cause.get('reason', '')})"
    if out_of_room(reason):
        raise StorageFull(f"Elasticsearch at {connection.place} has no room to {doing}: {reason}")
    if status in PASSING:
        raise StoreUnavailable(f"Elasticsearch at {connection.place} cannot {doing}: {reason}")
    return Outcome(status=status, reason=reason)


def _parts(actions: Sequence[Action]) -> Iterator[list[Action]]:
    part: list[Action] = []
    size = 0
    for action in actions:
        if part and (len(part) == MOST or size + len(action.source) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(action)
        size += len(action.source)
    if part:
        yield part
