"""Make the secrets that a stack on one machine shares: one random file a name, unless it is there. `make_secrets.py FOLDER NAME…`"""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Exit status."""
    if len(arguments) < 2:
        print("make_secrets: needs FOLDER NAME…", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.chmod(0o755)
    for name in arguments[1:]:
        path = folder / name
        if path.exists():
            continue
        temporary = folder / f".{name}"
        # A start that was killed may have left one, which its owner may not write to.
        temporary.unlink(missing_ok=True)
        # Readable inside the volume: several images, each with a user of its own, read it.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
