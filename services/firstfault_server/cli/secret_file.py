"""A random secret kept in the data folder, readable by its owner only."""

import os
import secrets
from pathlib import Path


def load_or_make(path: Path, size: int = 32) -> bytes:
    """The secret in the file; a new one when there is none. Raises OSError."""
    try:
        kept = path.read_bytes()
        if len(kept) == size:
            return kept
    except FileNotFoundError:
        pass
    made = secrets.token_bytes(size)
    partial = path.with_name(path.name + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return made
