"""Follows the course of a job through one log: steps it names, failures, training that goes on after one, and new attempts."""

import re
from typing import Final

_ENOUGH: Final = 3
"""Steps after an error that show that training goes on."""
_PROGRESS: Final = re.compile(
    r"(?:\b(?:global[_ ]?step|steps?|iter(?:ation)?s?|epochs?|batch)\b['\"]?[\s:=/#\[(]{0,4}(?P<named>\d{1,9})"
    r"|^\s{0,4}\d{1,3}%\|[^|]{0,200}\| {0,2}(?P<bar>\d{1,9})/)"
)
_STEP: Final = re.compile(r"\b(?:global[_ ]?)?(?:step|iter(?:ation)?)s?\b['\"]?[\s:=/#\[(]{0,4}(?P<step>\d{1,9})")
_RESTART: Final = re.compile(
    r"restart(?:ing|ed)? (?:the )?(?:worker group|workers|training|attempt|job|run)|(?:attempt|restart)[ #:=]{1,3}\d{1,5} (?:of|/|start)|"
    r"\bstart(?:ing)? attempt|resuming (?:training )?from (?:checkpoint|step|iteration)"
    r"|\d{1,5} restarts? left|requeu(?:ed|eing)|will restart worker group"
)


class Course:
    """Where the job stands at the line read last."""

    def __init__(self) -> None:
        self.attempt = 0
        """How often the job has begun again."""
        self.failed_at: int | None = None
        """Line of the newest failure; None: none since the job began or went on."""
        self.failed_stream = ""
        self._ended = False
        self._progress: list[int] = []
        self._step_line = ""
        """Newest line that names a step; read only when something failed."""

    def note(self, lowered: str) -> None:
        """Take a lower-cased line that may name a step."""
        if "step" in lowered or "iter" in lowered:
            self._step_line = lowered

    def step(self) -> int | None:
        """Step or iteration named last."""
        found = _STEP.search(self._step_line[:1000])
        return int(found["step"]) if found is not None else None

    def failed(self, number: int, stream: str, ended: bool) -> None:
        """Something failed on line `number`; `ended`: and the process with it, so that only a restart goes on from there."""
        self.failed_at, self._progress = number, []
        self.failed_stream = stream
        self._ended = ended

    def begins_again(self, body: str, number: int) -> bool:
        """Whether a line after a failure says that the job begins again."""
        return self.failed_at is not None and number > self.failed_at and _names_restart(body)

    def new_attempt(self) -> None:
        """What follows is another attempt."""
        self.attempt += 1
        self.failed_at = None

    def progress(self, text: str, number: int) -> int | None:
        """The step that a line after a failure names, where progress would mean that the failure was survived."""
        lowered = text[:1000].lower()
        if self._ended or self.failed_at is None or number <= self.failed_at or not _names_progress(lowered):
            return None
        found = _PROGRESS.search(lowered)
        return int(found["named"] or found["bar"]) if found is not None else None

    def goes_on(self, step: int) -> bool:
        """Take a step made after the failure; True when there are enough: the failure is over."""
        self._progress.append(step)
        if len(self._progress) < _ENOUGH or self._progress[-1] <= self._progress[-_ENOUGH]:
            return False
        self.failed_at = None
        return True


def _names_progress(lowered: str) -> bool:
    # Spelled out, because it is asked of every line after a failure.
    return "step" in lowered or "iter" in lowered or "epoch" in lowered or "batch" in lowered or "%|" in lowered


def _names_restart(body: str) -> bool:
    lowered = body[:1000].lower()
    return ("start" in lowered or "resuming" in lowered or "requeu" in lowered) and _RESTART.search(lowered) is not None
