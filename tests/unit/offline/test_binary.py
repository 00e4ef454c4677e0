"""Files that are no logs are named as such, and cost no log."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from firstfault_server.offline.commands import DONE, USAGE, explain_main

CRASH = b'Traceback (most recent call last):\n  File "/w/t.py", line 3, in main\n    f()\nOSError: [Errno 28] No space left on device\n'


def _zipped(text: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("job.log", text)
    return made.getvalue()


KINDS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zip": _zipped,
    "zstd": lambda text: b"\x28\xb5\x2f\xfd" + text,
    "ELF": lambda text: b"\x7fELF\x02\x01\x01" + text,
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_no_logs_are_named_and_nothing_else_is_said(
    kind: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(KINDS[kind](CRASH))
    assert explain_main([str(file) for file in files]) == USAGE
    out, err = capfdbinary.readouterr()
    assert out == b""
    lines = err.decode().splitlines()
    assert [str(file) in line and kind in line and "not a log" in line for file, line in zip(files, lines, strict=True)] == [True, True]


@pytest.mark.parametrize("text", [CRASH, b"\0\0" + CRASH.replace(b"line 3", b"line\0 3"), CRASH.decode().encode("utf-16"), b"PK: " + CRASH])
def test_a_log_stays_readable_beside_a_file_that_is_none_and_with_zeros_in_it(
    text: bytes, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log, packed = tmp_path / "job.log", tmp_path / "old.gz"
    log.write_bytes(text)
    packed.write_bytes(gzip.compress(CRASH))
    for files in ([log], [packed, log]):
        assert explain_main([str(file) for file in files]) == DONE
        (incident,) = json.loads(capfdbinary.readouterr().out)["incidents"]
        assert incident["symptom"] == "disk_full"


@pytest.mark.parametrize("made", ["absent", "folder", "empty"])
def test_what_has_no_first_bytes_is_judged_by_who_reads_it(made: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / made
    if made == "folder":
        path.mkdir()
    elif made == "empty":
        path.touch()
    assert explain_main([str(path)]) == (DONE if made == "empty" else USAGE)
    assert b"not a log" not in capfdbinary.readouterr().err
