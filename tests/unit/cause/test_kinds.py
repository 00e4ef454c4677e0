"""One text and more of every kind of failure, read whole: what `explain` must say of it."""

from pathlib import Path

import pytest
import yaml

from firstfault_server.core.cause.log_incidents import incidents_of
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.tables import load_tables

TABLES = load_tables()
READER = TABLES.text_reader()
HEAD = (
    "Traceback (most recent call last):",
    '  File "train.py", line 10, in <module>',
    "    main()",
    '  File "train.py", line 5, in main',
    "    run()",
    "",
)
KINDS: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))
CASES = [(symptom, text) for symptom, texts in KINDS.items() for text in texts]


@pytest.mark.parametrize(("symptom", "text"), CASES, ids=[f"{symptom}-{number}" for number, (symptom, _) in enumerate(CASES)])
def test_symptom(symptom: str, text: str) -> None:
    log = LogReader(READER, "job.log")
    for number, line in enumerate(text.replace("<traceback>\n", "\n".join(HEAD)).split("\n"), 1):
        log.feed(line, number)
    incidents = incidents_of([log.close()], TABLES.judging)
    assert [incident.symptom for incident in incidents[:1]] == [symptom]


def test_the_kinds_cover_what_text_can_show() -> None:
    explicit = {name for name, row in TABLES.taxonomy.items() if row.seen == "explicit"}
    assert explicit <= set(KINDS)
