"""The Flink job: input topic → worker → node → run → fleet → output topics. Run by `flink run -py` of the job's own environment."""

import os
import sys
from typing import Any, Final

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import DeliveryGuarantee, KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaSink, KafkaSource
from pyflink.java_gateway import get_gateway

from firstfault_server.detect.flink.host import KeyedStage, byte_array, stage_rows
from firstfault_server.detect.flink.keyed_host import AFTER
from firstfault_server.detect.flink.partitions import check_partitions
from firstfault_server.detect.flink.plan import CLOCK_KEYS, MAX_PARALLELISM, Plan, PlanError, java_security, made_stages, read_plan
from firstfault_server.wire.outputs import TOPICS

INPUT: Final = "firstfault.otlp.v1"
LARGEST_REQUEST: Final = 72 << 20
"""More than the topics allow, so that nothing fails here which a topic would take."""
TRANSACTION_MS: Final = 900_000
"""What was written before a crash waits this long for the job to come back; the broker's default maximum."""


def main(arguments: list[str]) -> int:
    """Submit the job and print its id; exit status."""
    try:
        plan = read_plan(arguments, os.environ)
        made_stages(plan)
        check_partitions(plan, plan.topic(INPUT), _jvm())
        environment = build(plan)
    except (PlanError, ValueError) as error:
        print(f"detect: {error}", file=sys.stderr)
        return 2
    print("JOB", environment.execute_async(plan.group).get_job_id(), flush=True)
    return 0


def build(plan: Plan) -> StreamExecutionEnvironment:
    """The whole topology. Raises PlanError."""
    environment = StreamExecutionEnvironment.get_execution_environment(_configuration(plan))
    environment.set_parallelism(plan.flink_parallelism)
    environment.set_max_parallelism(MAX_PARALLELISM)
    source = _source(environment, plan)
    worker = _stage("worker", source, plan)
    node = _stage("node", _onward(worker, "node"), plan)
    run = _stage("run", _onward(worker, "run").union(_onward(node, "run")), plan)
    fleet = _stage("fleet", _onward(run, "fleet"), plan)
    worker.union(node, run, fleet).sink_to(_sink(plan)).uid("sink").name("topics")
    return environment


def _configuration(plan: Plan) -> Configuration:
    configuration = Configuration()
    for name, value in {
        "python.execution-mode": "thread",
        "execution.checkpointing.interval": f"{round(plan.flink_checkpoint_s * 1000)} ms",
        "execution.buffer-timeout.interval": "10 ms",
        "state.backend.type": plan.flink_backend,
        "pipeline.object-reuse": "true",
        # What fails again and again needs a person; a store that is away for a quarter of an hour does not.
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "500 ms",
        "restart-strategy.exponential-delay.max-backoff": "30 s",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "5 min",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": "40",
    }.items():
        configuration.set_string(name, value)
    return configuration


def _source(environment: StreamExecutionEnvironment, plan: Plan) -> DataStream:
    earliest = KafkaOffsetsInitializer.earliest()
    starts = {
        "committed": lambda: KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
        "earliest": lambda: earliest,
        "latest": KafkaOffsetsInitializer.latest,
    }
    builder = KafkaSource.builder().set_bootstrap_servers(plan.kafka_bootstrap).set_topics(plan.topic(INPUT)).set_group_id(plan.group)
    builder = builder.set_starting_offsets(starts[plan.flink_start]())
    for name, value in java_security(plan.kafka_security).items():
        builder = builder.set_property(name, value)
    builder._j_builder.setDeserializer(_jvm().firstfault.LogRecords(MAX_PARALLELISM, CLOCK_KEYS))
    # Partitions are read at the same pace: what one is ahead waits in the stages until all have come that far.
    receive_time = WatermarkStrategy(_jvm().firstfault.ReceiveTime.strategy())
    aligned = receive_time.with_watermark_alignment("input", Duration.of_seconds(5), Duration.of_millis(200))
    return environment.from_source(builder.build(), aligned, "input", stage_rows()).uid("source")


def _stage(name: str, rows: DataStream, plan: Plan) -> DataStream:
    # Rows have their key in the first field, so no Python is called to find it.
    selector = _jvm().org.apache.flink.streaming.api.functions.python.KeyByKeySelector()
    keyed = rows._j_data_stream.keyBy(selector, Types.ROW([Types.STRING()]).get_java_type_info())
    made = KeyedStream(keyed, byte_array(), rows).process(KeyedStage(name, plan), byte_array()).uid(name).name(name)
    parted = made._j_data_stream.process(_jvm().firstfault.Packets(_topics(plan), ",".join(AFTER.values())))
    return DataStream(parted).uid(f"{name}-parted").name("parted")


def _onward(stage: DataStream, target: str) -> DataStream:
    """Rows of a stage for another. Java's side outputs, since PyFlink's would pass each row through Python once more."""
    rows = stage._j_data_stream.getSideOutput(_jvm().firstfault.Packets.tag(target))
    gathered = rows.transform("gathered", stage_rows().get_java_type_info(), _jvm().firstfault.Gather())
    return DataStream(gathered)


def _sink(plan: Plan) -> KafkaSink:
    builder = KafkaSink.builder().set_bootstrap_servers(plan.kafka_bootstrap)
    builder._j_builder.setRecordSerializer(_jvm().firstfault.TopicRows(_topics(plan)))
    properties = {"linger.ms": "5", "compression.type": "zstd", "max.request.size": str(LARGEST_REQUEST)}
    if plan.flink_guarantee == "exactly-once":
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(plan.group)
        properties["transaction.timeout.ms"] = str(TRANSACTION_MS)
        # The other way makes new transaction ids with every checkpoint, and a broker keeps each for a week.
        naming = _jvm().org.apache.flink.connector.kafka.sink.TransactionNamingStrategy
        builder._j_builder.setTransactionNamingStrategy(naming.POOLING)
    else:
        builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    for name, value in (properties | java_security(plan.kafka_security)).items():
        builder.set_property(name, value)
    return builder.build()


def _topics(plan: Plan) -> str:
    """All that is written to, in the order in which packets count them."""
    return ",".join(plan.topic(name) for name in TOPICS.values())


def _jvm() -> Any:
    return get_gateway().jvm


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
