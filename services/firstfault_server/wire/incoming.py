"""A record of a topic as those who live on topics get it."""

from typing import Any

import msgspec

from firstfault_server.wire.outputs import incoming


class TopicRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One record of a topic that detection writes."""

    topic: str
    """As the contract names it, whatever prefix the installation has."""
    key: bytes
    value: bytes
    written_ns: int
    """When the cluster took it."""

    def contents(self) -> list[Any]:
        """The records of the model that it carries. Raises Unreadable."""
        return incoming(self.topic, self.value)
