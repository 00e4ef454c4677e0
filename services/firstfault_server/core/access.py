"""API keys: their form and the hash by which they are kept. Making the random part is the caller's."""

import hashlib
from typing import Final

PREFIX: Final = "ffk_"
RANDOM_BYTES: Final = 32
DEFAULT_TENANT: Final = "default"


def secret_hash(key: str) -> str:
    """What is stored instead of a key. A plain SHA-256 suffices: the key is 32 random bytes, not a password."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def bearer(header: str | None) -> str | None:
    """The key of an `authorization: Bearer ffk_…` header; None when there is none of this form."""
    if not header:
        return None
    scheme, _, key = header.partition(" ")
    key = key.strip()
    return key if scheme.lower() == "bearer" and key.startswith(PREFIX) else None
