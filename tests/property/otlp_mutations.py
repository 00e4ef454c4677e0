"""Broken OTLP on purpose: sound requests and what can happen to them on the way, drawn from a seeded generator."""

import copy
import gzip
import json
import random
from collections.abc import Callable
from typing import Any, Final

import zstandard

from tests.unit.wire.requests import NOW, json_logs, json_metrics, logs, metrics, resource

ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1 << 63,
    1 << 64,
    -(1 << 70),
    10**400,
    1.5,
    1e308,
    "",
    "NaN",
    "-Infinity",
    "x" * 70_000,
    "\ud800",
    "\x00",
    "😀",
    "１２",
    [],
    [[]],
    {},
    {"key": 1},
    {"stringValue": {}},
    {"arrayValue": {"values": [{"arrayValue": {"values": [5]}}]}},
    {"kvlistValue": {"values": [None, {"key": "a"}]}},
    {"bytesValue": "not base64 !"},
)


def sound_metrics(process: str, marks: list[float]) -> bytes:
    """Protobuf metrics whose values a test can find again."""
    points = [(NOW + i, mark) for i, mark in enumerate(marks)]
    return metrics({"train.loss": points, "train.step": [(NOW + i, i) for i in range(len(marks))]}, resource(process)).SerializeToString()


def sound_logs(process: str, marks: list[str]) -> bytes:
    """Protobuf log records whose bodies a test can find again."""
    attributes = {"exception.type": "ValueError", "exception.message": "m", "exception.stacktrace": "Traceback", "n": 5, "list": ["a", 1]}
    records = [{"event_name": "exception", "severity_number": 17, "body": mark, "attributes": attributes} for mark in marks]
    return logs(records, resource(process)).SerializeToString()


def json_point(chance: random.Random) -> dict[str, Any]:
    """A sound point in JSON."""
    return {"timeUnixNano": str(NOW + chance.randrange(10**9)), **chance.choice([{"asDouble": chance.random()}, {"asInt": "5"}])}


def json_record(chance: random.Random) -> dict[str, Any]:
    """A sound log record in JSON."""
    return {
        "timeUnixNano": str(NOW + chance.randrange(10**9)),
        "severityNumber": chance.randrange(25),
        "eventName": chance.choice(["exception", "train.log", "train.exit", "train.phase", "train.collective", ""]),
        "body": {"stringValue": "text"},
        "attributes": [
            {"key": "exception.type", "value": {"stringValue": "E"}},
            {"key": "train.step", "value": {"intValue": "3"}},
            {"key": "train.phase.name", "value": {"stringValue": "train"}},
            {"key": "train.collective.seq", "value": {"intValue": "1"}},
        ],
        "traceId": "0af7651916cd43dd8448eb211c80319c",
    }


def mutated_bytes(chance: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Bytes with one to four accidents."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out)) if out else 0
        match chance.randrange(8):
            case 0 if out:
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                out[at:at] = chance.randbytes(chance.randint(1, 20))
            case 2:
                del out[at : at + chance.randint(1, 30)]
            case 3:
                out = out[:at]
            case 4:
                out += out[at : at + 40]
            case 5:
                out[at : at + 4] = b"\xff\xfe\xfd\xfc"
            case 6:
                out[at:at] = b"\xff" * chance.randint(1, 11)
            case _:
                out[at:] = other[chance.randrange(len(other) + 1) :]
    return bytes(out)


def _odd(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice(ODD_VALUES))


def mutated_tree(chance: random.Random, tree: Any) -> Any:
    """A JSON document with one to four odd values, lost or doubled parts."""
    for _ in range(chance.randint(1, 4)):
        places: list[tuple[Any, Any]] = []

        def visit(node: Any, found: list[tuple[Any, Any]] = places) -> None:
            items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
            for key, child in items:
                found.append((node, key))
                visit(child)

        visit(tree)
        if not places:
            return tree
        node, key = chance.choice(places)
        match chance.randrange(5):
            case 0 if isinstance(node, dict):
                del node[key]
            case 1 if isinstance(node, dict):
                node[chance.choice(["unknown", "asInt", "asDouble", "value", "attributes", "time"])] = _odd(chance)
            case 2 if isinstance(node, list):
                node.append(_odd(chance))
            case _:
                node[key] = _odd(chance)
    return tree


class Case:
    """One request to send, and what must come out of it whatever happens to the rest."""

    def __init__(self, signal: str, headers: dict[str, str], body: bytes, marks: frozenset[str] = frozenset()) -> None:
        self.signal, self.headers, self.body, self.marks = signal, headers, body, marks


PROTOBUF: Final = {"content-type": "application/x-protobuf"}
JSON: Final = {"content-type": "application/json"}


def case(chance: random.Random, number: int) -> Case:
    """The next request: random bytes, broken bytes, broken documents, broken encodings, or one broken record among sound ones."""
    return chance.choice(KINDS)(chance, number)


def _signal(chance: random.Random) -> str:
    return chance.choice(["metrics", "logs", "traces"])


def _noise(chance: random.Random, number: int) -> Case:
    return Case(_signal(chance), chance.choice([PROTOBUF, JSON]), chance.randbytes(chance.randint(0, 300)))


def _broken_protobuf(chance: random.Random, number: int) -> Case:
    pair = [sound_metrics(f"f{number}", [1.0, 2.0]), sound_logs(f"f{number}", ["a", "b"])]
    chance.shuffle(pair)
    return Case(_signal(chance), PROTOBUF, mutated_bytes(chance, pair[0], pair[1]))


def _document(chance: random.Random, number: int) -> tuple[str, Any]:
    if chance.random() < 0.5:
        gauges = {"train.loss": [json_point(chance) for _ in range(3)], "m": [json_point(chance)]}
        return "metrics", json_metrics(gauges, resource(f"f{number}"))
    return "logs", json_logs([json_record(chance) for _ in range(3)], resource(f"f{number}"))


def _broken_json(chance: random.Random, number: int) -> Case:
    signal, document = _document(chance, number)
    return Case(signal, JSON, json.dumps(mutated_tree(chance, document)).encode())


def _broken_json_bytes(chance: random.Random, number: int) -> Case:
    signal, document = _document(chance, number)
    return Case(signal, JSON, mutated_bytes(chance, json.dumps(document).encode()))


def _encoded(chance: random.Random, number: int) -> Case:
    body = sound_metrics(f"f{number}", [1.0])
    name, packed = chance.choice(
        [("gzip", gzip.compress(body, mtime=0)), ("zstd", zstandard.compress(body)), ("br", body), ("gzip, gzip", body)]
    )
    if chance.random() < 0.7:
        packed = mutated_bytes(chance, packed)
    return Case("metrics", {**PROTOBUF, "content-encoding": name}, packed)


def _inside_json(chance: random.Random, number: int) -> Case:
    broken = mutated_tree(chance, {"record": json_record(chance)})
    marks = [f"mark-{number}-0", f"mark-{number}-1"]
    sound = [{"timeUnixNano": str(NOW), "body": {"stringValue": mark}} for mark in marks]
    document = json_logs([sound[0], broken.get("record"), sound[1]], resource(f"i{number}"))
    return Case("logs", JSON, json.dumps(document).encode(), frozenset(marks))


def _inside_protobuf(chance: random.Random, number: int) -> Case:
    """The bytes of one record are broken, its frame is sound."""
    marks = [f"mark-{number}-0", f"mark-{number}-1"]
    records: list[dict[str, Any]] = [{"body": marks[0]}, {"body": "victim" * 4, "attributes": {"a": "b", "n": 1}}, {"body": marks[1]}]
    request = logs(records, resource(f"i{number}"))
    victim = request.resource_logs[0].scope_logs[0].log_records[1].SerializeToString()
    broken = mutated_bytes(chance, victim)[: len(victim)]
    broken += b"\x00" * (len(victim) - len(broken))
    body = request.SerializeToString().replace(victim, broken)
    return Case("logs", PROTOBUF, body, frozenset(marks))


KINDS: Final[tuple[Callable[[random.Random, int], Case], ...]] = (
    _noise,
    _broken_protobuf,
    _broken_json,
    _broken_json_bytes,
    _encoded,
    _inside_json,
    _inside_protobuf,
)
