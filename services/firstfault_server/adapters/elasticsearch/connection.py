"""How the stores connect to Elasticsearch, and what its errors mean to the service."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from elasticsearch import ApiError, Elasticsearch, TransportError

from firstfault_server.ports import StorageFull, StoreUnavailable

REQUEST_S: Final = 10.0
REFUSED: Final = frozenset({401, 403})
PASSING: Final = frozenset({408, 429, 500, 502, 503, 504, 507})
"""Statuses after which the same request may succeed later."""


class Connection(msgspec.Struct, kw_only=True, frozen=True):
    """Where the cluster is, how to get in, and what the names of our indices start with."""

    url: str
    """`https://HOST:PORT`, several with commas."""
    api_key: str = ""
    ca_file: str = ""
    prefix: str = "firstfault"

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Connection({self.place}, prefix={self.prefix!r})"

    @property
    def place(self) -> str:
        """The address as messages may show it: without a password in it."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    def client(self) -> Elasticsearch:
        """A client; it connects with the first request, and every caller's thread may use it."""
        security: dict[str, Any] = {}
        if self.api_key:
            security["api_key"] = self.api_key
        if self.ca_file:
            security["ca_certs"] = self.ca_file
        # Who writes waits and tries again by himself, so that his state stays right; retries in here would only hide the outage.
        return Elasticsearch(self.url.split(","), request_timeout=REQUEST_S, max_retries=0, **security)

    @contextmanager
    def asking(self, doing: str) -> Iterator[None]:
        """Errors inside become those of the ports; `doing` completes "Elasticsearch cannot …"."""
        try:
            yield
        except TransportError as error:
            raise StoreUnavailable(f"Elasticsearch at {self.place} cannot {doing}: {error.message}") from error
        except ApiError as error:
            reason = f"Elasticsearch at {self.place} cannot {doing}: {error.message} ({error.status_code})"
            if out_of_room(str(error.body)):
                raise StorageFull(f"{reason}; free space on its disks or shorten the retention") from error
            if error.status_code in REFUSED:
                raise StoreUnavailable(f"{reason}: check the key and its rights") from error
            if error.status_code in PASSING:
                raise StoreUnavailable(reason) from error
            raise


def out_of_room(error: str) -> bool:
    """Whether an error says that the disks are too full to be written to."""
    return "flood-stage" in error or "No space left on device" in error
