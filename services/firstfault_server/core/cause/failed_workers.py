"""Reads the table of failed workers that torchrun prints at its end, row by row."""

import re
from typing import Final

_ROW: Final = re.compile(r"\s{0,8}(?P<key>rank|exitcode|host|time|traceback|error_file)\s{0,12}: (?P<value>[^\n]{0,300})")


class FailedWorkers:
    """The worker whose rows are being read."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}

    def root_cause(self) -> None:
        """The table's part about the worker that failed first begins."""
        self._rows = {"root": "yes"}

    def feed(self, body: str) -> dict[str, str] | None:
        """Take a line; when it completes a worker: its rank, exit code, pid, host, and whether it is the root cause."""
        row = _ROW.match(body)
        if row is None:
            return None
        key, value = row["key"], row["value"].strip()
        self._rows[key] = value
        if key != "exitcode" or (rank := re.match(r"\d{1,6}", self._rows.get("rank", ""))) is None:
            return None
        code = re.match(r"-?\d{1,5}", value)
        if code is None:
            return None
        pid = re.search(r"pid: (\d{1,9})", value)
        facts = {
            "exit": code[0],
            "rank": rank[0],
            "pid": pid[1] if pid else "",
            "root": self._rows.get("root", ""),
            "host": self._rows.get("host", ""),
        }
        self._rows = {}
        return facts
