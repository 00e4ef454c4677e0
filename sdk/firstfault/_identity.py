"""Says who this process is: run, rank, node, from what launchers and schedulers put into the environment.

`identify` is pure; `ProcessFacts.here` reads the machine. Which variable means what follows the launchers' own documents:
torchrun (RANK, TORCHELASTIC_*), Slurm (SLURM_*), Open MPI, MPICH and PMIx, Kubernetes Indexed Jobs, JobSet, Kubeflow (RANK; TF_CONFIG).

Last resort for the run id: `firstfault run` puts an id of its own into FALLBACK_RUN_ID; it counts only when nothing else does.
"""

import hashlib
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote

from firstfault import conventions as c
from firstfault._sidecar_config import AttributeValue
from firstfault.redact import Redactor

FALLBACK_RUN_ID = "FIRSTFAULT_FALLBACK_RUN_ID"
RUN_ID = "FIRSTFAULT_RUN_ID"
RUN_NAME = "FIRSTFAULT_RUN_NAME"

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX", "VC_TASK_INDEX")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_NODE = ("K8S_NODE_NAME", "SLURMD_NODENAME")
_CLUSTER = ("K8S_CLUSTER_NAME", "SLURM_CLUSTER_NAME")
# The uid of a Kubernetes object reaches a process only where its manifest puts it (downward API, OpenTelemetry operator).
_KUBERNETES_JOB = ("JOBSET_UID", "K8S_JOB_UID", "JOB_UID")
_SCHEDULERS = (("slurm", ("SLURM_HET_JOB_ID", "SLURM_JOB_ID")), ("lsf", ("LSB_JOBID",)), ("pbs", ("PBS_JOBID",)))
_LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True, kw_only=True)
class ProcessFacts:
    """What the operating system says about this process."""

    pid: int
    hostname: str
    user: str
    argv: tuple[str, ...] = ()
    started_ns: int | None = None
    log_paths: tuple[str, ...] = ()
    instance: str = field(default_factory=lambda: str(uuid.uuid4()))

    @staticmethod
    def here() -> "ProcessFacts":
        """Facts of the calling process; what cannot be read is left out."""
        return ProcessFacts(
            pid=os.getpid(),
            hostname=socket.gethostname(),
            user=_user(),
            argv=command_of(sys.orig_argv, sys.argv),
            started_ns=_started_ns(),
            log_paths=tuple(dict.fromkeys(path for fd in (2, 1) if (path := _regular_file(fd)))),
        )


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the user says; it wins over everything found."""

    run_id: str | None = None
    run_name: str | None = None
    role: str = "trainer"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


def command_of(original: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """The command people know a process by; of a child of `multiprocessing` the script and arguments of its parent.

    `original` is what the interpreter was started with; `multiprocessing` hands the parent's `sys.argv` (`arguments`) to a child.
    """
    started_by_multiprocessing = any(word.startswith("from multiprocessing.") for word in original[1:])
    if not started_by_multiprocessing or not arguments or arguments[0] in ("", "-c", "-m"):
        return tuple(original)
    return (original[0], *arguments)


def identify(environ: Mapping[str, str], facts: ProcessFacts, given: Given) -> dict[str, AttributeValue]:
    """Resource attributes of this process (names in `conventions`); what is not known is absent."""
    found: dict[str, AttributeValue] = dict(_otel_attributes(environ))
    cluster = _first(environ, _CLUSTER) or str(found.get(c.CLUSTER, ""))
    job_id = _job_id(environ, found)
    run_id, source = _run_id(environ, facts, given, cluster, job_id)
    tensorflow = _tensorflow_rank(environ)
    ranked = given.role != "auxiliary"
    known: dict[str, AttributeValue | None] = {
        c.RUN_ID: run_id,
        c.RUN_ID_SOURCE: source,
        c.RUN_NAME: given.run_name or environ.get(RUN_NAME) or environ.get("SLURM_JOB_NAME"),
        c.RANK: _number(environ, _RANK, tensorflow[0]) if ranked else None,
        c.LOCAL_RANK: _number(environ, _LOCAL_RANK) if ranked else None,
        c.WORLD_SIZE: _number(environ, _WORLD_SIZE, tensorflow[1]),
        c.ROLE: given.role,
        c.STAGE: environ.get("FIRSTFAULT_STAGE"),
        c.LAUNCHER: _launcher(environ),
        c.RESTART_COUNT: _number(environ, _RESTARTS),
        c.OWNER: environ.get("FIRSTFAULT_OWNER") or environ.get("SLURM_JOB_USER") or facts.user,
        c.JOB_ID: job_id[1],
        c.LOG_PATHS: list(facts.log_paths),
        c.CLUSTER: cluster,
        c.HOST: _first(environ, _NODE) or facts.hostname,
        c.SERVICE: environ.get("OTEL_SERVICE_NAME") or str(found.get(c.SERVICE, "train")),
        c.INSTANCE: facts.instance,
        c.PID: facts.pid,
        c.STARTED: None if facts.started_ns is None else datetime.fromtimestamp(facts.started_ns / 1e9, timezone.utc).isoformat(),
        c.COMMAND: Redactor.from_environ(environ).args([argument[:1000] for argument in facts.argv[:200]]),
        c.GPU_UUID: _gpu_uuid(environ),
    }
    found.update({name: value for name, value in known.items() if value is not None and value not in ("", [])})
    found.update(given.attributes)
    return found


def _run_id(environ: Mapping[str, str], facts: ProcessFacts, given: Given, cluster: str, job_id: tuple[str, str | None]) -> tuple[str, str]:
    """The run's id and where it came from: first hit wins."""
    if chosen := given.run_id or environ.get(RUN_ID):
        return chosen, "user"
    scheduler, job = job_id
    if job:
        return "-".join(part for part in (scheduler, cluster, job) if part), "scheduler"
    # torchrun's --rdzv-id is "none" unless given.
    elastic = environ.get("TORCHELASTIC_RUN_ID", "")
    if elastic and elastic.lower() != "none":
        return elastic, "elastic"
    if address := environ.get("MASTER_ADDR"):
        # On a loopback address all ranks are on this node; without its name the jobs of two nodes would be one.
        place = facts.hostname if address.startswith(_LOOPBACK) else address
        parts = [place, environ.get("MASTER_PORT", ""), environ.get("WORLD_SIZE", ""), facts.user]
        return "rdzv-" + hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16], "rendezvous"
    return environ.get(FALLBACK_RUN_ID) or f"run-{uuid.uuid4().hex[:16]}", "own"


def _job_id(environ: Mapping[str, str], attributes: Mapping[str, AttributeValue]) -> tuple[str, str | None]:
    for scheduler, names in _SCHEDULERS:
        if job := _first(environ, names):
            return scheduler, job
    job = _first(environ, _KUBERNETES_JOB) or str(attributes.get("k8s.job.uid", ""))
    return ("k8s", job) if job else ("", None)


def _launcher(environ: Mapping[str, str]) -> str:
    if "TORCHELASTIC_RUN_ID" in environ:
        return "torchrun"
    if _first(environ, ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")) and "SLURM_PROCID" not in environ:
        return "mpi"
    if "SLURM_PROCID" in environ:
        return "slurm"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    return "firstfault" if FALLBACK_RUN_ID in environ else "none"


def _gpu_uuid(environ: Mapping[str, str]) -> str | None:
    """The UUID of this rank's device, where the devices are given by UUID."""
    devices = [device.strip() for device in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    local_rank = _number(environ, _LOCAL_RANK) or 0
    device = devices[local_rank] if 0 <= local_rank < len(devices) else devices[0] if len(devices) == 1 else ""
    return device if device.startswith(("GPU-", "MIG-")) else None


def _otel_attributes(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """OTEL_RESOURCE_ATTRIBUTES: key=value pairs with commas between, percent-encoded."""
    for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            yield name.strip(), unquote(value.strip())


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def _tensorflow_rank(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Rank and world size from TF_CONFIG, which Kubeflow's TFJob sets: chief first, then workers; others do not train."""
    try:
        config = json.loads(environ["TF_CONFIG"])
        cluster, kind, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        sizes = {name: len(cluster[name]) for name in ("chief", "master", "worker") if name in cluster}
    except (KeyError, TypeError, ValueError):
        return None, None
    before = list(sizes)[: list(sizes).index(kind)] if kind in sizes else None
    return (None if before is None else sum(sizes[name] for name in before) + index), sum(sizes.values())


def _number(environ: Mapping[str, str], names: Iterable[str], default: int | None = None) -> int | None:
    """The first variable that holds a non-negative integer."""
    for name in names:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return default


def _user() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        # A container's user often has no entry; the number is the same on every node.
        return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")


def _started_ns() -> int | None:
    """When the process started, by the process table (field 22, in ticks since boot)."""
    try:
        ticks = int(Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return time.time_ns() - int(age_s * 1e9)


def _regular_file(fd: int) -> str:
    """Path of the regular file behind a descriptor; "" for pipes, terminals and what cannot be told."""
    try:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        return path if path.startswith("/") and Path(path).is_file() else ""
    except OSError:
        return ""
