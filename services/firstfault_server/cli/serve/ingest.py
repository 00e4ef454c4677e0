"""`firstfault serve ingest`: receivers of OTLP that write to Kafka."""

from confluent_kafka.admin import AdminClient

from firstfault_server.adapters.kafka import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.offsets import newest_ns
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.cli import addresses, connections
from firstfault_server.cli.process import Process
from firstfault_server.cli.serve.health import serve_health
from firstfault_server.cli.serve.stores import open_context_stores
from firstfault_server.cli.servers import GrpcServer, HttpServer
from firstfault_server.cli.tracing import traced_app
from firstfault_server.ingest.access import Access
from firstfault_server.ingest.clock import ReceiveClock, follow_others, write_clock_records
from firstfault_server.ingest.grpc import otlp_server
from firstfault_server.ingest.http import otlp_app
from firstfault_server.ingest.receiver import Limits, Receiver
from firstfault_server.ingest.telemetry import IngestMetrics
from firstfault_server.ingest.watching import WatchedLog

SECOND_NS = 1_000_000_000


async def start_ingest(process: Process) -> str:
    """Start everything; returns the ready line."""
    settings = process.settings
    connection, topic = connections.kafka_connection(settings), topic_name(settings.kafka_prefix, TOPIC)
    http, grpc = addresses.parse(settings.otlp_http), addresses.parse(settings.otlp_grpc)
    metrics = IngestMetrics(process.registry)
    log = WatchedLog(KafkaLog(connection, topic))
    process.stack.callback(log.close)
    access = Access(
        open_context_stores(process).access, open_without_keys=http.loopback and grpc.loopback, stale=lambda: metrics.stale_keys.inc()
    )
    clock, admin = ReceiveClock(process.clock), AdminClient(connection.options())
    follow = follow_others(
        clock, lambda: newest_ns(admin, connection, topic), lambda behind_ns: metrics.clock_behind_seconds.set(behind_ns / SECOND_NS)
    )
    process.background(follow, "follow")
    process.background(write_clock_records(log, clock), "clock")
    receiver = Receiver(log, access, clock, metrics, Limits(tenant_bytes_per_s=settings.tenant_bytes_per_s))
    grpc_server = GrpcServer(otlp_server(receiver), grpc, settings.drain_s)
    http_server = HttpServer(traced_app(otlp_app(receiver), process.tracer), process.listen(http), settings.drain_s)
    await process.serve(grpc_server)
    await process.serve(http_server)
    health = await serve_health(process, settings.ingest_health, lambda: {"kafka": log.problem})
    return f"ready otlp-http={http_server.address} otlp-grpc={grpc_server.address} health={health}"
