"""Compile the messages of proto/firstfault/v1 to Python in services/firstfault_server/wire/pb; run after a change to them.

With `--check` nothing is written; the exit status says whether what is there is up to date.
"""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

PROTO = Path(__file__).resolve().parent
TARGET = PROTO.parent / "services" / "firstfault_server" / "wire" / "pb"
SOURCE = "firstfault/v1/records.proto"


def compiled() -> dict[str, bytes]:
    """Generated files by name."""
    with tempfile.TemporaryDirectory() as folder:
        status = protoc.main(["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--pyi_out={folder}", SOURCE])
        if status:
            raise SystemExit(status)
        # One file without imports of its own, so it may lie in any package.
        return {path.name: path.read_bytes() for path in (Path(folder) / "firstfault" / "v1").iterdir()}


def main(arguments: list[str]) -> int:
    """Write or check."""
    made = compiled()
    stale = [name for name, content in made.items() if not (TARGET / name).is_file() or (TARGET / name).read_bytes() != content]
    if "--check" in arguments:
        for name in stale:
            sys.stderr.write(f"{TARGET / name} is out of date: run proto/compile.py\n")
        return int(bool(stale))
    for name in stale:
        (TARGET / name).write_bytes(made[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
