"""The time between steps as a bounded sketch: what pause is normal for this process."""

import math

import msgspec

_RATIO = 1.05
_LOG = math.log(_RATIO)
_LEAST_S = 1e-4
_BUCKETS = 400


class PauseSketch(msgspec.Struct, array_like=True):
    """Counts in buckets 5 % wide, from 0.1 ms to 30,000 s: any order of the same pauses gives the same sketch."""

    counts: dict[int, int] = {}
    total: int = 0
    longest_s: float = 0.0
    last_ns: int = 0
    last_step: int | None = None

    def step(self, time_ns: int, step: int) -> None:
        """A step was logged; times must not go back, several points of one step count once."""
        if self.last_step is not None and step == self.last_step:
            self.last_ns = max(self.last_ns, time_ns)
            return
        # A step that goes back is a restart from a checkpoint within the process: no pause to learn from.
        if self.last_step is not None and step > self.last_step and time_ns > self.last_ns:
            self._observe((time_ns - self.last_ns) / 1e9 / (step - self.last_step), (time_ns - self.last_ns) / 1e9)
        self.last_ns, self.last_step = time_ns, step

    def _observe(self, per_step_s: float, pause_s: float) -> None:
        bucket = max(0, min(_BUCKETS, math.ceil(math.log(max(per_step_s, _LEAST_S) / _LEAST_S) / _LOG)))
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1
        self.longest_s = max(self.longest_s, pause_s)

    def quantile(self, share: float) -> float | None:
        """Upper edge of the bucket that holds this share of the pauses, seconds; None when there are none."""
        if not self.total:
            return None
        wanted, reached = math.ceil(share * self.total), 0
        for bucket in sorted(self.counts):
            reached += self.counts[bucket]
            if reached >= wanted:
                return float(_LEAST_S * _RATIO**bucket)
        raise AssertionError("counts do not add up to their total")
