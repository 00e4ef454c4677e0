"""How a cluster is named in messages."""

from collections.abc import Callable
from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import ApiError, BadRequestError, ConnectionTimeout
from elasticsearch import ConnectionError as Unreachable

from firstfault_server.adapters.elasticsearch import Connection
from firstfault_server.ports import StorageFull, StoreUnavailable

CONNECTION = Connection(url="https://user:hunter2@one:9200,https://user:hunter2@two:9200", api_key="hunter2")


def answer(status: int, error: str, kind: Callable[..., ApiError] = ApiError) -> ApiError:
    node = NodeConfig("https", "one", 9200)
    meta = ApiResponseMeta(status=status, http_version="1.1", headers=HttpHeaders(), duration=0.0, node=node)
    body: dict[str, Any] = {"error": {"type": error, "reason": error}}
    return kind(error, meta, body)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(CONNECTION)
    assert CONNECTION.place == "https://one:9200,https://two:9200"
    with pytest.raises(StoreUnavailable) as caught, CONNECTION.asking("search"):
        raise Unreachable("refused")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (Unreachable("refused"), StoreUnavailable, "one:9200"),
        (ConnectionTimeout("timed out"), StoreUnavailable, "timed out"),
        (answer(503, "no_shard_available_action_exception"), StoreUnavailable, "no_shard_available"),
        (answer(429, "es_rejected_execution_exception"), StoreUnavailable, "429"),
        (answer(401, "security_exception"), StoreUnavailable, "check the key"),
        (answer(429, "disk usage exceeded flood-stage watermark, index has read-only-allow-delete block"), StorageFull, "free space"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_may_pass_is_unavailable(error: Exception, kind: type[StoreUnavailable], says: str) -> None:
    with pytest.raises(kind, match=says), CONNECTION.asking("search"):
        raise error


def test_our_own_mistakes_are_not_hidden_as_an_outage() -> None:
    with pytest.raises(BadRequestError), CONNECTION.asking("search"):
        raise answer(400, "parsing_exception", BadRequestError)
