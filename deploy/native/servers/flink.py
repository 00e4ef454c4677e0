"""A Flink session cluster in a folder of its own: one JobManager, TaskManagers of one slot each, jobs given to it in Python."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.native.servers.flink_env import ROOT, ensure, home
from deploy.native.servers.flink_rest import Rest
from deploy.native.servers.process import Process, ServerFailed, find_java, free_ports

JAVA: Final = 17
START_S: Final = 240.0
SUBMIT_S: Final = 300.0
STOP_S: Final = 60.0
JOB: Final = ROOT / "services" / "firstfault_server" / "detect" / "flink" / "job.py"
LOGGING: Final = Path(__file__).with_name("flink-log4j2.properties")
OPENED: Final = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.net",
        "java.io",
        "java.nio",
        "sun.nio.ch",
        "java.lang.reflect",
        "java.text",
        "java.time",
        "java.util",
        "java.util.concurrent",
        "java.util.concurrent.atomic",
        "java.util.concurrent.locks",
    )
)
# Without UsePerfData: a killed JVM would leave its counters in the folder of the system.
JVM: Final = ("-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError", "-XX:+UseSerialGC", "-XX:-UsePerfData")
CONFIGURATION: Final[Mapping[str, object]] = {
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "blob.server.port": 0,
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    # One slot each: all Python of a TaskManager shares one interpreter lock.
    "taskmanager.numberOfTaskSlots": 1,
    "taskmanager.cpu.cores": 1.0,
    "taskmanager.memory.framework.heap.size": "64m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.task.off-heap.size": "64m",
    "taskmanager.memory.managed.size": "64m",
    "taskmanager.memory.network.min": "48m",
    "taskmanager.memory.network.max": "48m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "128m",
    "taskmanager.memory.jvm-overhead.max": "128m",
    # A dead TaskManager is noticed by what it does not say any more.
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 6000,
    "execution.checkpointing.timeout": "60s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.num-retained": 3,
}


class Flink:
    """A cluster that keeps checkpoints and savepoints over restarts of its parts."""

    def __init__(
        self,
        folder: Path,
        *,
        taskmanagers: int = 1,
        heap: str = "384m",
        path: Sequence[Path] = (),
        configuration: Mapping[str, object] | None = None,
        ports: tuple[int, int] | None = None,
    ) -> None:
        """`path`: more folders in which jobs find Python modules, each imported once for a TaskManager.

        `ports`: of the REST interface and of the JobManager; default: free ones.
        """
        self._folder, self._wanted, self._heap = folder.resolve(), taskmanagers, heap
        self._path = (ROOT / "services", ROOT / "sdk", *path)
        self._more = dict(configuration or {})
        self._jobmanager: Process | None = None
        self._taskmanagers: dict[int, Process] = {}
        self._started = 0
        rest, rpc = ports or free_ports(2)
        self._ports = {"rest.port": rest, "jobmanager.rpc.port": rpc}
        self.rest = Rest(self.address)

    @property
    def address(self) -> str:
        """HOST:PORT of the REST interface."""
        return f"127.0.0.1:{self._ports['rest.port']}"

    @property
    def jobmanager_pid(self) -> int | None:
        """Process id of the JobManager while it runs."""
        return self._jobmanager.pid if self._jobmanager is not None and self._jobmanager.alive else None

    @property
    def pids(self) -> list[int]:
        """Process ids of the TaskManagers that run."""
        return [process.pid for process in self._taskmanagers.values() if process.alive]

    @property
    def _temporary(self) -> Path:
        """Of every JVM and every Python of it: the folder of the system would keep what they leave behind."""
        return self._folder / "tmp"

    # ---- life ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Return when all TaskManagers are registered. Raises ServerFailed."""
        self.prepare()
        # Side by side: a TaskManager waits for the JobManager.
        self.start_jobmanager(wait=False)
        for _ in range(self._wanted):
            self.start_taskmanager(wait=False)
        self._wait_for_jobmanager()
        self._wait_for_taskmanagers()

    def prepare(self) -> None:
        """Make the environment if it is missing, and write the configuration. Raises ServerFailed."""
        self._environment = ensure()
        for name in ("conf", "checkpoints", "savepoints", "tmp"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        settings = {**CONFIGURATION, **self._configuration(), **self._ports, **self._more}
        text = "".join(f"{key}: {value}\n" for key, value in settings.items())
        # The parts of a cluster may be started by several processes at once.
        written = self._folder / "conf" / f".config.{os.getpid()}"
        written.write_text(text, encoding="utf-8")
        written.rename(self._folder / "conf" / "config.yaml")

    def start_jobmanager(self, *, wait: bool = True) -> None:
        """Return when it answers. Raises ServerFailed."""
        entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        command = [*self._java("384m"), entry, "--configDir", str(self._folder / "conf")]
        self._jobmanager = Process(command, self._folder / "jobmanager.log", self._variables())
        if wait:
            self._wait_for_jobmanager()

    def start_taskmanager(self, *, wait: bool = True) -> None:
        """Add a TaskManager. Raises ServerFailed."""
        self._started += 1
        entry = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        own = [f"-Dtaskmanager.resource-id=tm-{self._started}"]
        command = [*self._java(self._heap), entry, "--configDir", str(self._folder / "conf"), *own]
        self._taskmanagers[self._started] = Process(command, self._folder / f"taskmanager-{self._started}.log", self._variables())
        if wait:
            self._wait_for_taskmanagers()

    def _wait_for_jobmanager(self) -> None:
        if self._jobmanager is not None:
            self._jobmanager.wait_until(lambda: self.rest.ask("/overview") is not None, START_S, "Flink's JobManager")

    def _wait_for_taskmanagers(self) -> None:
        alive = [process for process in self._taskmanagers.values() if process.alive]
        for process in alive[-1:]:
            process.wait_until(lambda: self.rest.taskmanagers() >= len(alive), START_S, "Flink's TaskManager")

    def stop(self) -> None:
        """End everything; jobs that run are lost but for their checkpoints."""
        for process in self._taskmanagers.values():
            # Nothing of it is needed any more, and an orderly end takes seconds.
            process.kill()
        self._taskmanagers.clear()
        if self._jobmanager is not None:
            self._jobmanager.stop()

    def kill_taskmanagers_of(self, job: str) -> None:
        """End the TaskManagers that work for a job at once, as a crash would; the others stay. Raises ServerFailed."""
        busy = self.rest.taskmanagers_of(job)
        for number, process in list(self._taskmanagers.items()):
            if f"tm-{number}" in busy:
                process.kill()
                del self._taskmanagers[number]

    def kill_jobmanager(self) -> None:
        """End the JobManager at once, as a crash would; it forgets its jobs."""
        if self._jobmanager is not None:
            self._jobmanager.kill()

    # ---- jobs ------------------------------------------------------------------------------------------------------------

    def submit(self, *arguments: str, state: str | None = None, job: Path = JOB, environment: Mapping[str, str] | None = None) -> str:
        """Start a job, from a savepoint or checkpoint if `state` names one, and wait until it runs; its id. Raises ServerFailed.

        `environment`: more variables for the program that makes the job.
        """
        start = ["-s", state] if state is not None else []
        # At INFO it would tell the whole environment.
        command = [
            *self._java("256m"),
            "-Dfirstfault.log.level=WARN",
            "org.apache.flink.client.cli.CliFrontend",
            "run",
            "-d",
            *start,
            "-py",
            str(job),
            *arguments,
        ]
        try:
            done = subprocess.run(
                command,
                env=self._variables() | dict(environment or {}),
                cwd=self._folder,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=SUBMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ServerFailed(f"the job was not submitted in {SUBMIT_S:.0f} s") from error
        found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("JOB ")]
        if done.returncode != 0 or not found:
            lines = (done.stdout + done.stderr).splitlines()
            said = "\n".join(line for line in lines if not line.startswith("\tat "))
            raise ServerFailed(f"the job could not be submitted:\n{said[-4000:]}")
        self.rest.wait_running(found[0], START_S)
        return found[0]

    def stop_job(self, job: str) -> str:
        """End a job with a savepoint; where that is. Raises ServerFailed."""
        return self.rest.stop(job, f"file://{self._folder / 'savepoints'}", STOP_S)

    def newest_checkpoint(self, job: str) -> str | None:
        """The newest checkpoint that was kept of a job."""
        found = sorted((self._folder / "checkpoints" / job).glob("chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
        return f"file://{found[-1].parent}" if found else None

    # ---- how -------------------------------------------------------------------------------------------------------------

    def _configuration(self) -> dict[str, object]:
        python = self._environment / "bin" / "python"
        return {
            "taskmanager.memory.task.heap.size": f"{int(self._heap.removesuffix('m')) - 64}m",
            "python.executable": python,
            "python.client.executable": python,
            "io.tmp.dirs": self._temporary,
            "execution.checkpointing.dir": f"file://{self._folder / 'checkpoints'}",
            "execution.checkpointing.savepoint-dir": f"file://{self._folder / 'savepoints'}",
            "env.java.opts.all": " ".join(OPENED),
        }

    def _java(self, heap: str) -> list[str]:
        flink = home(self._environment)
        logging = [f"-Dlog4j2.configurationFile={LOGGING}", f"-Dlog4j.configurationFile={LOGGING}"]
        own = [f"-XX:ErrorFile={self._folder / 'hs_err_%p.log'}", f"-Djava.io.tmpdir={self._temporary}"]
        options = [*JVM, *OPENED, f"-Xmx{heap}", *own, *logging]
        return [find_java(JAVA), *options, "-cp", f"{flink / 'lib'}/*"]

    def _variables(self) -> dict[str, str]:
        flink = home(self._environment)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLINK_", "FIRSTFAULT_", "PYTHON"))}
        return kept | {
            "TMPDIR": str(self._temporary),
            "FLINK_HOME": str(flink),
            "FLINK_CONF_DIR": str(self._folder / "conf"),
            "FLINK_LIB_DIR": str(flink / "lib"),
            "FLINK_OPT_DIR": str(flink / "opt"),
            "FLINK_PLUGINS_DIR": str(flink / "plugins"),
            "PYTHONPATH": os.pathsep.join(str(folder) for folder in self._path),
            "PATH": f"{self._environment / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        }
