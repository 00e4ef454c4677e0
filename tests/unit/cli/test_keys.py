"""`firstfault keys --data`: keys of a data folder, each change with its audit entry."""

import json
from pathlib import Path

import pytest

from firstfault_server.adapters.sqlite import open_stores
from firstfault_server.cli import commands
from firstfault_server.ports import ListQuery
from tests.contract.records import FixedClock


def test_changes_in_a_data_folder_leave_an_entry_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def keys(*argv: str) -> str:
        assert commands()["keys"].main([*argv, "--data", str(tmp_path)]) == 0
        return capsys.readouterr().out

    made = json.loads(keys("create", "--name", "ci", "--tenant", "acme", "--scope", "read"))
    for _ in range(2):
        keys("revoke", made["id"])
    stores = open_stores(tmp_path / "firstfault.sqlite", FixedClock())
    try:
        entries = stores.triage.audit(ListQuery(tenant="acme")).items[::-1]
    finally:
        stores.close()
    assert [(entry.actor, entry.action, entry.subject) for entry in entries] == [
        ("local", "make_key", made["id"]),
        ("local", "revoke_key", made["id"]),
    ]
    assert entries[0].detail == {"name": "ci", "scopes": ["read"]}
    assert made["key"] not in str(entries)
