"""Flight Recorder dumps: JSON and pickle, of several ranks, made to harm, made of nonsense."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from firstfault_server.offline.explain import explain
from firstfault_server.offline.files import Unreadable
from firstfault_server.offline.flight import read_dump
from firstfault_server.tables import load_tables

TABLES = load_tables()


def dump(last: int, state: str, ranks: str = "[0, 1, 2]") -> dict[str, Any]:
    entries = [_entry(number, "completed") for number in range(1, last)] + [_entry(last, state)]
    return {"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}, "pg_status": {}, "entries": entries}


def _entry(number: int, state: str) -> dict[str, Any]:
    frames = [
        {"name": "all_reduce", "filename": "/opt/torch/distributed/c10d.py", "line": 1},
        {"name": "step", "filename": "/w/train.py", "line": 33},
    ]
    return {
        "collective_seq_id": number,
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "state": state,
        "frames": frames,
    }


def write(folder: Path, name: str, data: Any) -> str:
    path = folder / name
    path.write_bytes(json.dumps(data).encode() if name.endswith(".json") else pickle.dumps(data))
    return str(path)


@pytest.mark.parametrize("suffix", [".json", ".pkl", ""])
def test_the_rank_that_never_entered_is_named(suffix: str, tmp_path: Path) -> None:
    states = {0: (7, "started"), 1: (6, "completed"), 2: (7, "scheduled")}
    paths = [write(tmp_path, f"nccl_trace_rank_{rank}{suffix}", dump(*state)) for rank, state in states.items()]
    (incident,), errors = explain(paths, TABLES)
    assert errors == []
    assert (incident.symptom, incident.first_fault.rank) == ("hang", 1)
    assert "/w/train.py:33 in step" in incident.evidence[0].text


def test_a_missing_dump_is_evidence(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"nccl_trace_{rank}.json", dump(7, "started")) for rank in (0, 2)]
    (incident,), _ = explain(paths, TABLES)
    assert incident.first_fault.rank == 1
    assert "Flight Recorder dump of rank 1" in incident.not_seen


def test_a_dump_in_which_all_is_completed_is_no_failure(tmp_path: Path) -> None:
    assert explain([write(tmp_path, "rank_0.json", dump(7, "completed"))], TABLES) == ([], [])


class _Harmful:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("exit 1",)


def test_a_pickle_that_wants_to_run_something_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "rank_0.pkl"
    path.write_bytes(pickle.dumps({"entries": [_Harmful()], "pg_config": {}}))
    with pytest.raises(Unreadable, match=r"rank_0\.pkl.*system"):
        read_dump(str(path))
    incidents, errors = explain([str(path)], TABLES)
    assert incidents == []
    assert "rank_0.pkl" in errors[0]


@pytest.mark.parametrize(
    "data",
    [
        {"entries": [], "pg_config": {}},
        {"entries": [None, 3, {"collective_seq_id": "x"}, {"collective_seq_id": True}, {"collective_seq_id": 1}], "pg_status": 7},
        {"entries": [{"collective_seq_id": 1, "process_group": None, "frames": "abc"}], "pg_config": {"0": {"ranks": [0, "x"]}, "1": 3}},
    ],
)
def test_nonsense_inside_a_dump_is_left_out(data: Any, tmp_path: Path) -> None:
    for name in ("rank_0.json", "rank_0.pkl"):
        _, errors = explain([write(tmp_path, name, data)], TABLES)
        assert errors == []


@pytest.mark.parametrize(
    "raw", [b"\x80\x04", b"\x80\x05\xff\xff", b"\x80\x02]q\x00(K\x01", b'{"entries": [', b'{"entries": 3, "pg_config": 1}']
)
def test_broken_files_never_crash(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(raw)
    incidents, errors = explain([str(path)], TABLES)
    assert incidents == []
    assert all("broken" in error for error in errors)


def test_logs_and_dumps_together(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text('[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/a.py", line 3, in f\n[rank1]: KeyError: 1\n')
    paths = [str(log), *(write(tmp_path, f"nccl_trace_rank_{rank}", dump(7, "started")) for rank in (0, 2))]
    (incident,), _ = explain(paths, TABLES)
    assert (incident.symptom, incident.first_fault.rank) == ("python_error", 1)
