"""Who may use the service, and where its pages go."""

from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from firstfault_server.core.model.base import otherwise
from firstfault_server.ports.stores import Audit

Permission: TypeAlias = Literal["ingest", "node", "read", "write", "admin"]


class AccessKey(msgspec.Struct, kw_only=True):
    """An API key; only the hash of its secret is kept."""

    id: str
    tenant: str
    name: str
    secret_hash: str
    scopes: list[Annotated[Permission, otherwise(None)]]
    created_ns: int
    revoked_ns: int | None = None
    last_used_ns: int | None = None


class Destination(msgspec.Struct, kw_only=True):
    """Where pages go."""

    id: str
    tenant: str
    name: str
    kind: str = "webhook"
    url: str
    secret: str = ""
    """`whsec_…`; never shown again after it was made."""
    enabled: bool = True
    disabled_why: str = ""
    allow_private: bool = False
    where: str = "is:page"
    """`q=` expression that an incident must match."""
    created_ns: int = 0


class AccessStore(Protocol):
    """Keys and destinations. The audit entry of a change commits with it; None for what is no change of a person or the service."""

    def put_key(self, key: AccessKey, audit: Audit | None = None) -> None:
        """Insert or replace by id."""

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        """All keys, or one tenant's."""

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        """The key of a secret, revoked ones included."""

    def put_destination(self, destination: Destination, audit: Audit | None = None) -> None:
        """Insert or replace by id."""

    def destinations(self, tenant: str) -> list[Destination]:
        """One tenant's destinations, oldest first."""

    def destination(self, tenant: str, destination_id: str) -> Destination:
        """Raises NotFound."""

    def remove_destination(self, tenant: str, destination_id: str, audit: Audit | None = None) -> None:
        """Raises NotFound; then there is no audit entry either."""
