"""No input makes `explain` or `group` fail, and none makes them slow: mutated logs, random bytes, lines made to hurt."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault_server.core import model
from firstfault_server.core.cause.text import TextReader
from firstfault_server.offline.explain import document, explain
from firstfault_server.offline.group import group_texts
from firstfault_server.tables import Tables, load_tables

TABLES = load_tables()
READER: TextReader = TABLES.text_reader()
CASES, SOAK_CASES = 500, 10_000
RECORDED = Path(__file__).resolve().parents[3].parent / "shared" / "data"

SEEDS = tuple(
    text.encode()
    for text in (
        """Traceback (most recent call last):
  File "/w/a.py", line 3, in f
    x
ValueError: bad

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/b.py", line 4, in g
    ~~^^
RuntimeError: worse
""",
        """[rank1]: Traceback (most recent call last):
[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)
[rank1]:   File "/w/a.py", line 3, in f
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
""",
        """  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 71)
  traceback : Signal 9 (SIGKILL) received by PID 71
""",
        """{"time": "2024-05-01T10:00:00Z", "rank": 2, "message": "x", "exc_info": "Traceback (most recent call last):\\n  E: 1"}
""",
        """May  1 10:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.
""",
        """╭─ Traceback (most recent call last) ─╮
│ /w/a.py:3 in f │
╰─╯
KeyError: 'a'
""",
        """ValueError   Traceback (most recent call last)
Cell In[3], line 2
----> 2 f()
File /w/a.py:1, in f(x)
ValueError: no
""",
        """  + Exception Group Traceback (most recent call last):
  | ExceptionGroup: two (2 sub-exceptions)
  +-+------- 1 -------
    | KeyError: 1
""",
        """Fatal Python error: Segmentation fault

Current thread 0x7f (most recent call first):
  File "a.py", line 1 in f
""",
        """step 1 loss nan
 10%|#  | 1/9 [00:01<00:09]\rstep 2 loss inf
""",
    )
)
PIECES = (
    *(b"\x00", b"\xff\xfe", b"\x1b[31m", b"\r", b"\n\n", b"Traceback (most recent call last):", b'File "', b"\xe2\x94\x82", b"[rank"),
    *(b": ", b"(" * 50, b"\xed\xa0\x80", b"\t", b"  | ", b"{", b'"', b"Error: ", b"9" * 400),
)


def mutated(chance: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """Some seeds joined, cut, doubled, sprinkled with pieces and random bytes."""
    data = bytearray(b"".join(chance.choice(seeds) for _ in range(chance.randint(1, 4))))
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                del data[at : at + chance.randint(1, 80)]
            case 1:
                data[at:at] = chance.choice(PIECES)
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 200)]
            case 3:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
            case _:
                lines = bytes(data).split(b"\n")
                chance.shuffle(lines)
                data = bytearray(b"\n".join(lines))
    return bytes(data)


def seeds() -> tuple[bytes, ...]:
    """Our own seeds, and recorded logs where they lie beside the checkout."""
    recorded = sorted((RECORDED / "tracebacks").glob("*")) if RECORDED.is_dir() else []
    return (*SEEDS, *(path.read_bytes()[:8192] for path in recorded))


def sane(incidents: list[model.Incident], tables: Tables) -> None:
    """What must hold of any answer."""
    for incident in incidents:
        assert incident.symptom in tables.taxonomy
        assert sum(incident.cause.domains.values()) == pytest.approx(1, abs=1e-3)
        assert incident.evidence
        assert len(incident.title) <= 150
    assert document(incidents)["schema"] == "firstfault.explain/1"


def check(count: int, seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    all_seeds = seeds()
    texts = []
    for number in range(count):
        data = mutated(chance, all_seeds)
        path = folder / f"{number % 50}.log"
        path.write_bytes(data)
        incidents, errors = explain([str(path)], TABLES)
        assert errors == []
        sane(incidents, TABLES)
        texts.append((str(number), data.decode("utf-8", "backslashreplace")))
    grouped = group_texts(texts, [("0", "1")], TABLES)
    assert sorted(member for group in grouped["groups"] for member in group["members"]) == sorted(ident for ident, _ in texts)


def test_mutated_logs(tmp_path: Path) -> None:
    check(CASES, 7, tmp_path)


@pytest.mark.soak
def test_mutated_logs_for_long(tmp_path: Path) -> None:
    for seed in range(SOAK_CASES // CASES):
        check(CASES, 1000 + seed, tmp_path)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded data beside the checkout")
def test_every_recorded_file_can_be_read() -> None:
    paths = [str(path) for path in sorted(RECORDED.rglob("*")) if path.is_file() and path.stat().st_size < 2_000_000]
    for path in paths:
        incidents, errors = explain([path], TABLES)
        assert errors == []
        sane(incidents, TABLES)


def hurting() -> Iterator[tuple[str, str]]:
    """Lines built against expressions that backtrack."""
    size = 60_000
    yield "spaces", " " * size
    yield "open quotes", 'File "' + "a" * size
    yield "frame without an end", '  File "' + "a" * 900 + '", line 1, in ' + "b " * (size // 2)
    yield "dots", "a." * (size // 2) + "Error: x"
    yield "words", "aError" * (size // 6) + ":"
    yield "digits", "1" * size
    yield "numbers", "1 " * (size // 2)
    yield "nan columns", "nan " * (size // 4) + "x"
    yield "times", "10:11:12 " * (size // 9)
    yield "brackets", "[" * size
    yield "ranks", "[rank1]: " * (size // 9)
    yield "parentheses", "(pid=" * (size // 5)
    yield "paths", "/a" * (size // 2)
    yield "colons", "a:" * (size // 2)
    yield "escapes", "\x1b]" * (size // 2)
    yield "json", '{"message": "' + "[" * size + '"}'
    yield "missing ranks", "missing ranks: " + "1, " * (size // 3)
    yield "native frames", "#1 " + "a( " * (size // 3)
    yield "native arguments", "frame #1: " + "f<(" * (size // 3)
    yield "quotes", "'" * size
    yield "half messages", "RuntimeError: " + "RuntimeError: " * (size // 14)


@pytest.mark.parametrize(("name", "line"), [pytest.param(name, line, id=name.replace(" ", "-")) for name, line in hurting()])
def test_no_line_takes_long(name: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "hurt.log"
    tail = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n'
    path.write_text(f"{line}\nERROR {line}\n{tail}ValueError: {line}\n{line}\n")
    began = time.process_time()
    incidents, _ = explain([str(path)], TABLES)
    sane(incidents, TABLES)
    READER.exception("RuntimeError", line, stacktrace=f"{tail}RuntimeError: {line}")
    READER.line(line)
    # 0.05 s on an idle machine; an expression that backtracks takes minutes.
    assert time.process_time() - began < 3
