"""Documents of the public contract: times, numbers, and the state that detection and people make together."""

import datetime
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core import model
from firstfault_server.core.documents import incident_document, merged_state, number, optional_time, rfc3339
from tests.contract.records import NOW_NS, SECOND_NS, incident


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (1_790_000_000_123_456_789, "2026-09-21T14:13:20.123456Z"),
        (-1, "1970-01-01T00:00:00.000000Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775Z"),
        (2**70, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_utc_with_microseconds(time_ns: int, text: str) -> None:
    assert rfc3339(time_ns) == text


@given(st.integers(0, 253_402_300_799 * 10**9))
def test_times_are_read_back(time_ns: int) -> None:
    read = datetime.datetime.fromisoformat(rfc3339(time_ns))
    elapsed = read - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert (elapsed.days * 86_400 + elapsed.seconds) * 10**6 + elapsed.microseconds == time_ns // 1000


def test_unknown_times_and_numbers_are_null() -> None:
    assert optional_time(None) is None
    assert optional_time(0) is None
    assert [number(value) for value in (None, 1.5, math.nan, math.inf, -math.inf)] == [None, 1.5, "NaN", "Infinity", "-Infinity"]


def _marks(**changes: object) -> model.Triage:
    return model.Triage(tenant="acme", incident="i-0001", **changes)  # type: ignore[arg-type]


LATER = NOW_NS + 100 * SECOND_NS


@pytest.mark.parametrize(
    ("machine", "people", "state"),
    [
        ({}, {}, "open"),
        ({}, {"ack_by": "ada", "ack_at_ns": NOW_NS}, "acknowledged"),
        ({}, {"resolved_by": "ada", "resolved_at_ns": NOW_NS}, "resolved"),
        ({"state": "resolved", "resolved_at": NOW_NS}, {}, "resolved"),
        ({"state": "resolved", "resolved_at": NOW_NS}, {"ack_by": "ada", "ack_at_ns": NOW_NS}, "resolved"),
        ({"state": "resolved", "resolved_at": NOW_NS}, {"reopened_at_ns": LATER}, "open"),
        ({"state": "resolved", "resolved_at": LATER}, {"reopened_at_ns": NOW_NS}, "resolved"),
        ({"recurrences": 1, "first_fault": model.FirstFault(time=LATER)}, {"resolved_by": "ada", "resolved_at_ns": NOW_NS}, "open"),
        ({"recurrences": 1, "first_fault": model.FirstFault(time=LATER)}, {"ack_by": "ada", "ack_at_ns": NOW_NS}, "open"),
        ({"recurrences": 1, "first_fault": model.FirstFault(time=NOW_NS)}, {"resolved_by": "ada", "resolved_at_ns": LATER}, "resolved"),
    ],
)
def test_detection_and_people_make_one_state(machine: dict[str, object], people: dict[str, object], state: str) -> None:
    stored = incident(1, **machine)
    assert merged_state(stored, _marks(**people)) == state
    document = incident_document(stored, _marks(**people))
    assert document["state"] == state
    assert (document["resolved_at"] is not None) == (state == "resolved")


def test_every_member_of_the_contract_is_there() -> None:
    document = incident_document(incident(1), None, "http://api.example")
    named = (
        "id revision state severity page title url tenant run symptom family layer seen time_pattern cause first_fault ranks "
        "evidence not_seen fingerprint history impact advice recurrences opened_at updated_at resolved_at triage"
    )
    assert document.keys() >= set(named.split())
    fault = "status rank scope candidates local_rank node gpu_uuid pid phase step time exception trace_id stderr_tail"
    assert document["first_fault"].keys() >= set(fault.split())
    assert document["run"].keys() >= set(["id", "attempt", "name", "owner", "job_id", "command", "log_paths", "world_size", "nodes"])
    assert document["cause"]["domains"].keys() == {"workload", "infrastructure", "data", "unknown"}
    assert document["url"] == "http://api.example/v1/incidents/i-0001"
    json.dumps(document, allow_nan=False)


def test_only_the_last_lines_of_stderr_are_shown() -> None:
    stored = incident(1, first_fault=model.FirstFault(stderr_tail=[str(line) for line in range(500)]))
    assert incident_document(stored)["first_fault"]["stderr_tail"][0] == "300"
