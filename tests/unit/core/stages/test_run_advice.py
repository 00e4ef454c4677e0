"""What an incident of the run stage advises, and whose problem it says it is: the same tables as for logs that are read offline."""

from pathlib import Path

import pytest

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.cause.domains import surroundings
from firstfault_server.offline.explain import explain
from firstfault_server.tables import Tables, load_tables
from tests.property import faults
from tests.property.scripts import Driver, Script

FRAGMENTED = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.20 GiB is free. "
    "Including non-PyTorch memory, this process has 77.90 GiB memory in use. Of the allocated memory 60.10 GiB is allocated by "
    "PyTorch, and 16.30 GiB is reserved by PyTorch but unallocated."
)
SHARED = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.20 GiB is free. "
    "Process 4242 has 40.00 GiB memory in use. Including non-PyTorch memory, this process has 37.90 GiB memory in use. "
    "Of the allocated memory 37.10 GiB is allocated by PyTorch, and 0.30 GiB is reserved by PyTorch but unallocated."
)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


def incident_of(script: Script, tables: Tables) -> model.Incident:
    return Driver(tables=tables).play([script], 90).only()


def out_of_memory(message: str, ranks: tuple[int, ...] = (1,)) -> Script:
    script = Script(2)
    step = script.train(0, 40)
    for rank in ranks:
        script.exception(40.1, rank, "torch.OutOfMemoryError", message, step=step)
        script.exit(40.4, rank, "failed", code=1)
    return script


def test_a_hardware_xid_says_what_it_means_and_what_to_do(tables: Tables) -> None:
    incident = incident_of(faults.xid_on_a_node(), tables)
    code = tables.codes.xid[79]
    given = {one.text: one.because for one in incident.advice}
    assert given[code.action] == f"Xid 79: {code.about}"
    assert any("node-1" in text for text in given)
    prior = tables.taxonomy[incident.symptom].domains.get("infrastructure", 0.0)
    assert incident.cause.domain == "infrastructure"
    assert incident.cause.confidence > prior


def test_an_xid_in_the_output_of_a_rank_says_what_explain_says(tables: Tables, tmp_path: Path) -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1001, GPU has fallen off the bus."
    script = Script(2)
    script.train(0, 40)
    script.log(40.1, 1, names.LOG, sender="sidecar", severity=17, body=line)
    script.exit(40.4, 1, "failed", code=1)
    incident = incident_of(script, tables)
    log = tmp_path / "rank1.log"
    log.write_text(f"step 40 loss 0.5\n{line}\n")
    (told,), _ = explain([str(log)], tables)
    assert incident.symptom == told.symptom == "gpu_lost"
    assert incident.first_fault.rank == told.first_fault.rank == 1
    code = tables.codes.xid[79]
    for advice in (incident.advice, told.advice):
        assert {one.text: one.because for one in advice}[code.action] == f"Xid 79: {code.about}"


def test_an_xid_that_follows_the_programs_own_fault_advises_nothing(tables: Tables) -> None:
    incident = incident_of(faults.application_xid(), tables)
    assert incident.symptom == "cuda_illegal_access"
    assert not any("Xid" in one.because for one in incident.advice)


def test_fragmented_memory_is_told_from_the_message(tables: Tables) -> None:
    (first, *_) = incident_of(out_of_memory(FRAGMENTED), tables).advice
    assert "expandable_segments" in first.text
    assert first.because == "16.30 GiB is reserved and not allocated, more than the request of 2.00 GiB"


def test_memory_that_another_process_holds_moves_the_cause(tables: Tables) -> None:
    alone, shared = (incident_of(out_of_memory(message), tables) for message in (FRAGMENTED, SHARED))
    assert any("process 4242 has 40.00 GiB" in one.because for one in shared.advice)
    assert not any("expandable_segments" in one.text for one in shared.advice)
    assert shared.cause.domains["infrastructure"] > alone.cause.domains["infrastructure"]


def test_all_ranks_alike_point_at_the_program(tables: Tables) -> None:
    one, every = (incident_of(out_of_memory("CUDA out of memory.", ranks), tables) for ranks in ((1,), (0, 1)))
    assert every.first_fault.scope == "all"
    assert surroundings(scope="all")
    assert every.cause.domains["workload"] > one.cause.domains["workload"]
