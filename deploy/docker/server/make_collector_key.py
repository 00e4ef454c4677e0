"""Make the API key of the Collector of a stack on one machine, unless the one that is there is still good: `make_collector_key.py FILE`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str]) -> int:
    """Exit status."""
    if len(arguments) != 1:
        print("make_collector_key: needs FILE", file=sys.stderr)
        return 2
    key = Path(arguments[0])
    # A key does not tell its id, by which the store lists it.
    known = key.with_name(f"{key.name}.id")
    try:
        if key.exists() and known.exists() and known.read_text(encoding="ascii") in _good():
            return 0
        # In this order: whatever is cut short, no key lies beside the id of another.
        key.unlink(missing_ok=True)
        # It reads no kernel log here, for which it would need the scope `node`.
        made = _ask("create", "--name", "collector", "--scope", "ingest")
        _write(known, made["id"])
        _write(key, made["key"])
    except subprocess.CalledProcessError as error:
        # What is wrong was said by the command itself.
        return int(error.returncode)
    return 0


def _good() -> set[str]:
    """Ids of keys that are taken: stores may have been emptied since."""
    return {item["id"] for item in _ask("list")["items"] if item["revoked_at"] is None}


def _ask(what: str, *options: str) -> Any:
    command = ["firstfault", "keys", what, "--direct", *options, "-o", "json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    # A start that was killed may have left one, which its owner may not write to.
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
