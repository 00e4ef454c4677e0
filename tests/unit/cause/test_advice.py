"""Advice is given only where the evidence makes it apply."""

from pathlib import Path

import pytest

from firstfault_server.core.cause.advice import MOST, AdviceRow, advice_for
from firstfault_server.offline.explain import explain
from firstfault_server.tables import load_tables

ROWS = (
    AdviceRow(symptoms=("cuda_oom",), needs=("other_process",), text="End process {other_process}", because="it holds {other_memory}"),
    AdviceRow(symptoms=("cuda_oom",), lacks=("other_process",), text="Use less", because="{evidence}"),
    AdviceRow(symptoms=("cuda_oom",), pattern="special", text="Special", because="so"),
)


def test_rows_apply_by_symptom_pattern_and_facts() -> None:
    assert advice_for("disk_full", ROWS, facts={"evidence": "x"}) == []
    assert [row.text for row in advice_for("cuda_oom", ROWS, facts={"evidence": "x"})] == ["Use less"]
    assert [row.text for row in advice_for("cuda_oom", ROWS, pattern="special", facts={"evidence": "x"})] == ["Use less", "Special"]
    facts = {"other_process": "71", "other_memory": "3 GiB"}
    assert [(row.text, row.because) for row in advice_for("cuda_oom", ROWS, facts=facts)] == [("End process 71", "it holds 3 GiB")]


def test_a_row_whose_facts_are_missing_is_never_filled_with_nothing() -> None:
    assert advice_for("cuda_oom", ROWS, facts={"other_process": "71"}) == []


def test_the_table_that_ships_names_known_symptoms_and_keeps_it_short() -> None:
    tables = load_tables()
    assert {symptom for row in tables.advice for symptom in row.symptoms} <= set(tables.taxonomy)
    for symptom in tables.taxonomy:
        assert len(advice_for(symptom, tables.advice, facts={"evidence": "a line", "node": "n1"})) <= MOST


@pytest.mark.parametrize(
    ("crash", "symptom", "word"),
    [
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)", "shape_mismatch", "shapes"),
        ("RuntimeError: Trying to backward through the graph a second time", "autograd_error", "set_detect_anomaly"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "api_misuse", "spawn"),
        ("AttributeError: 'DistributedDataParallel' object has no attribute 'config'", "api_misuse", ".module"),
        ("TypeError: forward() missing 1 required positional argument: 'x'", "api_misuse", "signature"),
        ("RecursionError: maximum recursion depth exceeded while calling a Python object", "recursion_limit", "repeat"),
    ],
)
def test_faults_of_the_code_say_what_to_do_and_why(crash: str, symptom: str, word: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f'Traceback (most recent call last):\n  File "/w/train.py", line 3, in main\n    y = f(x)\n{crash}\n')
    (incident,), _ = explain([str(log)], load_tables())
    assert incident.symptom == symptom
    (advice,) = incident.advice
    assert word in advice.text
    assert crash[:40] in advice.because


def test_wrong_use_that_no_row_knows_gets_no_advice() -> None:
    assert advice_for("api_misuse", load_tables().advice, pattern="attribute-type", facts={"evidence": "a line"}) == []
