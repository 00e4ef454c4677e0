"""Kernel records reach every run that was on the node then, and nobody else."""

from typing import Any

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.stages.node import Node, NodeState
from firstfault_server.core.thresholds import Thresholds

SECOND = 1_000_000_000


def presence(process: str, when: float, *, run: str = "r1", tenant: str = "t1", pid: int | None = 7, ended: bool = False) -> model.Presence:
    who = model.Identity(tenant=tenant, process=process, run=run, node="n1", cluster="c1", pid=pid)
    return model.Presence(identity=who, received_ns=round(when * SECOND), ended=ended)


def kernel(name: str, when: float, symptom: str, role: Any = "initiating", **attributes: Any) -> model.Event:
    agent = model.Identity(tenant="ops", process="agent", run="", role="node_agent", node="n1", cluster="c1")
    return model.Event(
        id=f"{name}{when}",
        identity=agent,
        time_ns=round(when * SECOND),
        received_ns=round(when * SECOND),
        event_name=name,
        body="line",
        symptom=symptom,
        text_role=role,
        attributes={getattr(names, key): value for key, value in attributes.items()},
    )


class Stand:
    def __init__(self) -> None:
        self.stage = Node(Thresholds())
        self.state: NodeState = self.stage.new("c1/n1")

    def give(self, *records: Any) -> list[model.NodeFault]:
        out: list[model.NodeFault] = []
        for record in records:
            assert self.stage.key(record) == "c1/n1"
            made = self.stage.on_batch(self.state, [record], record.received_ns)
            self.state = self.stage.decode(self.stage.encode(self.state))
            out += [one for one in made if isinstance(one, model.NodeFault)]
        return out

    def tick(self, when: float) -> list[model.AnyRecord]:
        return self.stage.on_tick(self.state, round(when * SECOND))


def test_a_fact_reaches_every_run_of_every_tenant_once() -> None:
    told = Stand().give(
        presence("a", 1),
        presence("b", 1, run="r2", tenant="t2"),
        kernel(names.XID, 10, "gpu_lost", XID_CODE=79),
        kernel(names.XID, 10, "gpu_lost", XID_CODE=79),
        presence("a", 12),
    )
    assert [(one.tenant, one.run, one.code, one.process, one.initiates) for one in told] == [
        ("t1", "r1", 79, "", True),
        ("t2", "r2", 79, "", True),
    ]
    assert len({one.id for one in told}) == 2


def test_a_pid_names_the_process_and_spares_the_other_runs() -> None:
    told = Stand().give(presence("a", 1, pid=7), presence("b", 1, run="r2", pid=8), kernel(names.OOM_KILL, 10, "host_oom", VICTIM_PID=8))
    assert [(one.run, one.process, one.kind) for one in told] == [("r2", "b", "oom_kill")]


def test_presence_that_comes_after_the_fact_still_hears_of_it() -> None:
    told = Stand().give(kernel(names.OOM_KILL, 10, "host_oom", VICTIM_PID=7), presence("a", 11, pid=7))
    assert [(one.run, one.process) for one in told] == [("r1", "a")]


def test_runs_that_came_later_or_left_before_are_not_concerned() -> None:
    assert not Stand().give(kernel(names.XID, 10, "gpu_lost", XID_CODE=79), presence("a", 500))
    assert not Stand().give(presence("a", 10), presence("a", 20, ended=True), kernel(names.XID, 500, "gpu_lost", XID_CODE=79))


def test_application_xids_never_initiate() -> None:
    (told,) = Stand().give(presence("a", 1), kernel(names.XID, 10, "cuda_illegal_access", "cascade", XID_CODE=31))
    assert not told.initiates


def test_other_kernel_lines_are_evidence_only() -> None:
    (told,) = Stand().give(presence("a", 1), kernel(names.KERNEL, 10, "network_error"))
    assert (told.kind, told.initiates) == ("kernel", False)


def test_a_node_whose_processes_all_fell_silent_is_told_once() -> None:
    stand = Stand()
    stand.give(presence("a", 10), presence("b", 11))
    due = stand.stage.deadline(stand.state)
    assert due is not None and 31 * SECOND < due < 32 * SECOND
    told = stand.tick(32)
    assert [(one.kind, one.symptom) for one in told if isinstance(one, model.NodeFault)] == [("silent", "node_failure")]
    assert stand.tick(33) == []


def test_a_hole_in_receive_time_makes_no_node_silent() -> None:
    stand = Stand()
    stand.give(presence("a", 10), presence("b", 11))
    stand.stage.on_hole(stand.state, 60 * SECOND, 72 * SECOND)
    assert stand.tick(73) == []
    due = stand.stage.deadline(stand.state)
    assert due is not None and due > 100 * SECOND


def test_an_empty_node_is_forgotten() -> None:
    stand = Stand()
    stand.give(presence("a", 10), presence("a", 20, ended=True))
    stand.tick(4000)
    assert stand.stage.deadline(stand.state) is None


def test_memory_is_bounded_under_a_storm_of_records() -> None:
    stand = Stand()
    stand.give(presence("a", 1))
    for number in range(1000):
        stand.stage.on_batch(stand.state, [kernel(names.XID, 10 + number / 1000, "gpu_lost", XID_CODE=79)], 0)
    assert len(stand.stage.encode(stand.state)) < 60_000
