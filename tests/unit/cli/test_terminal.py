"""What reaches a terminal: log text can be written by anybody, so nothing of it may be obeyed."""

import io
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.cli import commands, report, terminal
from firstfault_server.cli.client import Client
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document
from tests.contract.records import incident

ATTACKS = [
    "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x9b31m", "a\rb", "a\nb", "\u202egnp.exe", "\u2066x\u2069", "\x00", "\u200bhidden", "\ufeff",
    "\x7f", "\ud800", "\U000e0041", "[bold]markup[/bold]", "\u2028line",
]  # fmt: skip


def _obeyed(text: str) -> list[str]:
    return [character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@pytest.mark.parametrize("text", ATTACKS)
def test_text_is_shown_and_not_obeyed(text: str) -> None:
    assert _obeyed(terminal.clean(text)) == []


@given(st.text())
def test_any_text_is_harmless(text: str) -> None:
    shown = terminal.clean(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 or "\ud800" <= character <= "\udfff" for character in shown)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_stays_the_same_json(text: str) -> None:
    written = terminal.json_text({"text": text})
    assert json.loads(written) == {"text": text}
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in written)


@pytest.mark.parametrize("text", ATTACKS)
def test_reports_and_tables_are_harmless(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    fault = model.FirstFault(
        status="settled", rank=1, node=text, phase=text, exception=model.ExceptionInfo(type=text, message=text), stderr_tail=[text] * 3
    )
    made = incident(
        1, title=text, first_fault=fault, not_seen=[text], run=model.RunRef(id=text, name=text),
        evidence=[model.Evidence(id="e", kind="log", text=text, source=text)], advice=[model.Advice(text=text, because=text)],
    )  # fmt: skip
    report.print_incident(incident_document(made))
    terminal.table(["A"], [[text]])
    terminal.emit({"items": [text.encode("utf-8", "replace").decode()]}, "json")
    written = capsys.readouterr().out
    assert _obeyed(written.replace("\n", "")) == []
    if "markup" in text:
        assert "[bold]" in written


@pytest.mark.parametrize("fault", [model.FirstFault(scope="all"), model.FirstFault(candidates=[1, 2]), model.FirstFault(scope="group")])
def test_reports_say_when_no_rank_is_known(fault: model.FirstFault) -> None:
    lines = dict(report.lines(incident_document(incident(1, first_fault=fault))))
    assert "rank None" not in lines["first fault"]


def test_a_terminal_gets_a_table_and_a_pipe_json() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert terminal.choose(None, Terminal()) == "table"
    assert terminal.choose(None, io.StringIO()) == "json"
    assert terminal.choose("jsonl", Terminal()) == "jsonl"


def test_jsonl_is_one_item_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.emit({"items": [{"a": 1}, {"a": "x\ny"}]}, "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"a": 1}, {"a": "x\ny"}]


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def shown(**environment: str) -> str:
        stream: Any = Terminal()
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"TERM": "xterm-256color"} | environment).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.stdout", stream)
        report.print_incident(incident_document(incident(1)))
        text: str = stream.getvalue()
        return text

    assert "\x1b[" in shown()
    assert "\x1b[3" not in shown(NO_COLOR="1")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


IDS = [f"{number:032x}" for number in (0x1F00, 0xABC << 116)]


def _incidents(**more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": identifier,
            "state": state,
            "silences": silences,
            "severity": "critical",
            "run": {"id": "llama-pretraining-70b-2026-11"},
            "first_fault": {"scope": "rank", "rank": 1023},
            "symptom": "accelerator_unavailable",
            "opened_at": "2026-11-29T22:49:00.123456Z",
            "title": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2) on rank 1023 in train.py",
        }
        | more
        for identifier, state, silences in zip(IDS, ["acknowledged", "open"], [[], ["s"]], strict=True)
    ]


def _listed(command: str, items: list[dict[str, Any]], columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(Client, "pages", lambda *_, **__: iter(items))
    stream = _Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    assert commands()[command].main(["list"]) == 0
    return re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()).splitlines()


@pytest.mark.parametrize("columns", [80, 100, 120, 160, 240])
def test_every_incident_is_one_line_with_its_whole_id_and_state(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heading, *lines = _listed("incidents", _incidents(), columns, monkeypatch)
    assert [line.split()[0] for line in lines] == IDS
    assert ["acknowledged" in lines[0], "open (silenced)" in lines[1]] == [True, True]
    assert max(len(line.rstrip()) for line in lines) <= columns
    assert {"ID", "STATE", "RUN", "TITLE"} <= set(heading.split())
    assert all("RuntimeError: mat" in line for line in lines)
    assert ("2026-11-29T22:49:00" in lines[0]) == (columns == 240)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("identifier", ["exp-7", "a-run-with-a-long-name-of-its-own-that-is-far-longer-than-usual", "x" * 200])
def test_every_run_is_one_line_with_its_whole_id(columns: int, identifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    item = {
        "id": identifier, "state": "running", "attempt": 2, "world_size": 4096, "step": 1_234_567, "name": "llama pretraining " * 4,
        "started_at": "2026-11-29T22:49:00.1Z", "updated_at": "2026-11-29T22:49:00.1Z",
    }  # fmt: skip
    _, line = _listed("runs", [item], columns, monkeypatch)
    assert line.startswith(f"{identifier}  running")


def test_an_empty_list_is_a_line_of_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_listed("incidents", [], 80, monkeypatch)) == 1
