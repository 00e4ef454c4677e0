"""The job's own result must not change, whatever the service does (real processes)."""

import contextlib
import functools
import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.unit.sdk.jobs import Outcome, environment, run
from tests.unit.sdk.receiver import black_hole, nobody, receiver

pytestmark = pytest.mark.integration

EXIT_DELAY_S = 2.0
"""Contract: the end of the job is delayed by so much at most."""
SLACK_S = 1.0
"""Reading modules from the disk, and waiting for the interpreter while another thread imports them."""

CRASH = """
import firstfault
firstfault.init(run_id="r")
def step(n):
    with firstfault.phase("train"):
        firstfault.log({"loss": 1.0}, step=n)
        if n == 3:
            raise RuntimeError("shape mismatch")
for n in range(10):
    step(n)
"""
EXITS = {
    "crash": (CRASH, 1),
    "clean": ("import firstfault\nfirstfault.init()\nfirstfault.log({'loss': 1.0}, step=1)\nprint('done')\n", 0),
    "sys_exit": ("import firstfault, sys\nfirstfault.init()\nsys.exit(7)\n", 7),
    "sys_exit_text": ("import firstfault, sys\nfirstfault.init()\nsys.exit('no data')\n", 1),
    "system_exit": ("import firstfault\nfirstfault.init()\nraise SystemExit(3)\n", 3),
    "interrupt": ("import firstfault\nfirstfault.init()\nraise KeyboardInterrupt\n", -2),
    "thread": (
        "import firstfault, threading\nfirstfault.init()\n"
        "t = threading.Thread(target=lambda: 1 / 0, name='loader')\nt.start()\nt.join()\nprint('alive')\n",
        0,
    ),
    "sigterm": ("import firstfault, os, signal\nfirstfault.init()\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()\n", -15),
    "os_exit": ("import firstfault, os\nfirstfault.init()\nfirstfault.log({'loss': 1.0})\nos._exit(5)\n", 5),
    "fork": (
        "import firstfault, os\nfirstfault.init()\nfirstfault.flush(0.1)\n"
        "for _ in range(2):\n    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)\n",
        0,
    ),
    "fork_with_threads": (
        "import firstfault, os, threading\nfirstfault.init()\nstop = threading.Event()\n"
        "def fork():\n    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)\n"
        "threading.Thread(target=stop.wait).start()\nfork()\nstop.set()\n",
        0,
    ),
    "child": (
        "import firstfault, multiprocessing as mp\nfirstfault.init()\n"
        "def work():\n    raise ValueError('in the child')\n"
        "p = mp.get_context('fork').Process(target=work, name='worker')\np.start()\np.join()\nprint(p.exitcode)\n",
        0,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all jobs: tracebacks show the script's path."""
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def bare(folder: Path) -> Callable[[str], Outcome]:
    """How a job ends with the SDK switched off."""
    return functools.cache(lambda source: run(source, environment(None), folder))


@contextlib.contextmanager
def _receiver_endpoint(mode: str) -> Iterator[str]:
    with receiver(mode) as box:
        yield box.endpoint


def _service(kind: str) -> AbstractContextManager[str]:
    if kind == "absent":
        return nobody()
    return black_hole() if kind == "black_hole" else _receiver_endpoint(kind)


@pytest.mark.parametrize("service", ["ok", "absent", "black_hole", "silent", "drip", "500", "503", "garbage", "redirect"])
def test_crash_is_the_same_with_any_service(service: str, folder: Path, bare: Callable[[str], Outcome]) -> None:
    with _service(service) as endpoint:
        _assert_same(bare(CRASH), run(CRASH, environment(endpoint), folder))


def _assert_same(bare: Outcome, watched: Outcome, processes: int = 1) -> None:
    # Python's warning about forking beside threads names the process.
    shown, shown_bare = (re.sub(r"pid=\d+", "pid=N", outcome.stderr) for outcome in (watched, bare))
    assert (watched.code, watched.stdout, shown) == (bare.code, bare.stdout, shown_bare)
    # The bare run is the baseline: what the program itself waits for is in both.
    assert watched.waited_s - bare.waited_s < processes * (EXIT_DELAY_S + SLACK_S)


WAYS = [(kind, "ok") for kind in EXITS if kind != "crash"] + [(kind, "black_hole") for kind in ("interrupt", "sys_exit", "child")]


@pytest.mark.parametrize(("kind", "service"), WAYS)
def test_each_way_out_is_the_same(kind: str, service: str, folder: Path, bare: Callable[[str], Outcome]) -> None:
    source, code = EXITS[kind]
    assert bare(source).code == code
    with _service(service) as endpoint:
        _assert_same(bare(source), run(source, environment(endpoint), folder), processes=2 if kind == "child" else 1)


WAIT_AT_EXIT = """
import atexit, time
began = []
atexit.register(lambda: print(f"{time.monotonic() - began[0]:.3f}"))
import firstfault
firstfault.init()
firstfault.log({"loss": 1.0}, step=1)
firstfault.flush(0.5)
began.append(time.monotonic())
"""


@pytest.mark.parametrize("service", ["absent", "black_hole", "silent", "drip", "500", "garbage"])
def test_the_exit_waits_two_seconds_at_most(service: str, tmp_path: Path) -> None:
    with _service(service) as endpoint:
        outcome = run(WAIT_AT_EXIT, environment(endpoint), tmp_path)
    assert outcome.code == 0
    # Our exit function runs between the end of the program and the one registered before it.
    assert float(outcome.stdout) < EXIT_DELAY_S


@pytest.mark.parametrize("service", ["500", "503", "silent"])
def test_the_crash_that_a_service_in_trouble_did_not_take_is_on_disk(service: str, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with _service(service) as endpoint:
        outcome = run(CRASH, environment(endpoint, FIRSTFAULT_SPOOL_DIR=str(spool)), tmp_path)
    assert outcome.code == 1
    kept = [gzip.decompress(path.read_bytes()) for path in spool.rglob("*-logs.json.gz*")]
    assert any(b"shape mismatch" in body and b"train.exit" in body for body in kept)


@pytest.mark.parametrize("service", ["ok", "absent"])
def test_a_verbose_root_logger_sees_nothing_of_ours(service: str, tmp_path: Path) -> None:
    source = (
        "import logging, sys\nlogging.basicConfig(level=logging.DEBUG, stream=sys.stderr)\nimport firstfault\nfirstfault.init()\n"
        "for n in range(50):\n    firstfault.log({'loss': float('nan')}, step=n)\nfirstfault.event('x', {'text': '\\udcff'})\n"
        "firstfault.flush(3)\n"
    )
    with _service(service) as endpoint:
        outcome = run(source, environment(endpoint), tmp_path)
    assert (outcome.code, outcome.stderr) == (0, "")


FORKS = """
import firstfault, gc, multiprocessing as mp, threading
firstfault.init()
stop = threading.Event()
def noise():
    while not stop.is_set():
        firstfault.event("noise", {"n": 1})
        firstfault.log({"loss": 1.0}, step=1)
        firstfault.flush(0.001)
def work(n):
    gc.collect()
    if n % 2:
        firstfault.log({"from": float(n)}, step=n)
        firstfault.event("child", {"n": n})
threads = [threading.Thread(target=noise) for _ in range(3)]
for thread in threads: thread.start()
context = mp.get_context("fork")
for epoch in range(EPOCHS):
    children = [context.Process(target=work, args=(n,)) for n in range(8)]
    for child in children: child.start()
    for child in children: child.join(30)
    assert [child.exitcode for child in children] == [0] * 8, [child.exitcode for child in children]
stop.set()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize(("service", "epochs"), [("ok", 3), ("absent", 2)])
def test_forked_workers_never_hang(service: str, epochs: int, tmp_path: Path) -> None:
    with _service(service) as endpoint:
        outcome = run(FORKS.replace("EPOCHS", str(epochs)), environment(endpoint), tmp_path, timeout_s=110)
    assert (outcome.code, outcome.stderr) == (0, "")
