"""Writes the bytes of this version into a new folder of proto/golden: `python -m tests.golden.write NAME`.

Folders there never change; what an earlier one holds is left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.golden.named import named
from tests.golden.specimens import Specimen, specimens

GOLDEN = Path(__file__).resolve().parents[2] / "proto" / "golden"
LINE = 64
"""Bytes in a line of a file."""


class Kept(msgspec.Struct, frozen=True):
    """One entry of a file."""

    data: list[str]
    """Hexadecimal, in lines."""
    value: Any
    """What it means, with the names of fields."""

    @property
    def bytes(self) -> bytes:
        """What was written."""
        return bytes.fromhex("".join(self.data))


def entry(specimen: Specimen) -> dict[str, Any]:
    """What a file holds of one kind of bytes."""
    data = specimen.write().hex()
    lines = [data[start : start + 2 * LINE] for start in range(0, len(data), 2 * LINE)]
    return {"data": lines, "value": named(specimen.read(bytes.fromhex(data)))}


def read(folder: Path) -> dict[str, dict[str, Kept]]:
    """Entries by file and name."""
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=dict[str, Kept]) for path in sorted(folder.glob("*.json"))}


def main(arguments: list[str]) -> int:
    """Write a folder; 2 when it is there already."""
    if len(arguments) != 1 or not arguments[0].isalnum():
        sys.stderr.write("usage: python -m tests.golden.write NAME\n")
        return 2
    folder = GOLDEN / arguments[0]
    if folder.exists():
        sys.stderr.write(f"{folder} was written by an earlier version and stays; choose another name\n")
        return 2
    earlier = [read(each) for each in GOLDEN.iterdir() if each.is_dir()]
    folder.mkdir(parents=True)
    for file, kinds in specimens().items():
        known = {(name, kept.bytes) for each in earlier for name, kept in each.get(file, {}).items()}
        content = {specimen.name: entry(specimen) for specimen in kinds if (specimen.name, specimen.write()) not in known}
        if content:
            (folder / f"{file}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
