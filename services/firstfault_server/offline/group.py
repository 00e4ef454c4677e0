"""`firstfault group`: crash texts in, groups and similarities out."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from firstfault_server.core.cause.log_leading import leading_exception
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.core.cause.text import TextReader
from firstfault_server.core.grouping.groups import Failure, Groups, alike, failure_of
from firstfault_server.core.grouping.prefix import labelled
from firstfault_server.offline.files import Unreadable, lines_of
from firstfault_server.tables import Tables

SCHEMA: Final = "firstfault.group/1"
MOST_WHY: Final = 5


def read_texts(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(id, text) of every crash text: a file each, or one a line of a `.jsonl` file. Raises Unreadable."""
    for path in paths:
        if not path.endswith(".jsonl"):
            yield path, "\n".join(lines_of(path))
            continue
        for number, row in enumerate(_rows(path), 1):
            if not isinstance(row.get("id"), str | int) or not isinstance(row.get("text", ""), str):
                raise Unreadable(f"{path}:{number}: a line needs `id` and `text`")
            yield str(row["id"]), row.get("text", "")


def read_pairs(path: str) -> list[tuple[str, str]]:
    """The pairs asked for, one `{"a", "b"}` a line. Raises Unreadable."""
    pairs = []
    for number, row in enumerate(_rows(path), 1):
        if "a" not in row or "b" not in row:
            raise Unreadable(f"{path}:{number}: a line needs `a` and `b`")
        pairs.append((str(row["a"]), str(row["b"])))
    return pairs


def _rows(path: str) -> Iterator[Mapping[str, Any]]:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from error
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line.decode("utf-8", "backslashreplace"))
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unreadable(f"{path}:{number}: {error}") from error
        if not isinstance(row, dict):
            raise Unreadable(f"{path}:{number}: an object was expected")
        yield row


def failure_in(text: str, tables: Tables, reader: TextReader) -> Failure:
    """What a crash text is about, ready to be compared."""
    lines = text.split("\n")
    log = LogReader(reader, "text", labelled=labelled(lines[:200]))
    for number, line in enumerate(lines, 1):
        log.feed(line, number)
    symptom, told, others = leading_exception(log.close(), tables.judging)
    if not symptom:
        # Nothing telling: the text itself, so that equal texts still meet.
        told.message = text[:4000]
    return failure_of(tables.frames, symptom, told, others, reader.advice_marks)


def canonical(failure: Failure) -> tuple[str, tuple[str, ...], str]:
    """Sort key by content."""
    return failure.symptom, failure.hashes, failure.message


def group_texts(texts: Iterable[tuple[str, str]], pairs: Iterable[tuple[str, str]], tables: Tables) -> dict[str, Any]:
    """The contract's document. The order of the texts does not matter."""
    reader = tables.text_reader()
    failures = {ident: failure_in(text, tables, reader) for ident, text in texts}
    groups = Groups()
    members: dict[str, list[str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    # Canonical order: by content, so that the order of the input cannot matter; equal content joins exactly anyway.
    for ident in sorted(failures, key=lambda name: (*canonical(failures[name]), name)):
        join = groups.join(failures[ident])
        members.setdefault(join.group, []).append(ident)
        if not join.new:
            reasons.setdefault(join.group, {})[join.why] = None
    made = [
        {"id": group, "members": sorted(found), "why": list(reasons.get(group, {}))[:MOST_WHY]}
        for group, found in sorted(members.items(), key=lambda item: (-len(item[1]), min(item[1])))
    ]
    document: dict[str, Any] = {"schema": SCHEMA, "groups": made}
    scored = [
        {"a": a, "b": b, "similarity": round(alike(failures[a], failures[b]), 6)} for a, b in pairs if a in failures and b in failures
    ]
    if scored:
        document["pairs"] = scored
    return document
