"""Following a growing file in bounded memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.sidecar.tail import TAIL_LINES, StderrTail


class Followed:
    """A file and its follower."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.file = path.open("ab", buffering=0)
        self.fd = os.open(path, os.O_RDONLY)
        self.tail = StderrTail(self.fd, offset)

    def say(self, data: bytes) -> list[str]:
        """Write, and everything read until nothing is left."""
        self.file.write(data)
        lines: list[str] = []
        while new := self.tail.read():
            lines += new
        return lines


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path / "stderr")
    yield made
    made.file.close()
    os.close(made.fd)


def test_lines_come_when_they_end(followed: Followed) -> None:
    assert followed.say(b"one\ntw") == ["one"]
    assert followed.say(b"o\n\n\nthree") == ["two"]
    assert followed.tail.finish() == ["three"]
    assert followed.tail.last() == ["one", "two", "three"]
    assert followed.tail.finish() == []


def test_a_line_of_any_length_takes_little_memory_and_keeps_its_newest_part(followed: Followed) -> None:
    for number in range(300):
        assert followed.say(b"\r%3d%% " % number + b"#" * 50_000) == []
    (line,) = followed.say(b"\rdone\n")
    assert line == "done"


def test_a_file_that_shrinks_is_read_from_its_start(followed: Followed) -> None:
    followed.say(b"old line, long enough\n")
    followed.file.truncate(0)
    assert followed.say(b"new\n") == ["new"]


def test_the_last_lines_are_bounded_in_number_and_size(followed: Followed) -> None:
    followed.say(b"".join(b"%d\n" % number for number in range(1000)))
    assert followed.tail.last() == [str(number) for number in range(1000 - TAIL_LINES, 1000)]
    followed.say(b"".join(b"%04d" % number + b"x" * 3000 + b"\n" for number in range(300)))
    kept = followed.tail.last()
    assert kept[-1].startswith("0299x")
    assert sum(len(line) for line in kept) <= 128 * 1024


def test_far_behind_it_jumps_to_the_end_and_counts(followed: Followed) -> None:
    followed.file.write(b"a" * 79 + b"\n")
    followed.file.write((b"b" * 79 + b"\n") * 100_000)
    lines = followed.say(b"last\n")
    assert lines[-1] == "last"
    assert followed.tail.skipped_bytes > 7_000_000
