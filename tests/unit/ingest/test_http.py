"""The HTTP receiver: what is taken, refused and answered, and how."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.ingest.http import Application, otlp_app
from firstfault_server.ingest.receiver import Limits
from firstfault_server.ports import StorageFull
from tests.unit.ingest.stand import stand
from tests.unit.wire.requests import NOW, json_logs, json_metrics, logs, metrics, resource

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


def packed(data: bytes) -> bytes:
    """As gzip, without the time of day, which would give each worker of a test run other test names."""
    return gzip.compress(data, mtime=0)


BODY = metrics({"train.loss": [(NOW, 1.0)]}).SerializeToString()


def test_what_is_acknowledged_is_in_the_log(tmp_path: Path) -> None:
    with stand(tmp_path) as (made, client):
        answer = client.post("/v1/metrics", content=BODY, headers=PROTOBUF)
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"", "application/x-protobuf")
        (entry,) = made.stored()
    assert (entry.tenant, entry.process, entry.signal, entry.body, entry.received_ns) == ("default", "p0", "metrics", BODY, NOW)


@pytest.mark.parametrize(
    ("path", "document"), [("metrics", json_metrics({"m": [{"asDouble": 1}]})), ("logs", json_logs([{}])), ("traces", {})]
)
def test_json_gets_json_without_partial_success(tmp_path: Path, path: str, document: dict[str, Any]) -> None:
    with stand(tmp_path) as (_, client):
        answer = client.post(f"/v1/{path}", content=orjson.dumps(document), headers={"content-type": "application/json; charset=utf-8"})
    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == "application/json"


def test_partial_success_counts_and_says_why(tmp_path: Path) -> None:
    document = json_metrics({"m": [{"asDouble": "x"}, {"asDouble": 1}]})
    with stand(tmp_path) as (made, client):
        answer = client.post("/v1/metrics", content=orjson.dumps(document), headers=JSON)
        assert len(made.stored()) == 1
        assert made.count("firstfault_ingest_rejected_total", signal="metrics", reason="a value is not a number") == 1
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"] == {"rejectedDataPoints": "1", "errorMessage": "1 × a value is not a number"}


def test_node_records_without_the_scope_are_refused_in_partial_success(tmp_path: Path) -> None:
    body = logs([{"event_name": "node.xid"}, {"body": "x"}]).SerializeToString()
    with stand(tmp_path) as (made, client):
        plain, node = made.key("plain"), made.key("node", "ingest", "node")
        refused = client.post("/v1/logs", content=body, headers={**PROTOBUF, "authorization": plain})
        allowed = client.post("/v1/logs", content=body, headers={**PROTOBUF, "authorization": node})
    partial = ExportLogsServiceResponse.FromString(refused.content).partial_success
    assert (refused.status_code, partial.rejected_log_records) == (200, 1)
    assert "scope node" in partial.error_message
    assert allowed.content == b""


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("gzip", packed(BODY)),
        ("gzip", packed(BODY[:9]) + packed(BODY[9:])),
        ("zstd", zstandard.compress(BODY)),
        ("identity", BODY),
        ("GZIP", packed(BODY)),
    ],
)
def test_compressed_bodies(tmp_path: Path, encoding: str, sent: bytes) -> None:
    with stand(tmp_path) as (made, client):
        assert client.post("/v1/metrics", content=sent, headers={**PROTOBUF, "content-encoding": encoding}).status_code == 200
        assert made.stored()[0].body == BODY


@pytest.mark.parametrize(
    ("headers", "body", "status", "reason"),
    [
        ({"content-type": "text/plain"}, b"x", 415, "content type"),
        ({}, b"x", 415, "content type"),
        ({**PROTOBUF, "content-encoding": "br"}, b"x", 415, "encoding"),
        ({**PROTOBUF, "content-encoding": "gzip"}, b"x", 400, "gzip"),
        ({**PROTOBUF, "content-encoding": "gzip"}, packed(BODY)[:-9], 400, "gzip"),
        ({**PROTOBUF, "content-encoding": "gzip"}, packed(BODY) + b"x", 400, "gzip"),
        ({**PROTOBUF, "content-encoding": "gzip"}, b"", 400, "gzip"),
        ({**PROTOBUF, "content-encoding": "gzip"}, packed(b"x" * 2000) * 2, 413, "smaller batches"),
        ({**PROTOBUF, "content-encoding": "zstd"}, b"x", 400, "zstd"),
        ({**PROTOBUF, "content-encoding": "zstd"}, zstandard.compress(BODY)[:-3], 400, "zstd"),
        (PROTOBUF, b"\xff", 400, "protobuf"),
        (JSON, b"{", 400, "JSON"),
        (JSON, b"\xff\xfe\xfd", 400, "JSON"),
        (PROTOBUF, b"x" * 2000, 413, "smaller batches"),
        ({**PROTOBUF, "content-encoding": "gzip"}, packed(b"x" * 4000), 413, "smaller batches"),
        ({**PROTOBUF, "content-encoding": "zstd"}, zstandard.compress(b"x" * 4000), 413, "smaller batches"),
    ],
)
def test_refusals_have_a_status_and_a_reason(tmp_path: Path, headers: dict[str, str], body: bytes, status: int, reason: str) -> None:
    with stand(tmp_path, Limits(body_bytes=1000, plain_bytes=3000)) as (made, client):
        answer = client.post("/v1/metrics", content=body, headers=headers)
        assert made.stored() == []
    assert answer.status_code == status
    said = answer.json()["message"] if headers.get("content-type") == "application/json" else Status.FromString(answer.content).message
    assert reason in said


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = zstandard.compress(b"\0" * (64 << 20))
    with stand(tmp_path, Limits(plain_bytes=1 << 20)) as (_, client):
        assert client.post("/v1/metrics", content=bomb, headers={**PROTOBUF, "content-encoding": "zstd"}).status_code == 413


def test_bad_keys_get_a_problem(tmp_path: Path) -> None:
    with stand(tmp_path) as (made, client):
        made.key("good")
        reader = made.key("reader", "read")
        revoked = made.key("old", revoked_ns=NOW)
        tries = [None, "Bearer ffk_wrong", "Basic abc", revoked, reader]
        answers = [client.post("/v1/metrics", content=BODY, headers={**PROTOBUF, **({"authorization": t} if t else {})}) for t in tries]
        assert made.stored() == []
    assert [a.status_code for a in answers] == [401, 401, 401, 401, 403]
    assert {a.headers["content-type"] for a in answers} == {"application/problem+json"}
    assert all(a.json()["status"] == a.status_code and a.json()["detail"] for a in answers)


def test_the_key_names_the_tenant(tmp_path: Path) -> None:
    forged = metrics({"m": [(NOW, 1.0)]}, {**resource(), "firstfault.tenant": "victim"}).SerializeToString()
    with stand(tmp_path) as (made, client):
        header = made.key("good", tenant="acme")
        assert client.post("/v1/metrics", content=forged, headers={**PROTOBUF, "authorization": header}).status_code == 200
        (entry,) = made.stored()
    assert entry.tenant == "acme"
    assert b"victim" not in entry.body


def test_a_full_disk_is_said_and_nothing_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(self: FileLog, entries: object) -> None:
        raise StorageFull("no space left for the log in /secret/path")

    monkeypatch.setattr(FileLog, "append", full)
    with stand(tmp_path) as (_, client):
        answer = client.post("/v1/metrics", content=BODY, headers=PROTOBUF)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "secret" not in Status.FromString(answer.content).message


def test_other_methods_and_paths(tmp_path: Path) -> None:
    with stand(tmp_path) as (_, client):
        assert client.request("GET", "/v1/metrics").status_code == 405
        assert client.post("/v1/profiles").status_code == 404


def test_a_sender_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(app: Application) -> list[Any]:
        messages = iter([{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}])
        answered: list[Any] = []

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            answered.append(message)

        headers = [(b"content-type", b"application/x-protobuf"), (b"content-length", b"500")]
        await app({"type": "http", "method": "POST", "path": "/v1/logs", "headers": headers}, receive, send)
        return answered

    with stand(tmp_path) as (made, _):
        assert asyncio.run(scenario(otlp_app(made.receiver))) == []
        assert made.stored() == []
        assert made.count("firstfault_ingest_queue_bytes") == 0
        assert made.count("firstfault_ingest_refused_total", reason="disconnected") == 1


def test_a_tenant_above_its_quota_is_told_when_to_come_again(tmp_path: Path) -> None:
    with stand(tmp_path, Limits(tenant_bytes_per_s=1)) as (made, client):
        first, second = (client.post("/v1/metrics", content=BODY, headers=PROTOBUF) for _ in range(2))
        assert made.count("firstfault_ingest_refused_total", reason="quota") == 1
    assert (first.status_code, second.status_code) == (200, 429)
    assert int(second.headers["retry-after"]) >= 1
