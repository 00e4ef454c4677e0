"""Writes the tables of the documentation and the chart's schema from what the code reads; `--check` only says whether they are up to date.

Usage: python docs/generate.py [--check]
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import chart_schema
import metrics_table
from firstfault_server import tables
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.settings import Settings, is_secret

FOLDER = Path(__file__).parent
CONVENTIONS = FOLDER.parent / "proto" / "conventions.yaml"
NOTE = "<!-- Written by docs/generate.py: change what it reads, not this file. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; pipes in cells are escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(text: str) -> str:
    """Text as inline code."""
    return f"`{text}`"


def symptoms() -> str:
    """Every symptom an incident may carry."""
    rows = [
        [code(one.id), one.about, one.family, one.severity, "yes" if one.page else "no", _domains(one.domains)]
        for one in tables.load_taxonomy().values()
    ]
    head = "# Symptoms\n\nWhat an incident may say went wrong, who usually has to act, and whether it pages by default.\n\n"
    return NOTE + head + table(["symptom", "meaning", "family", "severity", "pages", "domain before evidence"], rows)


def _domains(domains: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(domains.items(), key=lambda item: -item[1]))


def settings() -> str:
    """Settings of the service and of the commands, then the thresholds of detection."""
    rows = [
        [code(name), code(f"FIRSTFAULT_{name.upper()}"), _default(field.default), _meaning(field)]
        for name, field in Settings.model_fields.items()
    ]
    limits = [[code(field.name), _default(field.default), text] for field, text in zip(_fields(), _texts(), strict=True)]
    return (
        f"{NOTE}# Settings\n\nThe configuration file (TOML, `firstfault up --config FILE`), the environment and flags: later wins.\n"
        "A secret can also be given in a file: `FIRSTFAULT_API_KEY_FILE` names the file that holds `api_key`.\n\n"
        + table(["key", "variable", "default", "meaning"], rows)
        + "\n## Thresholds\n\nKeys of `thresholds`, for instance "
        + """`FIRSTFAULT_THRESHOLDS='{"pause_floor_s": 30}'`. Times are seconds.\n\n"""
        + table(["key", "default", "meaning"], limits)
    )


def _meaning(field: FieldInfo) -> str:
    return (field.description or "") + (" Secret." if is_secret(field) else "")


def _default(value: Any) -> str:
    return "" if value is PydanticUndefined or value in ("", [], {}) else code(str(value))


def _fields() -> Sequence[msgspec.structs.FieldInfo]:
    return msgspec.structs.fields(Thresholds)


def _texts() -> list[str]:
    """The text below each threshold; a field without one shares the meaning of its name."""
    (body,) = [node.body for node in ast.parse(inspect.getsource(Thresholds)).body if isinstance(node, ast.ClassDef)]
    texts: list[str] = []
    for node in body[1:]:
        if isinstance(node, ast.AnnAssign):
            texts.append("")
        elif texts and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts[-1] = inspect.cleandoc(str(node.value.value)).replace("\n", " ")
    return texts


def conventions() -> str:
    """Names on the wire."""
    known: dict[str, Any] = yaml.safe_load(CONVENTIONS.read_text(encoding="utf-8"))
    parts = [NOTE, "# Names on the wire\n\nResource attributes, metrics, events and attributes that firstfault reads and its SDK writes.\n"]
    for section in ("resource", "metrics", "events", "attributes", "scope"):
        rows = [[code(row["name"]), _short(row), row.get("about", "")] for row in known[section].values()]
        parts.append(f"\n## {section.capitalize()}\n\n" + table(["name", "type, short name", "meaning"], rows))
    aliases = [[code(other), code(own)] for other, own in known["metric_aliases"].items()]
    parts.append("\n## Names of other senders\n\n" + table(["theirs", "ours"], aliases))
    return "".join(parts)


def _short(row: dict[str, Any]) -> str:
    words = [row.get("type", row.get("unit", ""))]
    words += [code(name) for name in (row.get("short"), *row.get("aliases", [])) if name]
    return ", ".join(word for word in words if word)


def metrics() -> str:
    """What the services count."""
    found = [
        [code(name), kind, ", ".join(map(code, filter(None, labels.split(", ")))), *more]
        for name, kind, labels, *more in metrics_table.rows()
    ]
    head = "# Metrics\n\nUnder `/metrics` of each service, beside those of the process and of Python; "
    head += "[the detection job](../flink.md) has its own.\n\n"
    return NOTE + head + table(["metric", "kind", "labels", "meaning", "service"], found)


def main(argv: Sequence[str] | None = None) -> int:
    """Write or compare; 1 when something differs."""
    parser = argparse.ArgumentParser(description="Write the generated tables of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if something would change")
    check = parser.parse_args(argv).check
    stale = 0
    reference = FOLDER / "reference"
    for path, text in (
        (reference / "symptoms.md", symptoms()),
        (reference / "settings.md", settings()),
        (reference / "conventions.md", conventions()),
        (reference / "metrics.md", metrics()),
        (chart_schema.SCHEMA, chart_schema.schema()),
    ):
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{path}: not up to date, run `make format`", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return int(bool(stale) and check)


if __name__ == "__main__":
    sys.exit(main())
