"""Small programs inside the images."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "deploy" / "docker"


def run(script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program of the server image."""
    command = [sys.executable, str(FOLDER / "server" / script), *arguments]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=30)


def test_secrets_are_made_once(tmp_path: Path) -> None:
    assert run("make_secrets.py", str(tmp_path), "one", "two").returncode == 0
    first = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert first.keys() == {"one", "two"}
    assert all(len(text) >= 40 for text in first.values())
    assert first["one"] != first["two"]
    assert run("make_secrets.py", str(tmp_path), "one", "three").returncode == 0
    assert (tmp_path / "one").read_text() == first["one"]
    assert (tmp_path / "three").exists()
    assert oct((tmp_path / "one").stat().st_mode)[-3:] == "444"
    assert run("make_secrets.py", str(tmp_path)).returncode == 2


def test_secrets_are_made_after_a_start_that_was_killed(tmp_path: Path) -> None:
    """What it left can be read by all and written by nobody; root may, so it is seen by the file being another one."""
    left = tmp_path / ".one"
    left.touch(mode=0o444)
    with left.open() as held:
        assert run("make_secrets.py", str(tmp_path), "one").returncode == 0
        made = tmp_path / "one"
        assert made.stat().st_ino != os.fstat(held.fileno()).st_ino
    assert len(made.read_text()) >= 40
    assert not left.exists()


def test_health(tmp_path: Path) -> None:
    assert run("healthy.py", HEALTH_URL="").returncode == 2
    assert run("healthy.py", "file:///etc/hostname").returncode == 2
    refused = run("healthy.py", "http://127.0.0.1:1/readyz")
    assert refused.returncode == 1
    assert "127.0.0.1:1/readyz" in refused.stderr


def jobmanager(state: Path, *arguments: str) -> list[str]:
    """Arguments that the entry point of Flink would get."""
    stand_in = state / "entrypoint"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    environ = os.environ | {"STATE_DIR": str(state), "FLINK_ENTRYPOINT": str(stand_in)}
    script = str(FOLDER / "flink" / "jobmanager.sh")
    return subprocess.run([script, *arguments], env=environ, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()


def test_the_job_starts_from_its_newest_checkpoint(tmp_path: Path) -> None:
    """The newest that is complete, of whichever job: a JobManager that was started again has another."""
    assert "--fromSavepoint" not in jobmanager(tmp_path)
    for number, (job, checkpoint, complete) in enumerate(
        [("a" * 32, "chk-9", True), ("b" * 32, "chk-2", True), ("b" * 32, "chk-3", False), ("b" * 32, "shared", True)]
    ):
        folder = tmp_path / "checkpoints" / job / checkpoint
        folder.mkdir(parents=True)
        if complete:
            (folder / "_metadata").touch()
            os.utime(folder / "_metadata", (1000 + number, 1000 + number))
    found = jobmanager(tmp_path, "--flink-backend", "rocksdb")
    assert found[found.index("--fromSavepoint") + 1] == f"file://{tmp_path}/checkpoints/{'b' * 32}/chk-2"
    assert found[0] == "standalone-job"
    assert found[-2:] == ["--flink-backend", "rocksdb"]
    assert found.index("-py") < found.index("--flink-backend"), "the job's own arguments come last"
