"""This version reads what earlier ones wrote, on topics and in states; a field number or a place in an array that moves is noticed."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from firstfault_server.wire import codec
from firstfault_server.wire.outputs import ROLLUPS, TOPICS
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.unreadable import Unreadable
from tests.golden.named import Field, covered, differences, fields, named
from tests.golden.specimens import specimens
from tests.golden.write import GOLDEN, Kept, main, read

FOLDERS = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
KINDS = {(file, specimen.name): specimen for file, kinds in specimens().items() for specimen in kinds}
ENTRIES = [
    pytest.param(file, name, kept, id=f"{folder.name}/{name}")
    for folder in FOLDERS
    for file, entries in read(folder).items()
    for name, kept in entries.items()
]


@pytest.mark.parametrize(("file", "name", "kept"), ENTRIES)
def test_bytes_of_earlier_versions_mean_what_they_meant(file: str, name: str, kept: Kept) -> None:
    assert list(differences(named(KINDS[file, name].read(kept.bytes)), kept.value)) == []


def kept_fields(protobuf: bool) -> set[Field]:
    """Fields of which there are bytes of some version."""
    return {
        field
        for folder in FOLDERS
        for file, entries in read(folder).items()
        if (file == "topics") == protobuf
        for name, kept in entries.items()
        for field in covered(KINDS[file, name].read(kept.bytes), kept.value)
    }


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "msgpack"])
def test_every_field_has_bytes_of_some_version(protobuf: bool) -> None:
    kinds = [specimen.kind for (file, _), specimen in KINDS.items() if (file == "topics") == protobuf]
    missing = sorted({field for kind in kinds for field in fields(kind)} - kept_fields(protobuf))
    assert missing == [], "write bytes for new fields: `python -m tests.golden.write NAME`, with a name that proto/golden does not have yet"


# ---- what this would notice ------------------------------------------------------------------------------------------------------


class Before(msgspec.Struct, array_like=True):
    """Two fields of one type."""

    first: int
    second: int = 0


class Swapped(msgspec.Struct, array_like=True):
    """The same in another order."""

    second: int
    first: int = 0


class Longer(msgspec.Struct, array_like=True):
    """The same with a new one at the end."""

    first: int
    second: int = 0
    third: str = ""


def test_another_order_in_an_array_is_noticed_and_a_new_end_is_none() -> None:
    data = msgspec.msgpack.encode(Before(1, 2))
    wanted = named(Before(1, 2))
    assert list(differences(named(msgspec.msgpack.decode(data, type=Swapped)), wanted)) == [
        ".first is 2, it was 1",
        ".second is 1, it was 2",
    ]
    assert list(differences(named(msgspec.msgpack.decode(data, type=Longer)), wanted)) == []


def arrays(value: Any) -> Iterator[msgspec.Struct]:
    """Structs that travel as arrays."""
    if isinstance(value, msgspec.Struct):
        if value.__struct_config__.array_like:
            yield value
        for name in value.__struct_fields__:
            yield from arrays(getattr(value, name))
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from arrays(each)


@pytest.mark.parametrize("key", [key for key in KINDS if key[0] == "states"], ids=lambda key: key[1])
def test_neighbours_in_an_array_differ_so_that_no_two_change_places_unseen(key: tuple[str, str]) -> None:
    for folder in FOLDERS:
        if (kept := read(folder).get(key[0], {}).get(key[1])) is not None:
            for struct in arrays(KINDS[key].read(kept.bytes)):
                values = [named(getattr(struct, name)) for name in struct.__struct_fields__]
                assert all(one != other for one, other in pairwise(values)), struct


def swapped(message: str, one: int, other: int) -> dict[str, Any]:
    """The classes of all messages, two fields of one of them with each other's numbers."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    field = {each.number: each for each in next(each for each in file.message_type if each.name == message).field}
    field[one].number, field[other].number = other, one
    return message_factory.GetMessages([file], pool=descriptor_pool.DescriptorPool())


def messages(message: Any) -> Iterator[Any]:
    """Descriptors of a message and of those in it."""
    yield message.DESCRIPTOR
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                yield from messages(each)


def pairs() -> Iterator[tuple[str, int, int]]:
    """Neighbours of one type, of every message of which there are bytes."""
    classes = {topic: codec.MESSAGES[kind] for kind, topic in TOPICS.items()} | {ROLLUPS: pb.RollupBatch}
    kept = [(name.split()[0], kept.bytes) for folder in FOLDERS for name, kept in read(folder).get("topics", {}).items()]
    there = {each.name: each for topic, data in kept for each in messages(classes[topic].FromString(data))}
    for name, descriptor in sorted(there.items()):
        for one, other in pairwise(sorted(descriptor.fields, key=lambda field: field.number)):
            if (one.type, one.is_repeated, one.message_type) == (other.type, other.is_repeated, other.message_type):
                yield name, one.number, other.number


@pytest.mark.parametrize(("message", "one", "other"), list(pairs()))
def test_a_field_that_changes_its_number_is_noticed(message: str, one: int, other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {name.rpartition(".")[2]: made for name, made in swapped(message, one, other).items()}
    for kind in codec.MESSAGES:
        monkeypatch.setitem(codec.MESSAGES, kind, classes[kind.__name__])
    monkeypatch.setattr(pb, "RollupBatch", classes["RollupBatch"])
    kept = [entry for folder in FOLDERS for entry in read(folder).get("topics", {}).items()]
    noticed = [name for name, entry in kept if not _means_the_same(("topics", name), entry)]
    assert noticed, f"fields {one} and {other} of {message} may change places"


def _means_the_same(key: tuple[str, str], kept: Kept) -> bool:
    try:
        return not list(differences(named(KINDS[key].read(kept.bytes)), kept.value))
    except (Unreadable, IndexError):
        return False


def test_what_was_written_once_is_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in FOLDERS[0].iterdir()}
    assert main([FOLDERS[0].name]) == 2
    assert "stays" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path(FOLDERS[0]).iterdir()} == before
