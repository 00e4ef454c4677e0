"""Fetching jars: once, checked, and with a clear word when it fails. Maven is a stand-in here."""

import hashlib
import os
from pathlib import Path

import pytest

from deploy.native.servers import ServerFailed, jars

MAVEN = """#!/bin/sh
echo run >> "$CALLS"
[ -z "$BROKEN" ] || { echo "no route to the repository"; exit 1; }
for argument; do
    case $argument in -DoutputDirectory=*) into=${argument#-DoutputDirectory=};; esac
done
mkdir -p "$into"
printf %s "$CONTENT" > "$into/thing-1.0.jar"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Maven, a cache and the pins of one server; one line for each call of Maven."""
    tools, pins = tmp_path / "bin", tmp_path / "pins"
    for folder in (tools, pins):
        folder.mkdir()
    (tools / "mvn").write_text(MAVEN)
    (tools / "mvn").chmod(0o755)
    (pins / "thing.xml").write_text("<project/>")
    (pins / "thing.sha256").write_text(f"{hashlib.sha256(b'right').hexdigest()}  thing-1.0.jar\n")
    monkeypatch.setattr(jars, "PINS", pins)
    for name, value in {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "FIRSTFAULT_CACHE": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
        "CONTENT": "right",
        "BROKEN": "",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "calls"


def test_jars_are_fetched_once(calls: Path) -> None:
    folder = jars.fetch("thing")
    assert (folder / "thing-1.0.jar").read_text() == "right"
    assert jars.fetch("thing") == folder
    assert calls.read_text() == "run\n"


def test_a_jar_that_is_not_the_pinned_one_is_refused_and_not_kept(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTENT", "wrong")
    with pytest.raises(ServerFailed, match=r"not the ones of thing\.sha256: thing-1\.0\.jar"):
        jars.fetch("thing")
    monkeypatch.setenv("CONTENT", "right")
    assert (jars.fetch("thing") / "thing-1.0.jar").read_text() == "right"


def test_other_pins_are_other_jars(calls: Path) -> None:
    before = jars.fetch("thing")
    (jars.PINS / "thing.xml").write_text("<project> </project>")
    assert jars.fetch("thing") != before


def test_a_failure_of_maven_is_told(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(ServerFailed, match="no route to the repository"):
        jars.fetch("thing")


def test_a_machine_without_maven_is_told_what_is_missing(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerFailed, match=r"need Maven"):
        jars.fetch("thing")


def test_locking_writes_the_checksums_that_fetching_asks_for(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTENT", "newer")
    assert jars.lock("thing") == 1
    assert (jars.fetch("thing") / "thing-1.0.jar").read_text() == "newer"
