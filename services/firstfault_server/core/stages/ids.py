"""Ids made of what a record is, so that writing it twice is writing it once."""

import hashlib

_LENGTH = 32


def digest(*parts: object) -> str:
    """128 bits of SHA-256 over the parts and their borders, as hex."""
    sha = hashlib.sha256()
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        sha.update(len(data).to_bytes(4, "big") + data)
    return sha.hexdigest()[:_LENGTH]
