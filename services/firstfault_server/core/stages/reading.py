"""What the stages need from text reading, as protocols: the reader is built by the composition root from the pattern tables."""

from collections.abc import Sequence
from typing import Any, Protocol

from firstfault_server.core import model


class Reading(Protocol):
    """What a text says by itself."""

    @property
    def symptom(self) -> str:
        """Id of the taxonomy, empty when none fits."""

    @property
    def role(self) -> model.Role:
        """Role the text suggests."""

    @property
    def weight(self) -> float:
        """Log-odds of the symptom being right."""

    @property
    def pattern(self) -> str:
        """Id of the pattern that matched, empty when none."""

    @property
    def fingerprint(self) -> model.Fingerprint:
        """Identity of the text."""

    @property
    def facts(self) -> dict[str, str]:
        """What the pattern caught: pid, xid …"""

    @property
    def domains(self) -> dict[str, float]:
        """Log-odds the pattern adds to domains."""


class Reader(Protocol):
    """Reads exceptions and lines."""

    def exception(self, type: str, message: str, stacktrace: str, frames: Sequence[Any], chain: Sequence[Any]) -> Reading:
        """An exception with its structured frames and chain of causes, both as they came over the wire."""

    def line(self, body: str) -> Reading:
        """One line of output."""
