"""What a process reports about itself and how it ends (real processes)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sdk.jobs import Outcome, environment, run
from tests.unit.sdk.receiver import Receiver, Record, receiver

pytestmark = pytest.mark.integration


def _watched(source: str, folder: Path, **env: str) -> tuple[Receiver, Outcome]:
    with receiver() as box:
        # Not what the end of a job costs is tested here: the machine may be busy.
        outcome = run(source, environment(box.endpoint, FIRSTFAULT_EXIT_WAIT_S="40", **env), folder)
    return box, outcome


def _one(box: Receiver, event: str) -> Record:
    found = box.records(event)
    assert len(found) == 1, f"{len(found)} records {event}"
    return found[0]


def _exit(box: Receiver) -> dict[str, Any]:
    return {name.removeprefix("train.exit."): value for name, value in _one(box, "train.exit").attributes.items()}


CRASH = """
import firstfault
firstfault.init(run_id="r", run_name="n")
def forward(batch):
    raise RuntimeError("shape mismatch")
with firstfault.phase("train"):
    for step in range(4):
        firstfault.log({"loss": float("nan") if step == 2 else 1.0}, step=step)
    with firstfault.phase("evaluation", expect_s=30):
        forward([1])
"""


def test_a_crash(tmp_path: Path) -> None:
    box, outcome = _watched(CRASH, tmp_path, RANK="3", WORLD_SIZE="4", LOCAL_RANK="1")
    assert outcome.code == 1
    record = _one(box, "exception")
    attributes = record.attributes
    assert record.severity == 21
    assert (attributes["exception.type"], attributes["exception.message"]) == ("RuntimeError", "shape mismatch")
    assert (attributes["train.step"], attributes["train.phase.name"]) == (3, "evaluation")
    assert (attributes["firstfault.exception.fatal"], attributes["firstfault.exception.origin"]) == (True, "excepthook")
    frames = json.loads(attributes["firstfault.stack.frames"])
    assert [frame["function"] for frame in frames] == ["<module>", "forward"]
    assert frames[-1]["locals"] == {"batch": "list"} and frames[-1]["source"] == 'raise RuntimeError("shape mismatch")'
    assert outcome.stderr.rstrip().endswith(attributes["exception.stacktrace"].rstrip().splitlines()[-1])
    resource = record.resource
    assert (resource["train.run.id"], resource["train.rank"], resource["train.world_size"], resource["train.role"]) == (
        "r",
        3,
        4,
        "trainer",
    )
    end = _exit(box)
    assert (end["state"], end["code"], end["source"], end["reason"]) == ("failed", 1, "excepthook", "RuntimeError: shape mismatch")
    losses = [point.value for point in box.points("train.loss")]
    assert len(losses) == 4 and losses[2] != losses[2]
    assert [point.time_ns for point in box.points("train.step")] == [point.time_ns for point in box.points("train.loss")]
    states = [(one.attributes["train.phase.name"], one.attributes["train.phase.state"]) for one in box.records("train.phase")]
    assert states == [("train", "begin"), ("evaluation", "begin"), ("evaluation", "end"), ("train", "end")]
    numbers = sorted(request.sequence for request in box.requests)
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("pass", {"state": "finished", "code": 0}),
        ("sys.exit()", {"state": "finished", "code": 0}),
        ("sys.exit(0)", {"state": "finished", "code": 0}),
        ("sys.exit(7)", {"state": "failed", "code": 7, "reason": "exit status 7"}),
        ("sys.exit('no data')", {"state": "failed", "code": 1, "reason": "no data"}),
        ("sys.exit(143)", {"state": "cancelled", "code": 143, "signal": 15}),
        ("sys.exit(130)", {"state": "cancelled", "code": 130, "signal": 2}),
        ("raise KeyboardInterrupt", {"state": "cancelled", "code": 130, "signal": 2}),
        ("import threading; threading.Thread(target=sys.exit, args=(4,)).start()", {"state": "finished", "code": 0}),
        ("firstfault.shutdown(); sys.exit(3)", {"state": "finished", "reason": "shutdown"}),
    ],
)
def test_how_it_ended(ending: str, expected: dict[str, Any], tmp_path: Path) -> None:
    box, _ = _watched(f"import firstfault, sys\nfirstfault.init()\n{ending}\n", tmp_path)
    end = _exit(box)
    assert {name: end.get(name) for name in expected} == expected


def test_a_caught_exit_is_no_exit(tmp_path: Path) -> None:
    source = """
import firstfault, sys
firstfault.init()
firstfault.log({"loss": 1.0}, step=1)
try:
    sys.exit(3)
except SystemExit:
    pass
firstfault.log({"loss": 1.0}, step=2)
"""
    box, outcome = _watched(source, tmp_path)
    assert (outcome.code, _exit(box)["state"]) == (0, "finished")


def test_giving_up_in_a_handler_reports_the_cause(tmp_path: Path) -> None:
    source = """
import firstfault, sys
firstfault.init()
try:
    open("/does/not/exist")
except OSError as error:
    print("cannot read", file=sys.stderr)
    sys.exit(2)
"""
    box, outcome = _watched(source, tmp_path)
    assert (outcome.code, outcome.stderr) == (2, "cannot read\n")
    assert _one(box, "exception").attributes["exception.type"] == "FileNotFoundError"
    assert (_exit(box)["state"], _exit(box)["code"]) == ("failed", 2)


def test_a_threads_death_with_the_process_alive(tmp_path: Path) -> None:
    source = (
        "import firstfault, threading\nfirstfault.init()\nt = threading.Thread(target=lambda: 1 / 0, name='loader')\nt.start(); t.join()\n"
    )
    box, outcome = _watched(source, tmp_path)
    record = _one(box, "exception")
    assert (record.severity, record.attributes["thread.name"]) == (17, "loader")
    assert (record.attributes["firstfault.exception.fatal"], record.attributes["firstfault.exception.origin"]) == (False, "thread")
    assert "ZeroDivisionError" in outcome.stderr and _exit(box)["state"] == "finished"


def test_a_child_process_speaks_for_itself(tmp_path: Path) -> None:
    source = """
import firstfault, multiprocessing as mp
firstfault.init()
firstfault.log({"loss": 1.0}, step=5)
def work():
    raise ValueError("in the child")
quiet = mp.get_context("fork").Process(target=print)
loud = mp.get_context("fork").Process(target=work, name="worker-1")
for child in (quiet, loud):
    child.start(); child.join()
print(loud.pid)
"""
    box, outcome = _watched(source, tmp_path, RANK="1", WORLD_SIZE="2")
    record = _one(box, "exception")
    parent, child = box.records("train.exit")[-1].resource, record.resource
    assert record.attributes["firstfault.exception.origin"] == "multiprocessing"
    assert child["process.pid"] == int(outcome.stdout) != parent["process.pid"]
    assert (child["train.role"], child.get("train.rank")) == ("auxiliary", None)
    assert child["service.instance.id"] != parent["service.instance.id"]
    assert (child["train.run.id"], child["train.run.id.source"]) == (parent["train.run.id"], parent["train.run.id.source"])
    ends = {end.resource["process.pid"]: end.attributes["train.exit.state"] for end in box.records("train.exit")}
    assert ends == {child["process.pid"]: "failed", parent["process.pid"]: "finished"}
    assert [point.value for point in box.points("train.step")] == [5]


def test_ranks_forked_from_one_parent_are_one_run(tmp_path: Path) -> None:
    source = """
import firstfault, multiprocessing as mp, os
firstfault.init()
def rank(number):
    os.environ.update(RANK=str(number), WORLD_SIZE="2")
    firstfault.init()
    firstfault.log({"loss": 1.0}, step=1)
children = [mp.get_context(method).Process(target=rank, args=(n,)) for n, method in enumerate(("fork", "fork"))]
for child in children: child.start()
for child in children: child.join()
"""
    box, _ = _watched(source, tmp_path)
    resources = [record.resource for record in box.records("train.exit")]
    assert sorted(str(one.get("train.rank")) for one in resources) == ["0", "1", "None"]
    assert len({one["train.run.id"] for one in resources}) == 1
    assert {one["train.role"] for one in resources} == {"trainer"}


def test_a_spawned_worker_stays_quiet_until_it_speaks(tmp_path: Path) -> None:
    source = """
import firstfault, multiprocessing as mp, os, sys
firstfault.init()
def work(number):
    if number == 1:
        firstfault.log({"loss": 1.0}, step=1)
    if number == 2:
        os.environ.update(RANK="2", WORLD_SIZE="3")
        firstfault.event("ready")
if __name__ == "__main__":
    context = mp.get_context("spawn")
    children = [context.Process(target=work, args=(n,)) for n in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    print([child.exitcode for child in children])
"""
    box, outcome = _watched(source, tmp_path)
    assert outcome.stdout == "[0, 0, 0]\n"
    speakers = {one.resource["service.instance.id"]: one.resource for one in box.records()}
    found = sorted((one["train.role"], str(one.get("train.rank"))) for one in speakers.values())
    assert found == [("auxiliary", "None"), ("trainer", "2"), ("trainer", "None")]
    assert len({one["train.run.id"] for one in speakers.values()}) == 1
    assert {str(one["process.command_args"][-1]) for one in speakers.values()} == {str(tmp_path / "job.py")}


@pytest.mark.parametrize("prior", ["print('prior', kind.__name__)", "print('prior', kind.__name__); raise OSError('of the hook')"])
def test_the_hook_before_ours_is_called_once_with_the_same_arguments(prior: str, tmp_path: Path) -> None:
    source = f"""
import sys
def hook(kind, error, trace):
    assert error.__traceback__ is trace and type(error) is kind
    {prior}
sys.excepthook = hook
import firstfault
firstfault.init()
firstfault.init()
raise ValueError("x")
"""
    bare = run(source, environment(None), tmp_path)
    box, outcome = _watched(source, tmp_path)
    assert outcome.stdout == "prior ValueError\n" == bare.stdout
    assert outcome.code == bare.code == 1
    assert _one(box, "exception").attributes["exception.message"] == "x"


def test_a_hook_that_ends_the_process_at_once_does_not_swallow_the_report(tmp_path: Path) -> None:
    source = """
import os, sys
sys.excepthook = lambda *args: os._exit(9)
import firstfault
firstfault.init()
raise ValueError("x")
"""
    box, outcome = _watched(source, tmp_path)
    assert outcome.code == 9
    assert _one(box, "exception").attributes["exception.message"] == "x"
    assert _exit(box)["state"] == "failed"


def test_a_hook_that_replaces_ours_hides_nothing(tmp_path: Path) -> None:
    source = "import firstfault, sys\nfirstfault.init()\nsys.excepthook = lambda *args: print('other')\nraise ValueError('x')\n"
    box, outcome = _watched(source, tmp_path)
    assert (outcome.stdout, outcome.stderr, outcome.code) == ("other\n", "", 1)
    assert _one(box, "exception").attributes["firstfault.exception.fatal"] is True
    assert _exit(box)["state"] == "failed"


def test_calling_the_hook_by_hand_is_not_the_end(tmp_path: Path) -> None:
    source = """
import firstfault, sys
firstfault.init()
def show():
    try:
        1 / 0
    except ZeroDivisionError:
        sys.excepthook(*sys.exc_info())
show()
"""
    box, outcome = _watched(source, tmp_path)
    assert outcome.code == 0 and "ZeroDivisionError" in outcome.stderr
    record = _one(box, "exception")
    assert (record.severity, record.attributes["firstfault.exception.fatal"]) == (17, False)
    assert _exit(box)["state"] == "finished"


def test_captured_exceptions_and_events(tmp_path: Path) -> None:
    source = """
import firstfault
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
firstfault.init()
with TracerProvider().get_tracer("t").start_as_current_span("s") as span:
    try:
        raise ValueError("first")
    except ValueError:
        firstfault.capture_exception()
        firstfault.capture_exception()
    print(format(span.get_span_context().trace_id, "032x"))
for _ in range(20):
    firstfault.capture_exception(KeyError("second"))
firstfault.capture_exception()
firstfault.event("sampler.reset", {"n": 3, "why": "end", "items": [1, 2], "mixed": [1, "a"], "object": object(), "none": None})
firstfault.event("bare")
nest = [1]
for _ in range(100):
    nest = [nest] * 50
firstfault.event("nested", {"nest": nest})
"""
    box, outcome = _watched(source, tmp_path)
    records = box.records("exception")
    assert [record.attributes["exception.message"] for record in records] == ["first"] + ["'second'"] * 20
    assert {record.severity for record in records} == {17}
    assert records[0].trace_id == outcome.stdout.strip() and not records[1].trace_id
    attributes = _one(box, "sampler.reset").attributes
    assert attributes == {"n": 3, "why": "end", "items": [1, 2], "mixed": ["1", "a"], "object": "object", "none": "NoneType"}
    assert _one(box, "bare").attributes == {}
    assert _one(box, "nested").attributes == {"nest": ["list"] * 50}


def test_disabled_does_nothing(tmp_path: Path) -> None:
    source = """
import firstfault, sys, threading
hooks = lambda: (sys.excepthook, sys.exit, threading.excepthook)
before = hooks()
firstfault.init()
firstfault.log({"loss": 1.0}, step=1)
with firstfault.phase("x"):
    firstfault.event("y")
firstfault.capture_exception(ValueError())
print(firstfault.flush(), threading.active_count(), before == hooks(), "opentelemetry" in sys.modules)
firstfault.shutdown()
"""
    box, outcome = _watched(source, tmp_path, FIRSTFAULT_DISABLED="1")
    assert (outcome.stdout, outcome.stderr, box.requests) == ("True 1 True False\n", "", [])


def test_every_call_is_harmless_before_init_and_with_nonsense(tmp_path: Path) -> None:
    source = """
import firstfault
def nonsense():
    firstfault.log(None, step="x"); firstfault.log({1: object()}, step=[])
    firstfault.event(None, {None: None}); firstfault.event(3, [1])
    firstfault.capture_exception("text"); firstfault.flush(-1)
    with firstfault.phase(None, expect_s="soon"):
        pass
nonsense()
firstfault.init(endpoint="not an address")
nonsense()
firstfault.init()
nonsense()
firstfault.shutdown()
nonsense()
print("alive")
"""
    env = {"FIRSTFAULT_DEBUG_RAISE": "0"}
    _, outcome = _watched(source, tmp_path, **env)
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "alive\n", "")


def test_the_key_goes_into_the_header_and_nowhere_else(tmp_path: Path) -> None:
    key = "ffk_canary_0123456789"
    source = f"import firstfault\nfirstfault.init()\nfirstfault.event('e', {{'k': '{key}'}})\nraise ValueError('{key}')\n"
    box, _ = _watched(source, tmp_path, FIRSTFAULT_API_KEY=key)
    assert {request.headers["authorization"] for request in box.requests} == {f"Bearer {key}"}
    assert all(key.encode() not in raw for raw in box.raw)


def test_users_signal_handler_keeps_its_exception(tmp_path: Path) -> None:
    source = """
import firstfault, signal
firstfault.init()
class Stop(Exception):
    pass
def handler(number, frame):
    raise Stop
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
metrics = {"loss": 1.0}
try:
    while True:
        firstfault.log(metrics, step=1)
        firstfault.event("e", {"n": 1})
except Stop:
    print("stopped")
"""
    _, outcome = _watched(source, tmp_path)
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "stopped\n", "")
