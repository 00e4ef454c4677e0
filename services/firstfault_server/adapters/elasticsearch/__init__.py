"""All state of the distributed service but the rollups, in Elasticsearch."""

from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.stores import ElasticsearchStores, open_stores
from firstfault_server.adapters.elasticsearch.templates import ensure_templates

__all__ = ["Connection", "ElasticsearchStores", "ensure_templates", "open_stores"]
