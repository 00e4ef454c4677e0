"""What the job is told: settings of the service under their usual names, and a few of its own. No PyFlink here."""

import argparse
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from firstfault_server.core.stages import build_stages
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.thresholds import Thresholds, overridden
from firstfault_server.detect.flink.keyed_host import CACHED
from firstfault_server.tables import load_tables

MAX_PARALLELISM: Final = 128
"""Key groups of the state; a job with another number cannot read it."""
CLOCK_KEYS: Final = 32
"""Key groups with a clock key, and so the most instances a stage may have."""
ENVIRONMENT: Final = "FIRSTFAULT_"
STAGES: Final = "firstfault_server.detect.flink.plan:stages"

Parallelism = Annotated[int, msgspec.Meta(ge=1, le=CLOCK_KEYS)]
Partitions = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Cached = Annotated[int, msgspec.Meta(ge=1)]


class PlanError(ValueError):
    """A setting cannot be; the message names it."""


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of the job. Each is an argument (`--kafka-bootstrap`) or an environment variable (`FIRSTFAULT_KAFKA_BOOTSTRAP`)."""

    kafka_bootstrap: str
    kafka_prefix: str = "firstfault"
    kafka_partitions: Partitions = 12
    """Partitions of the input. An instance of the source without one would hold back the time of all stages."""
    kafka_security: dict[str, str] = {}
    """Options of librdkafka, as for the other services."""
    thresholds: dict[str, float] = {}
    flink_parallelism: Parallelism = 1
    flink_guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once"
    flink_checkpoint_s: Seconds = 1.0
    flink_backend: Literal["hashmap", "rocksdb"] = "hashmap"
    flink_start: Literal["committed", "earliest", "latest"] = "committed"
    """Where a job without a savepoint starts; `committed` falls back to the earliest record."""
    flink_cached: Cached = CACHED
    """Keys whose state each instance of a stage keeps decoded."""
    flink_stages: str = STAGES
    """`module:function` that makes the stages from the thresholds."""

    def topic(self, name: str) -> str:
        """A topic of the service, `firstfault.….v1`, as it is called here."""
        return self.kafka_prefix + name.removeprefix("firstfault")

    @property
    def group(self) -> str:
        """Consumer group, and what names of transactions start with."""
        return f"{self.kafka_prefix}.detect"


def read_plan(arguments: Sequence[str], environment: Mapping[str, str]) -> Plan:
    """Settings from arguments, then the environment. Raises PlanError."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(Plan)}
    parser = argparse.ArgumentParser(description="Detection as a Flink job.", allow_abbrev=False)
    for name in fields:
        parser.add_argument(f"--{name.replace('_', '-')}", default=environment.get(ENVIRONMENT + name.upper()))
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    for name in ("kafka_security", "thresholds"):
        if name in given:
            try:
                given[name] = json.loads(given[name])
            except ValueError as error:
                raise PlanError(f"{name}: not JSON: {error}") from error
    try:
        plan = msgspec.convert(given, Plan, strict=False)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from error
    if plan.flink_parallelism > plan.kafka_partitions:
        raise PlanError(
            f"flink_parallelism: {plan.flink_parallelism} instances of the source cannot share {plan.kafka_partitions} partitions; set it "
            f"to at most {plan.kafka_partitions}, or kafka_partitions to the number that the input has"
        )
    try:
        overridden(plan.thresholds)
    except ValueError as error:
        raise PlanError(f"thresholds: {error}") from error
    return plan


def stages(thresholds: Thresholds) -> dict[str, Stage[Any]]:
    """The stages with the tables of the package. Raises TableError."""
    tables = load_tables()
    return build_stages(
        thresholds,
        tables.taxonomy,
        tables.text_reader(),
        tables.advice,
        codes=tables.codes,
        frames=tables.frames,
        advice_marks=tables.patterns.advice_marks,
    )


def made_stages(plan: Plan) -> Mapping[str, Stage[Any]]:
    """The stages of a plan. Raises PlanError for a factory that is not there."""
    module, _, name = plan.flink_stages.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PlanError(f"flink_stages: {error}") from error
    made: Mapping[str, Stage[Any]] = factory(overridden(plan.thresholds))
    return made


_JAVA_NAMES: Final = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}


def java_security(security: Mapping[str, str]) -> dict[str, str]:
    """Options of librdkafka as the Java client calls them. Raises PlanError for one that is not known here."""
    left = dict(security)
    user, password = left.pop("sasl.username", None), left.pop("sasl.password", "")
    unknown = sorted(left.keys() - _JAVA_NAMES.keys())
    if unknown:
        raise PlanError(f"kafka_security: the Flink job does not know {', '.join(unknown)}")
    found = {_JAVA_NAMES[name]: value.lower() if value == "none" else value for name, value in left.items()}
    if "ssl.truststore.location" in found:
        found["ssl.truststore.type"] = "PEM"
    if "security.protocol" in found:
        found["security.protocol"] = found["security.protocol"].upper()
    if user is not None:
        mechanism = found.setdefault("sasl.mechanism", "PLAIN")
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        path = f"org.apache.flink.kafka.shaded.org.apache.kafka.common.security.{module}"
        found["sasl.jaas.config"] = f"{path} required username={json.dumps(user)} password={json.dumps(password)};"
    return found
