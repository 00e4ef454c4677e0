"""`explain` and `group` as a person or a script meets them: exit status, streams, forms of output."""

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from firstfault_server.offline.commands import DONE, FOUND, USAGE, explain_main, group_main
from firstfault_server.offline.explain import explain
from firstfault_server.offline.report import print_report, printable, spans
from firstfault_server.tables import load_tables

CRASH = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in main\n    f()\nOSError: [Errno 28] No space left on device\n'


def _run(main: Any, argv: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, Any, str]:
    status = main(argv)
    out, err = capfdbinary.readouterr()
    return status, json.loads(out) if out else None, err.decode()


def test_explain_prints_the_contract(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = tmp_path / "job.log"
    log.write_text(CRASH)
    status, made, err = _run(explain_main, [str(log)], capfdbinary)
    assert (status, err, made["schema"]) == (DONE, "", "firstfault.explain/1")
    (incident,) = made["incidents"]
    assert (incident["symptom"], incident["first_fault"]["exception"]["type"]) == ("disk_full", "OSError")
    assert set(incident) >= {"title", "layer", "seen", "time_pattern", "cause", "ranks", "evidence", "not_seen", "fingerprint", "advice"}
    assert set(incident["cause"]["domains"]) == {"workload", "infrastructure", "data", "unknown"}
    assert incident["evidence"][0]["source"] == f"{log}:4"
    assert incident["advice"]


def test_nothing_found_is_an_empty_list_and_exit_code_asks_for_one(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    calm, crash = tmp_path / "calm.log", tmp_path / "crash.log"
    calm.write_text("step 1\n")
    crash.write_text(CRASH)
    assert _run(explain_main, [str(calm), "--exit-code"], capfdbinary)[:2] == (DONE, {"schema": "firstfault.explain/1", "incidents": []})
    assert _run(explain_main, [str(crash), "--exit-code"], capfdbinary)[0] == FOUND


def test_a_file_that_cannot_be_read_is_named_and_costs_no_other(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    crash = tmp_path / "crash.log"
    crash.write_text(CRASH)
    status, made, err = _run(explain_main, [str(tmp_path / "absent.log"), str(crash)], capfdbinary)
    assert status == USAGE
    assert "absent.log: No such file or directory" in err
    assert made["incidents"][0]["symptom"] == "disk_full"
    assert _run(explain_main, [str(tmp_path)], capfdbinary)[0] == USAGE


@pytest.mark.parametrize("argv", [[], ["--no-such-flag", "x"], ["-o", "xml", "x"]])
def test_wrong_usage_is_2(argv: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert explain_main(argv) == USAGE
    assert capfdbinary.readouterr().out == b""


def test_standard_input_and_lines(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CRASH.encode())))
    assert explain_main(["-", "-o", "jsonl"]) == DONE
    assert json.loads(capfdbinary.readouterr().out)["symptom"] == "disk_full"


def test_group_reads_files_and_lines_scores_pairs_and_does_not_mind_order(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    other = CRASH.replace("OSError: [Errno 28] No space left on device", "KeyError: 'a'").replace("main", "load")
    rows = [{"id": "a", "text": CRASH}, {"id": "b", "text": "noise\n" + CRASH.replace("/w/", "/x/y/")}, {"id": "c", "text": other}]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"a": "a", "b": "b"}\n{"a": "b", "b": "c"}\n{"a": "b", "b": "nobody"}\n')
    found = []
    for number, order in enumerate((rows, rows[::-1])):
        texts = tmp_path / f"texts{number}.jsonl"
        texts.write_text("".join(json.dumps(row) + "\n" for row in order))
        status, made, _ = _run(group_main, [str(texts), "--pairs", str(pairs)], capfdbinary)
        assert status == DONE
        found.append(made)
    assert found[0] == found[1]
    assert [group["members"] for group in found[0]["groups"]] == [["a", "b"], ["c"]]
    scores = {(pair["a"], pair["b"]): pair["similarity"] for pair in found[0]["pairs"]}
    assert set(scores) == {("a", "b"), ("b", "c")}
    assert scores["a", "b"] > scores["b", "c"]


@pytest.mark.parametrize("line", ["{not json", "[1]", '{"text": "x"}', '{"id": 1, "text": 7}'])
def test_group_says_which_line_is_wrong(line: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text(line + "\n")
    status, made, err = _run(group_main, [str(texts)], capfdbinary)
    assert (status, made) == (USAGE, None)
    assert "texts.jsonl:1" in err


def test_the_report_fits_ten_seconds_and_obeys_no_control_characters(tmp_path: Path) -> None:
    log = tmp_path / "rank_3.log"
    log.write_text(CRASH.replace("No space", "No \x1b[31m\x07[bold]space\u202e"))
    incidents, _ = explain([str(log)], load_tables())
    out = io.StringIO()
    print_report(incidents, Console(file=out, width=120, color_system=None))
    text = out.getvalue()
    assert text.startswith("[CRITICAL][")
    assert "rank 3" in text.splitlines()[0]
    assert "rank_3.log:4" in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]" in text
    assert len(text.splitlines()) < 20


def test_small_words() -> None:
    assert spans([3, 1, 2, 9, 8, 5]) == "1-3, 5, 8-9"
    assert printable("a\tb\u200f") == "a\\tb\\u200f"


def test_a_pipe_is_read_like_a_file(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(CRASH,))
    writer.start()
    _, made, _ = _run(explain_main, [str(pipe)], capfdbinary)
    writer.join()
    assert [incident["symptom"] for incident in made["incidents"]] == ["disk_full"]
