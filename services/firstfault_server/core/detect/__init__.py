"""Detectors over the numbers of one process: one file each, listed here and nowhere else."""

from firstfault_server.core.detect.nonfinite import Nonfinite
from firstfault_server.core.detect.protocol import Detector
from firstfault_server.core.thresholds import Thresholds


def detectors(thresholds: Thresholds) -> tuple[Detector, ...]:
    """Every streaming detector, ready to use."""
    return (Nonfinite(thresholds),)
