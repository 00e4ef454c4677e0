"""Run, rank and node from the environment."""

from typing import Any

import pytest

from firstfault import conventions as c
from firstfault._identity import FALLBACK_RUN_ID, Given, ProcessFacts, command_of, identify

FACTS = ProcessFacts(pid=42, hostname="host-a", user="ada", argv=("python", "train.py"), instance="i")
TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_CLUSTER_NAME": "alps",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "16",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURMD_NODENAME": "nid0007",
    "SLURM_JOB_NAME": "pretrain",
    "SLURM_RESTART_COUNT": "2",
}


def _identity(environ: dict[str, str], given: Given | None = None, facts: ProcessFacts = FACTS) -> dict[str, Any]:
    return identify(environ, facts, given or Given())


@pytest.mark.parametrize(
    ("environ", "run_id", "source"),
    [
        ({"FIRSTFAULT_RUN_ID": "mine", **SLURM}, "mine", "user"),
        ({**SLURM, "TORCHELASTIC_RUN_ID": "abc", **TORCHRUN}, "slurm-alps-77", "scheduler"),
        ({"SLURM_JOB_ID": "78", "SLURM_HET_JOB_ID": "77"}, "slurm-77", "scheduler"),
        ({"K8S_JOB_UID": "u-1", "K8S_CLUSTER_NAME": "prod", **TORCHRUN}, "k8s-prod-u-1", "scheduler"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "k8s.job.uid=u%2D2,k8s.cluster.name=c"}, "k8s-c-u-2", "scheduler"),
        ({"TORCHELASTIC_RUN_ID": "abc", **TORCHRUN}, "abc", "elastic"),
        ({"TORCHELASTIC_RUN_ID": "none", FALLBACK_RUN_ID: "run-1"}, "run-1", "own"),
        ({FALLBACK_RUN_ID: "run-1"}, "run-1", "own"),
    ],
)
def test_the_first_source_names_the_run(environ: dict[str, str], run_id: str, source: str) -> None:
    found = _identity(environ)
    assert (found[c.RUN_ID], found[c.RUN_ID_SOURCE]) == (run_id, source)


def test_an_argument_wins_over_the_environment() -> None:
    found = _identity({"FIRSTFAULT_RUN_ID": "mine", "FIRSTFAULT_RUN_NAME": "x"}, Given(run_id="given", run_name="named"))
    assert (found[c.RUN_ID], found[c.RUN_NAME]) == ("given", "named")


def test_ranks_of_one_rendezvous_share_a_run_and_other_jobs_do_not() -> None:
    def run_of(facts: ProcessFacts = FACTS, **changes: str) -> str:
        found = _identity({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none", **changes}, facts=facts)
        assert found[c.RUN_ID_SOURCE] == "rendezvous"
        return str(found[c.RUN_ID])

    other_host = ProcessFacts(pid=1, hostname="host-b", user="ada")
    assert run_of() == run_of(RANK="0", LOCAL_RANK="0") == run_of(other_host)
    assert len({run_of(), run_of(MASTER_PORT="29501"), run_of(WORLD_SIZE="16"), run_of(MASTER_ADDR="10.0.0.2")}) == 4
    assert run_of(ProcessFacts(pid=1, hostname="host-a", user="bob")) != run_of()
    # On the loopback address two nodes are two jobs.
    assert run_of(MASTER_ADDR="127.0.0.1") != run_of(other_host, MASTER_ADDR="127.0.0.1")


def test_without_any_source_each_process_has_a_run_of_its_own() -> None:
    first, second = _identity({}), _identity({})
    assert first[c.RUN_ID_SOURCE] == "own" and first[c.RUN_ID] != second[c.RUN_ID]
    assert c.RANK not in first and c.WORLD_SIZE not in first


@pytest.mark.parametrize(
    ("environ", "rank", "local_rank", "world_size", "launcher"),
    [
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, 3, 1, 8, "torchrun"),
        (SLURM, 5, 1, 8, "slurm"),
        ({**SLURM, **TORCHRUN, "TORCHELASTIC_RUN_ID": "x"}, 3, 1, 8, "torchrun"),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, 2, 0, 4, "mpi"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, 1, 1, 2, "mpi"),
        ({"JOB_COMPLETION_INDEX": "6", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, 6, None, None, "kubernetes"),
        ({"RANK": "x", "LOCAL_RANK": "-1", "WORLD_SIZE": "2.0"}, None, None, None, "none"),
        (
            {"TF_CONFIG": '{"cluster": {"chief": ["a"], "worker": ["b", "c"], "ps": ["d"]}, "task": {"type": "worker", "index": 1}}'},
            2,
            None,
            3,
            "none",
        ),
        ({"TF_CONFIG": '{"cluster": {"worker": ["b"], "ps": ["d"]}, "task": {"type": "ps", "index": 0}}'}, None, None, 1, "none"),
        ({"TF_CONFIG": '{"cluster": [], "task": 3}'}, None, None, None, "none"),
        ({"RANK": "²"}, None, None, None, "none"),
    ],
)
def test_ranks(environ: dict[str, str], rank: int | None, local_rank: int | None, world_size: int | None, launcher: str) -> None:
    found = _identity(environ)
    assert [found.get(name) for name in (c.RANK, c.LOCAL_RANK, c.WORLD_SIZE, c.LAUNCHER)] == [rank, local_rank, world_size, launcher]


def test_node_cluster_job_and_owner() -> None:
    found = _identity(SLURM)
    assert (found[c.HOST], found[c.CLUSTER], found[c.JOB_ID], found[c.RUN_NAME], found[c.RESTART_COUNT]) == (
        "nid0007",
        "alps",
        "77",
        "pretrain",
        2,
    )
    assert _identity({"K8S_NODE_NAME": "n1", **SLURM})[c.HOST] == "n1"
    assert (_identity({})[c.HOST], _identity({})[c.OWNER], _identity({})[c.PID]) == ("host-a", "ada", 42)


def test_auxiliary_processes_have_no_rank() -> None:
    found = _identity(TORCHRUN, Given(role="auxiliary"))
    assert c.RANK not in found and c.LOCAL_RANK not in found and found[c.WORLD_SIZE] == 8


def test_secrets_of_the_command_line_stay_here() -> None:
    facts = ProcessFacts(pid=1, hostname="h", user="u", argv=("train.py", "--api-key", "canary-12345678", "--lr=1", "canary-87654321"))
    found = _identity({"WANDB_API_KEY": "canary-87654321"}, facts=facts)
    assert "canary" not in str(found)
    assert "--lr=1" in found[c.COMMAND]


def test_devices_given_by_uuid() -> None:
    devices = {"CUDA_VISIBLE_DEVICES": "GPU-aa,GPU-bb"}
    assert _identity({**devices, "LOCAL_RANK": "1"})[c.GPU_UUID] == "GPU-bb"
    assert c.GPU_UUID not in _identity({"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "1"})
    assert c.GPU_UUID not in _identity({**devices, "LOCAL_RANK": "7"})


def test_attributes_of_the_user_win() -> None:
    found = _identity({"OTEL_RESOURCE_ATTRIBUTES": "team=a,broken,=x"}, Given(attributes={"team": "b", c.STAGE: "1"}))
    assert (found["team"], found[c.STAGE]) == ("b", "1")


def test_facts_of_this_process() -> None:
    import os
    import time

    facts = ProcessFacts.here()
    assert facts.pid == os.getpid() and facts.hostname
    assert facts.started_ns is None or 0 <= time.time_ns() - facts.started_ns < 24 * 3600 * 10**9
    assert ProcessFacts.here().instance != facts.instance


_SPAWN = ["python", "-B", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=8)", "--multiprocessing-fork"]
_FORKSERVER = ["python", "-c", "from multiprocessing.forkserver import main; main(3, 4, ['__main__'])"]


@pytest.mark.parametrize(
    ("original", "arguments", "command"),
    [
        (_SPAWN, ["train.py", "--lr", "3"], ["python", "train.py", "--lr", "3"]),
        (_FORKSERVER, ["train.py"], ["python", "train.py"]),
        (_SPAWN, ["-c"], _SPAWN),
        (_SPAWN, [""], _SPAWN),
        (_SPAWN, [], _SPAWN),
        (["python", "-m", "pkg.train", "--lr"], ["/x/pkg/train.py", "--lr"], ["python", "-m", "pkg.train", "--lr"]),
        ([], [], []),
    ],
)
def test_a_child_of_multiprocessing_is_known_by_the_command_of_its_parent(
    original: list[str], arguments: list[str], command: list[str]
) -> None:
    assert list(command_of(original, arguments)) == command
