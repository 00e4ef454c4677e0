"""Whether the input has a partition for each instance of the source: asked of Kafka itself when the job is made."""

import sys
from typing import Any, Final

from firstfault_server.detect.flink.plan import Plan, PlanError, java_security

ANSWER_S: Final = 10


def check_partitions(plan: Plan, topic: str, jvm: Any) -> None:
    """Raises PlanError when the topic has fewer than the plan has instances: one without would hold back the time of all stages.

    When Kafka does not say, a line goes to stderr and that is all: a JobManager that comes back while Kafka is away must find its job.
    """
    try:
        found = _partitions(plan, topic, jvm)
    except Exception as error:
        # Whatever the JVM throws; its last line names it.
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        print(f"detect: Kafka did not say how many partitions {topic} has: {reason[0].strip()}", file=sys.stderr)
        return
    if found < plan.flink_parallelism:
        raise PlanError(
            f"flink_parallelism: {plan.flink_parallelism} instances of the source cannot share the {found} partitions of {topic}; set it "
            f"to at most {found}"
        )


def _partitions(plan: Plan, topic: str, jvm: Any) -> int:
    properties = jvm.java.util.Properties()
    for name, value in {
        "bootstrap.servers": plan.kafka_bootstrap,
        "default.api.timeout.ms": str(ANSWER_S * 1000),
        "request.timeout.ms": str(ANSWER_S * 500),
        **java_security(plan.kafka_security),
    }.items():
        properties.setProperty(name, value)
    admin = jvm.org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        described = admin.describeTopics(jvm.java.util.Collections.singletonList(topic)).allTopicNames()
        return int(described.get(ANSWER_S, jvm.java.util.concurrent.TimeUnit.SECONDS).get(topic).partitions().size())
    finally:
        admin.close(jvm.java.time.Duration.ZERO)
