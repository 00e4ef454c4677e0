"""The error file of torchrun: its shape, its secrets, and that nobody else's is overwritten."""

import json
from pathlib import Path

from firstfault._elastic import ERROR_FILE, write


class Unprintable(RuntimeError):
    """An exception that cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError("no")


def _caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_the_shape_is_what_torchrun_reads(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    error = _caught(RuntimeError("loss is nan, password=cAnaRy-7391"))
    assert write(type(error), error, error.__traceback__, {ERROR_FILE: str(path)})
    message = json.loads(path.read_text())["message"]
    assert message["message"] == "RuntimeError: loss is nan, password=[redacted]"
    assert message["extraInfo"]["timestamp"].isdigit()
    assert "_caught" in message["extraInfo"]["py_callstack"]
    assert "cAnaRy" not in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["error.json"]


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text("{}")
    assert not write(RuntimeError, RuntimeError("second"), None, {ERROR_FILE: str(path)})
    assert path.read_text() == "{}"


def test_without_torchrun_nothing_is_written(tmp_path: Path) -> None:
    assert not write(RuntimeError, RuntimeError("x"), None, {})


def test_an_unprintable_exception_is_reported_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    error = _caught(Unprintable())
    assert write(Unprintable, error, error.__traceback__, {ERROR_FILE: str(path)})
    assert json.loads(path.read_text())["message"]["message"] == "Unprintable: <message not printable>"


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    error = _caught(OSError("file \udcff"))
    assert write(OSError, error, None, {ERROR_FILE: str(path)})
    assert "\udcff" in json.loads(path.read_text())["message"]["message"]
