"""The generated conventions."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from firstfault import conventions

_PROTO = Path(__file__).resolve().parents[3] / "proto"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_conventions", _PROTO / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((_PROTO / "conventions.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_file_is_up_to_date(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0


def test_check_notices_an_outdated_file(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "conventions.py"
    target.write_text("VERSION = 0\n", encoding="utf-8")
    monkeypatch.setattr(generator, "TARGET", target)
    assert generator.main(["--check"]) == 1
    assert target.read_text(encoding="utf-8") == "VERSION = 0\n"
    assert "out of date" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0


def test_every_entry_has_a_constant(source: dict[str, Any]) -> None:
    for section in ("resource", "scope", "metrics", "events", "attributes"):
        for constant, entry in source[section].items():
            assert getattr(conventions, constant) == entry["name"]


def test_short_names_and_aliases_lead_to_metrics(source: dict[str, Any]) -> None:
    names = {entry["name"] for entry in source["metrics"].values()}
    assert set(conventions.METRIC_SHORT_NAMES.values()) == names
    assert conventions.METRIC_SHORT_NAMES["lr"] == conventions.LEARNING_RATE
    assert set(conventions.METRIC_ALIASES.values()) <= names
    assert {to for to, _ in conventions.METRIC_ALIASES_SCALED.values()} <= names


def test_one_constant_for_two_things_is_refused(generator: ModuleType, source: dict[str, Any]) -> None:
    source["events"]["LOSS"] = {"name": "x", "about": "y"}
    with pytest.raises(ValueError, match="LOSS is used in metrics and in events"):
        generator.generate(source)


def test_one_short_name_for_two_metrics_is_refused(generator: ModuleType, source: dict[str, Any]) -> None:
    source["metrics"]["GRAD_NORM"]["aliases"] = ["loss"]
    with pytest.raises(ValueError, match="short name loss"):
        generator.generate(source)
