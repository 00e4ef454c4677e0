"""How much one tenant may send: a tenant above its quota is told to wait, and costs the others nothing."""

import math
from collections.abc import Callable
from typing import Final

BURST_S: Final = 5.0
"""A tenant may send for so long at once what it may send in that time: spools are delivered in bursts."""
LONGEST_WAIT_S: Final = 30
MOST_TENANTS: Final = 10_000


class OverQuota(Exception):
    """The tenant is above its quota; try again after `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("this tenant sends more than its quota; send less, or try again later")
        self.retry_after_s = retry_after_s


class Quota:
    """A token bucket for each tenant and kind of signal, in bytes after decompression.

    Numbers have a bucket apart from logs and traces, so that a flood of numbers holds up no crash report. A request is taken as long
    as there is anything left, however large it is; what it takes too much is waited for by the next ones.
    """

    def __init__(self, bytes_per_s: int, monotonic: Callable[[], float]) -> None:
        """`bytes_per_s` 0: no quota."""
        self._rate, self._monotonic = bytes_per_s, monotonic
        self._left: dict[tuple[str, bool], tuple[float, float]] = {}
        """(bytes, at which time) by tenant and whether it is numbers."""

    def admit(self, tenant: str, numbers: bool) -> None:
        """Before a request is unpacked. Raises OverQuota."""
        if not self._rate:
            return
        left = self._now(tenant, numbers)
        if left <= 0:
            raise OverQuota(min(LONGEST_WAIT_S, max(1, math.ceil(-left / self._rate))))

    def take(self, tenant: str, numbers: bool, size: int) -> None:
        """Count what a request was, once it is known."""
        if not self._rate:
            return
        if len(self._left) >= MOST_TENANTS:
            self._left.clear()
        self._left[tenant, numbers] = (self._now(tenant, numbers) - size, self._monotonic())

    def _now(self, tenant: str, numbers: bool) -> float:
        most = self._rate * BURST_S
        left, at = self._left.get((tenant, numbers), (most, 0.0))
        return min(most, left + (self._monotonic() - at) * self._rate)
