"""Tables of every command: values that hold others are in words, never as Python or JSON writes them."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.cli import commands
from firstfault_server.cli.client import Client
from firstfault_server.cli.fields import flat, print_fields
from tests.contract.records import NOW_NS, SECOND_NS, run
from tests.unit.api.stand import Stand

NOTATION = re.compile(r"""[\[{](?=['"\[{\]}])|\b(None|True|False|null)\b""")
"""How a container that holds something or nothing begins, and the names of what is not there, in Python and JSON."""
INCIDENT, EVENT, RUN = "incident-acme", "event-acme", "run-acme"
SHOWING = [
    ["incidents", "list"], ["incidents", "show", INCIDENT], ["incidents", "timeline", INCIDENT], ["incidents", "evidence", INCIDENT],
    ["incidents", "similar", INCIDENT], ["incidents", "ack", INCIDENT], ["incidents", "note", INCIDENT, "x"],
    ["runs", "list"], ["runs", "show", RUN], ["events", "search"], ["events", "show", EVENT], ["silences", "list"],
    ["silences", "show", "silence-acme"], ["destinations", "list"], ["destinations", "deliveries"],
    ["destinations", "add", "http://example.com"], ["keys", "list"], ["keys", "create"],
]  # fmt: skip


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands meet the API in this process, over stores that hold one of everything."""
    made = Stand()
    made.fill("acme", "acme")
    attempts = [NOW_NS, NOW_NS + SECOND_NS]
    made.stores.incidents.write_runs([run(2, run=RUN, tenant="acme", attempt=2, attempts_started_ns=attempts, notes=["one", "two"])])
    api = made.client("ffk_acme-admin")
    api.post(f"/v1/incidents/{INCIDENT}/assign", json={"assignee": None})
    api.post(f"/v1/incidents/{INCIDENT}/mute", json={"unmute": True})

    def request(_client: Client, method: str, path: str, parameters: Any = None, body: Any = None, **_: Any) -> Any:
        response = api.request(method, path, params=parameters, json=body)
        assert response.is_success, response.text
        return response.json()

    monkeypatch.setattr(Client, "request", request)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("words", SHOWING, ids=" ".join)
def test_no_table_shows_a_value_as_a_program_writes_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()[words[0]].main([*words[1:], "-o", "table"]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert NOTATION.search(captured.out) is None, captured.out


@pytest.mark.usefixtures("service")
def test_the_attempts_of_a_run_are_a_table_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["runs"].main(["show", RUN, "-o", "table"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    place = lines.index(["attempts:"])
    assert lines[place + 1] == ["ATTEMPT", "STARTED", "AT"]
    assert [line[0] for line in lines[place + 2 :]] == ["1", "2"]


@pytest.mark.usefixtures("service")
def test_an_event_shows_each_attribute_and_what_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["events"].main(["show", EVENT, "-o", "table"]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert {"attributes  loss=NaN", "list=1, a"} <= {re.sub(" {2,}", "  ", line) for line in shown}
    assert any(line.startswith("exception") and line.endswith("RuntimeError: secret of acme") for line in shown)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc ", max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_is_one_line_without_notation(value: Any) -> None:
    assert re.search(r"""[\[{}\]'"\n]|None|True|False""", flat(value)) is None


def test_long_lists_are_counted() -> None:
    assert flat(list(range(23))).endswith(", 18, 19 and 3 more")


def test_things_that_lack_a_value_leave_its_cell_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"id": "x", "parts": [{"a": 1}, {"a": 2, "b_c": "y"}], "empty": [], "nothing": None})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["FIELD", "VALUE"], ["id", "x"], [], ["parts:"], ["A", "B", "C"], ["1"], ["2", "y"]]
