"""The program that makes the Collector's key in a stack on one machine, on the real Elasticsearch."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from deploy.native.servers.process import free_ports
from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.core.access import secret_hash
from firstfault_server.ports import AccessKey
from tests.integration.deploy.environment import ROOT
from tests.integration.distributed.installation import new_prefix

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PROGRAM = ROOT / "deploy" / "docker" / "server" / "make_collector_key.py"


def make(file: Path, address: str, prefix: str) -> subprocess.CompletedProcess[str]:
    """Run it as the compose file does."""
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(file.parent),
        "FIRSTFAULT_ELASTICSEARCH_URL": address if "://" in address else f"http://{address}",
        "FIRSTFAULT_ELASTICSEARCH_PREFIX": prefix,
    }
    return subprocess.run([sys.executable, str(PROGRAM), str(file)], env=environ, capture_output=True, text=True, check=False, timeout=120)


@contextmanager
def opened(address: str, prefix: str) -> Iterator[ElasticsearchStores]:
    """Stores of an installation, empty at first."""
    connection = Connection(url=address if "://" in address else f"http://{address}", prefix=prefix)
    ensure_templates(connection, replicas=0)
    stores = open_stores(connection, SystemClock(), "test")
    try:
        yield stores
    finally:
        stores.close()


def stored(stores: ElasticsearchStores, file: Path) -> AccessKey | None:
    """What the stores know of the key in a file."""
    return stores.access.key_by_hash(secret_hash(file.read_text()))


def test_it_makes_a_key_once_and_again_when_the_store_knows_it_no_more(tmp_path: Path, elasticsearch_address: str) -> None:
    file = tmp_path / "api_key"
    with opened(elasticsearch_address, prefix := new_prefix()) as stores:
        first = make(file, elasticsearch_address, prefix)
        assert first.returncode == 0, first.stderr
        made = stored(stores, file)
        assert made is not None
        assert (made.scopes, made.name) == (["ingest"], "collector")
        assert oct(file.stat().st_mode)[-3:] == "400"
        text = file.read_text()
        assert text not in first.stdout + first.stderr
        assert make(file, elasticsearch_address, prefix).returncode == 0
        assert file.read_text() == text
        stores.access.put_key(msgspec.structs.replace(made, revoked_ns=1))
        assert make(file, elasticsearch_address, prefix).returncode == 0
        assert file.read_text() != text, "revoked"
        text = file.read_text()
    with opened(elasticsearch_address, prefix := new_prefix()) as stores:
        assert make(file, elasticsearch_address, prefix).returncode == 0
        assert file.read_text() != text, "of another store"
        assert stored(stores, file) is not None


def test_without_the_store_it_fails_and_leaves_what_is_there(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "api_key"
    away = make(file, f"127.0.0.1:{port}", new_prefix())
    assert away.returncode != 0
    assert str(port) in away.stderr
    assert "Traceback" not in away.stderr
    assert not file.exists()
    file.write_text("ffk_old")
    file.with_name("api_key.id").write_text("old")
    assert make(file, f"127.0.0.1:{port}", new_prefix()).returncode != 0
    assert file.read_text() == "ffk_old", "it may be good: nobody could say"
