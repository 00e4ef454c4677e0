"""A broker that is killed under the services: each says so soon, what can be answered is answered, and all go on by themselves."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from deploy.native.servers.kafka import Kafka
from firstfault_server.adapters.kafka import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.producer import DELIVERY_S
from firstfault_server.adapters.kafka.topics import topic_name
from tests.contract.logs import everything
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.services import Installation, Service

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
KINDS = ("ingest", "writer", "alerter", "api")
SOON_S = 6.0
"""Less than the time after which the client gives an append up, however busy the machine is."""


def test_a_killed_broker(broker: Kafka, elasticsearch_address: str, clickhouse_url: str, tmp_path: Path) -> None:
    assert SOON_S < DELIVERY_S
    with ExitStack() as stack:
        installation = Installation(broker.address, elasticsearch_address, clickhouse_url)
        stack.callback(installation.close)
        with ThreadPoolExecutor() as at_once:
            started = list(at_once.map(lambda kind: Service(kind, installation.environ(), tmp_path), KINDS))
        ingest, writer, alerter, api = (stack.enter_context(service) for service in started)
        for service in started:
            service.wait_until_ready()
        send_crash(ingest.url("otlp-http"), "r-before")

        broker.kill()
        killed = time.monotonic()
        wait_for(lambda: ingest.state()[0] == "not ready", "ingest says so", SOON_S)
        assert time.monotonic() - killed < DELIVERY_S
        assert list(ingest.problems()) == ["kafka"]
        with pytest.raises(OSError, match="503"):
            send_crash(ingest.url("otlp-http"), "r-refused")
        wait_for(lambda: set(writer.problems()) == {"context", "aggregates"}, "the writer says so")
        wait_for(lambda: list(alerter.problems()) == ["incidents"], "the alerter says so")
        wait_for(lambda: list(api.problems()) == ["stream"], "the API says so")
        assert api.state()[0] == "degraded"
        assert httpx.get(api.url("api") + "/v1/incidents", timeout=30, trust_env=False).status_code == 200

        broker.start()
        for service in started:
            service.wait_until_ready()
        send_crash(ingest.url("otlp-http"), "r-after")
        log = KafkaLog(installation.kafka, topic_name(installation.prefix, TOPIC))
        entries = [entry for _, entry in everything(log)]
        log.close()
        assert {"r-before-0", "r-after-0"} <= {entry.process for entry in entries}
