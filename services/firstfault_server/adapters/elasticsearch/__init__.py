"""Raw context of the distributed service, over Elasticsearch."""

from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.events import ElasticsearchContextStore
from firstfault_server.adapters.elasticsearch.templates import ensure_templates

__all__ = ["Connection", "ElasticsearchContextStore", "ensure_templates"]
