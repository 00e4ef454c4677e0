"""The same judgement offline: what a job's ranks wrote to stderr, read by `firstfault explain`, against the service's incident."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from firstfault_server.offline.commands import explain_main
from tests.faults.service import Document


def compare(incidents: Sequence[Document], attempts: Sequence[Sequence[Path]]) -> int:
    """Compare each incident that left text with what `explain` says of the stderr files of its attempts; returns how many attempts.

    Roles are compared of ranks that wrote something: of the others the service knows more, from their exit records.
    """
    compared = 0
    for incident in incidents:
        if incident["first_fault"]["exception"] is None:
            continue
        for attempt in incident["attempts"]:
            files = attempts[attempt - 1]
            (told,) = _explained(files)
            spoke = {rank for rank, path in enumerate(files) if path.stat().st_size}
            assert _judgement(told, spoke) == _judgement(incident, spoke), f"offline against service, attempt {attempt}"
            compared += 1
    return compared


def _explained(files: Sequence[Path]) -> list[Document]:
    out = io.TextIOWrapper(io.BytesIO())
    with redirect_stdout(out):
        assert explain_main(["-o", "json", *map(str, files)]) == 0
    out.seek(0)
    found: list[Document] = json.loads(out.read())["incidents"]
    return found


def _judgement(incident: Document, spoke: set[int]) -> dict[str, object]:
    first = incident["first_fault"]
    return {
        "symptom": incident["symptom"],
        "rank": first["rank"],
        "scope": first["scope"],
        "roles": {item["rank"]: item["role"] for item in incident["ranks"] if item["rank"] in spoke},
        "cause": incident["cause"],
        "fingerprint": incident["fingerprint"]["id"],
        "exception": first["exception"]["type"].rpartition(".")[2],
    }
