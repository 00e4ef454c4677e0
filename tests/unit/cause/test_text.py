"""The text reader: symptom, role, chain, code tables, identity."""

import pytest

from firstfault_server.core.cause.patterns import Pattern, PatternTable
from firstfault_server.core.cause.text import NOTHING, TextReader
from firstfault_server.core.grouping.parse import parse_text
from firstfault_server.tables import load_tables

TABLES = load_tables()
READER = TABLES.text_reader()
FRAMES = [{"module": "train", "function": "main", "file": "/w/train.py", "line": 3, "in_app": True}]


def test_the_most_telling_exception_of_a_chain_gives_the_symptom_and_the_last_one_the_identity() -> None:
    chain = [{"relation": "cause", "type": "OSError", "message": "[Errno 28] No space left on device", "frames": []}]
    reading = READER.exception("RuntimeError", "could not save", frames=FRAMES, chain=chain)
    assert (reading.symptom, reading.link) == ("disk_full", 1)
    assert reading.fingerprint.id == READER.exception("RuntimeError", "other words", frames=FRAMES).fingerprint.id


def test_a_stack_trace_is_parsed_where_frames_are_absent() -> None:
    stack = "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\n    f()\nKeyError: 'text'\n"
    assert (
        READER.exception("KeyError", "'text'", stacktrace=stack).fingerprint
        == READER.exception("KeyError", "'text'", frames=FRAMES).fingerprint
    )


@pytest.mark.parametrize(
    ("code", "symptom", "role"),
    [(79, "gpu_lost", "initiating"), (48, "gpu_memory_error", "initiating"), (31, "cuda_illegal_access", "cascade")],
)
def test_an_xid_line_reads_by_its_code(code: int, symptom: str, role: str) -> None:
    reading = READER.line(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=2141, text")
    assert (reading.symptom, reading.role, reading.facts["xid"]) == (symptom, role, str(code))


def test_a_line_that_says_nothing_reads_as_nothing() -> None:
    assert READER.line("step 12 of 900, all is well") == NOTHING


def test_advice_and_numbers_are_no_part_of_identity() -> None:
    one = READER.exception("RuntimeError", "CUDA error: out of memory on 0x7f12\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.")
    two = READER.exception("RuntimeError", "CUDA error: out of memory on 0x8aa0")
    assert one.fingerprint.id == two.fingerprint.id
    assert one.fingerprint.stack_hash == ""


def test_a_pattern_of_an_unknown_symptom_is_refused() -> None:
    table = PatternTable(weights={"strong": 1.0}, patterns=(Pattern(id="a", symptom="no_such", has=("x",)),))
    with pytest.raises(ValueError, match="no_such"):
        TextReader(table, TABLES.taxonomy)


def test_an_assertion_without_words_is_judged_by_the_line_that_raised() -> None:
    def said(code: str) -> str:
        frame = f'  File "/w/net.py", line 9, in forward\n    {code}\n    ^^^^^^\n'
        (crash,) = parse_text(f"Traceback (most recent call last):\n{frame}AssertionError\n")
        return READER.exception(crash.type, crash.message, frames=crash.frames).symptom

    assert said("assert q.shape[-1] == self.width") == "shape_mismatch"
    assert said("assert torch.isfinite(loss)") == "nonfinite"
    assert said("assert ready") == "python_error"


def test_words_of_a_kind_count_in_the_opening_of_a_message_only() -> None:
    assert READER.exception("ValueError", "odd\na\nb\nc\nd\nno valid samples").symptom == "python_error"
    assert READER.exception("ValueError", "no valid samples").symptom == "dataset_schema"
