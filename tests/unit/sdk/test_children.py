"""Ranks that are children of `multiprocessing` and report only from their own target: how they end is told all the same."""

from pathlib import Path

import pytest

from tests.unit.sdk.jobs import environment, run
from tests.unit.sdk.receiver import receiver

_SOURCE = """
import multiprocessing as mp, os, sys, traceback
{top}
def give_up():
    try:
        raise KeyError("lost")
    except KeyError:
        sys.exit(4)
def fail():
    raise ValueError("in the target")
def leave():
    raise SystemExit(3)
def work(end):
    import firstfault
    os.environ.update(RANK="1", WORLD_SIZE="2")
    firstfault.init(sidecar=False)
    with firstfault.phase("train"):
        firstfault.log({{"loss": 1.0}}, step=7)
        end()
if __name__ == "__main__":
    child = mp.get_context("{method}").Process(target=work, args=({end},), name="rank-1")
    child.start(); child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize("top", ["", "import firstfault; firstfault.init(sidecar=False)"], ids=["bare", "init-above"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("end", "code", "exception"),
    [("fail", 1, "ValueError"), ("give_up", 4, "KeyError"), ("leave", 3, None), ("int", 0, None)],
)
def test_a_child_that_starts_to_report_in_its_target_tells_its_end(
    end: str, code: int, exception: str | None, method: str, top: str, tmp_path: Path
) -> None:
    source = _SOURCE.format(end=end, method=method, top=top)
    bare = run(source, environment(None, FIRSTFAULT_DISABLED="1"), tmp_path)
    with receiver() as box:
        outcome = run(source, environment(box.endpoint, FIRSTFAULT_EXIT_WAIT_S="40"), tmp_path)
    assert (outcome.stdout, outcome.stderr) == (bare.stdout, bare.stderr)
    assert outcome.stdout == f"{code}\n"
    exits = [record for record in box.records("train.exit") if record.resource.get("train.rank") == 1]
    ends = [(record.attributes["train.exit.state"], record.attributes["train.exit.code"]) for record in exits]
    assert ends == [("failed" if code else "finished", code)]
    found = [record.attributes["exception.type"] for record in box.records("exception")]
    assert found == ([exception] if exception else [])
    assert [point.value for point in box.points("train.step")] == [7]
