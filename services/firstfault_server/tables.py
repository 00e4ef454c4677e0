"""Reads the tables kept as YAML in the package into typed values: the only module that does, used by the composition root."""

from importlib.resources import files
from typing import Any, TypeVar

import msgspec
import yaml

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.log_case import Tabled
from firstfault_server.core.cause.patterns import PatternTable
from firstfault_server.core.cause.text import TextReader
from firstfault_server.core.grouping.similarity import FrameTable

T = TypeVar("T")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PACKAGE = "firstfault_server"


class TableError(Exception):
    """A table that ships with the package cannot be used; the message names file and place."""


class Tables(msgspec.Struct, kw_only=True, frozen=True):
    """Everything the core knows from tables."""

    taxonomy: model.Taxonomy
    patterns: PatternTable
    codes: CodeTables
    advice: tuple[AdviceRow, ...]
    frames: FrameTable

    @property
    def judging(self) -> Tabled:
        """What judging logs needs of them."""
        return Tabled(taxonomy=self.taxonomy, codes=self.codes, advice=self.advice, advice_marks=self.patterns.advice_marks)

    def text_reader(self) -> TextReader:
        """A reader over these tables."""
        return TextReader(self.patterns, self.taxonomy, self.codes)


class _AdviceFile(msgspec.Struct):
    advice: tuple[AdviceRow, ...]


def load_tables() -> Tables:
    """All tables of the package. Raises TableError."""
    return Tables(
        taxonomy=load_taxonomy(),
        patterns=_table("core/cause/patterns.yaml", PatternTable),
        codes=_table("core/cause/codes.yaml", CodeTables),
        advice=_table("core/cause/advice.yaml", _AdviceFile).advice,
        frames=_table("core/grouping/idf.yaml", FrameTable),
    )


def load_taxonomy() -> model.Taxonomy:
    """The symptoms by id. Raises TableError."""
    raw = _read("data/taxonomy.yaml").get("symptoms") or {}
    return {name: _converted("data/taxonomy.yaml", {"id": name, **row}, model.Symptom) for name, row in raw.items()}


def _table(path: str, kind: type[T]) -> T:
    return _converted(path, _read(path), kind)


def _read(path: str) -> dict[str, Any]:
    try:
        raw = yaml.load(files(_PACKAGE).joinpath(path).read_bytes(), _LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise TableError(f"{path}: {error}") from error
    if not isinstance(raw, dict):
        raise TableError(f"{path}: a mapping was expected")
    return raw


def _converted(path: str, raw: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise TableError(f"{path}: {error}") from error
