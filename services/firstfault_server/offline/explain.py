"""`firstfault explain`: logs of one failed job in, incidents out."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, Final

from firstfault_server.core import model
from firstfault_server.core.cause.flight_recorder import FlightDump
from firstfault_server.core.cause.log_incidents import incidents_of
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.core.cause.log_summary import LogSummary
from firstfault_server.core.cause.text import TextReader
from firstfault_server.core.documents import incident_document
from firstfault_server.core.grouping.prefix import labelled
from firstfault_server.offline.files import Unreadable, lines_of, rank_of_name
from firstfault_server.offline.flight import read_dump
from firstfault_server.tables import Tables

SCHEMA: Final = "firstfault.explain/1"
SAMPLE_LINES: Final = 200


def read_log(path: str, reader: TextReader) -> LogSummary:
    """What one log says. Raises Unreadable."""
    lines = iter(lines_of(path))
    sample = list(islice(lines, SAMPLE_LINES))
    log = LogReader(reader, path, rank=rank_of_name(path), labelled=labelled(sample))
    for number, line in enumerate(chain(sample, lines), 1):
        log.feed(line, number)
    return log.close()


def explain(paths: Sequence[str], tables: Tables) -> tuple[list[model.Incident], list[str]]:
    """Incidents of the job whose logs are given, and what could not be read, one message a file."""
    reader = tables.text_reader()
    logs: list[LogSummary] = []
    dumps: list[FlightDump] = []
    errors: list[str] = []
    for path in paths:
        try:
            dump = read_dump(path)
            if dump is not None:
                dumps.append(dump)
            else:
                logs.append(read_log(path, reader))
        except Unreadable as error:
            errors.append(str(error))
    return incidents_of(logs, tables.judging, dumps), errors


def document(incidents: Sequence[model.Incident]) -> dict[str, Any]:
    """The contract's JSON."""
    return {"schema": SCHEMA, "incidents": [incident_document(incident) for incident in incidents]}
