"""The last lines of stderr in a report: those that say something."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from firstfault_server.cli import report
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document
from tests.contract.records import incident


def _shown(tail: list[str]) -> list[str]:
    """The lines of stderr that a report shows."""
    document = incident_document(incident(1, first_fault=model.FirstFault(stderr_tail=tail)))
    assert document["first_fault"]["stderr_tail"] == tail
    found: list[str] = []
    label = ""
    for name, text in report.lines(document):
        label = name or label
        found += [text] if label == "stderr" else []
    return found


def _traceback(source: str, folder: Path) -> list[str]:
    """What this Python writes when a program fails."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    return subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False).stderr.splitlines()


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "[default3]:"])
def test_underlining_takes_no_place(prefix: str, tmp_path: Path) -> None:
    source = """
    def inner(x): return (x + 1) / (x - 1)
    def middle(x): return inner(x[0]) + len(x) * 2
    def outer(x): return middle(x) or middle(x)
    outer([1]) + 1
    """
    tail = [prefix + line for line in _traceback(source, tmp_path)]
    assert any("^" in line for line in tail)
    shown = _shown(tail)
    assert len(shown) == 8
    assert shown[-1] == f"{prefix}ZeroDivisionError: division by zero"
    assert not any(line.removeprefix(prefix).strip(" ~^") == "" for line in shown)
    assert any("in outer" in line for line in shown)


def test_a_long_line_of_underlining_costs_no_time() -> None:
    assert _shown(["~" * 100_000 + "^" * 100_000 + "x", "^" * 200_000, "last"])[1:] == ["last"]


def test_a_syntax_error_keeps_what_says_where_it_is(tmp_path: Path) -> None:
    shown = _shown(_traceback("x = = 1", tmp_path))
    assert shown[-2].strip() == "^"
    assert shown[-1].startswith("SyntaxError")


@pytest.mark.parametrize("line", ["", "~", "~~~~", "---", "2 ^ 3", "^C", "x ^^^", "[rank0]: done", "   "])
def test_other_lines_stay(line: str) -> None:
    assert _shown(["before", line, "after"]) == ["before", line, "after"]
