"""Advice is given only where the evidence makes it apply."""

from firstfault_server.core.cause.advice import MOST, AdviceRow, advice_for
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
