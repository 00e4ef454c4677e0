"""Settings of the Flink job, and outputs that cannot be written."""

from typing import Any

import msgspec
import pytest

from firstfault_server.adapters.kafka.topics import PARTITIONS
from firstfault_server.core import model
from firstfault_server.detect.flink.emission import written
from firstfault_server.detect.flink.holes import Hole, Holes
from firstfault_server.detect.flink.plan import PlanError, java_security, made_stages, read_plan
from firstfault_server.settings import Settings
from firstfault_server.wire.outputs import DEAD_LETTERS, ROLLUPS, incoming

S = 1_000_000_000


def test_arguments_win_over_the_environment() -> None:
    environment = {"FIRSTFAULT_KAFKA_BOOTSTRAP": "a:1", "FIRSTFAULT_KAFKA_PREFIX": "b", "FIRSTFAULT_THRESHOLDS": '{"settle_s": 2.5}'}
    plan = read_plan(["--kafka-prefix", "c", "--flink-parallelism", "4"], environment)
    assert (plan.kafka_bootstrap, plan.kafka_prefix, plan.flink_parallelism, plan.thresholds) == ("a:1", "c", 4, {"settle_s": 2.5})
    assert plan.topic("firstfault.otlp.v1") == "c.otlp.v1"


def test_settings_that_other_services_have_are_called_the_same() -> None:
    names = {field.name for field in msgspec.structs.fields(type(read_plan(["--kafka-bootstrap", "a:1"], {})))}
    assert {name for name in names if not name.startswith("flink_")} <= set(Settings.model_fields)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "kafka_bootstrap"),
        (["--kafka-bootstrap", "a:1", "--flink-parallelism", "33"], "flink_parallelism"),
        (["--kafka-bootstrap", "a:1", "--flink-guarantee", "mostly"], "flink_guarantee"),
        (["--kafka-bootstrap", "a:1", "--thresholds", "{"], "thresholds: not JSON"),
        (["--kafka-bootstrap", "a:1", "--thresholds", '{"settle": 1}'], "thresholds: unknown settle .did you mean settle_s"),
    ],
)
def test_a_setting_that_cannot_be_is_named(arguments: list[str], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read_plan(arguments, {})


@pytest.mark.parametrize(("parallelism", "partitions"), [("13", "12"), ("13", None), ("4", "3")])
def test_an_instance_of_the_source_without_a_partition_is_refused(parallelism: str, partitions: str | None) -> None:
    """It would never have seen a record, and the time of the job would never begin."""
    environment = {"FIRSTFAULT_KAFKA_BOOTSTRAP": "a:1", "FIRSTFAULT_FLINK_PARALLELISM": parallelism}
    environment |= {"FIRSTFAULT_KAFKA_PARTITIONS": partitions} if partitions else {}
    with pytest.raises(PlanError, match=f"to at most {partitions or '12'},"):
        read_plan([], environment)
    read_plan([], environment | {"FIRSTFAULT_KAFKA_PARTITIONS": parallelism})


def test_the_job_counts_on_the_partitions_that_migrate_makes() -> None:
    plan = read_plan(["--kafka-bootstrap", "a:1"], {})
    assert plan.kafka_partitions == Settings.model_fields["kafka_partitions"].default == PARTITIONS


def test_stages_come_from_a_factory() -> None:
    plan = read_plan(["--kafka-bootstrap", "a:1"], {})
    assert list(made_stages(plan)) == ["worker", "node", "run", "fleet"]
    with pytest.raises(PlanError, match="flink_stages"):
        made_stages(msgspec.structs.replace(plan, flink_stages="firstfault_server.nowhere:stages"))


def test_options_of_librdkafka_are_translated() -> None:
    found = java_security(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": 'a"b',
            "sasl.password": "c",
            "ssl.ca.location": "/ca",
        }
    )
    assert found.pop("sasl.jaas.config").endswith('scram.ScramLoginModule required username="a\\"b" password="c";')
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.location": "/ca",
        "ssl.truststore.type": "PEM",
    }
    with pytest.raises(PlanError, match=r"ssl\.key\.password"):
        java_security({"ssl.key.password": "x"})


def test_an_output_that_cannot_be_written_costs_only_itself() -> None:
    good = model.Rollup(tenant="t", run="r", process="p", metric="m", window_ns=0, position="1", count=1)
    bad: Any = msgspec.structs.replace(good, metric="\ud800", count=1 << 80)
    sent, lost = written([good, bad], 5)
    assert lost == 1
    assert [one.topic for one in sent] == [ROLLUPS, DEAD_LETTERS]
    assert incoming(ROLLUPS, sent[0].value) == [good]
    (letter,) = incoming(DEAD_LETTERS, sent[1].value)
    assert letter.reason.startswith("cannot be written: ")


def test_time_that_flows_has_no_holes() -> None:
    holes = Holes()
    for second in range(1, 100):
        holes.see(second * S)
    assert holes.known == []


def test_a_jump_is_a_hole_for_whoever_was_there_before_it() -> None:
    holes = Holes()
    holes.see(100 * S)
    holes.see(160 * S)
    assert holes.since(99 * S) == [Hole(100 * S, 160 * S)]
    assert holes.since(160 * S) == []
    assert [second for second in (100, 101, 102, 160, 161) if holes.swallows(second)] == [102, 160]


def test_a_jump_over_a_restart_is_seen_by_what_was_kept() -> None:
    before, after = Holes(), Holes()
    before.see(50 * S)
    before.see(70 * S)
    before.see(71 * S)
    kept = before.kept()
    after.restore(kept)
    assert after.known == [], "the time is not known yet"
    after.see(131 * S)
    after.restore(kept)
    assert after.known == [Hole(50 * S, 70 * S), Hole(71 * S, 131 * S)]
    after.restore(kept)
    assert len(after.known) == 2
