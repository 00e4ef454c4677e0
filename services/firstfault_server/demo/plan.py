"""What a demonstration job does and how it fails: the one description that launcher and training programs share."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Fault(str, Enum):
    """How one rank of the job fails on purpose; all but CONFIG strike at a step of the training loop."""

    NONE = "none"
    EXCEPTION = "exception"
    """A batch of the wrong shape reaches the model of one rank."""
    SIGKILL = "sigkill"
    """The process kills itself without a word."""
    HANG = "hang"
    """The process stops taking part while the others wait in a collective."""
    NONFINITE = "nonfinite"
    """The loss of one rank becomes NaN; its gradient reaches the others a step later."""
    CONFIG = "config"
    """Every rank reads the same missing setting before the first step."""
    LATE_CAUSE = "late_cause"
    """The connections of one rank break two seconds before it says why."""


LATE_BY_S = 2.0
"""How long the first cause stays silent after its consequences have spoken (Fault.LATE_CAUSE)."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One attempt of a job."""

    fault: Fault = Fault.NONE
    fault_rank: int = 1
    fault_step: int = 20
    steps: int = 60
    step_s: float = 0.05
    """Least wall time of a step, seconds; the arithmetic itself takes far less."""
    collective_timeout_s: float = 60.0
    """How long a collective waits for a peer before it raises."""

    def arguments(self) -> list[str]:
        """Command-line arguments that `parse` reads back."""
        return [
            f"--fault={self.fault.value}",
            f"--fault-rank={self.fault_rank}",
            f"--fault-step={self.fault_step}",
            f"--steps={self.steps}",
            f"--step-s={self.step_s}",
            f"--collective-timeout-s={self.collective_timeout_s}",
        ]

    def strikes(self, fault: Fault, rank: int, step: int) -> bool:
        """Whether this rank fails in this way at this step."""
        return self.fault is fault and rank == self.fault_rank and step == self.fault_step


def parse(argv: Sequence[str] | None = None) -> Plan:
    """The plan a training program was started with; exits with status 2 for arguments that make no sense."""
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Plan()
    parser.add_argument("--fault", type=Fault, choices=list(Fault), default=defaults.fault)
    parser.add_argument("--fault-rank", type=int, default=defaults.fault_rank)
    parser.add_argument("--fault-step", type=int, default=defaults.fault_step)
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--step-s", type=float, default=defaults.step_s)
    parser.add_argument("--collective-timeout-s", type=float, default=defaults.collective_timeout_s)
    return Plan(**vars(parser.parse_args(argv)))
