"""The system's clock as the `Clock` port."""

import time


class SystemClock:
    """Wall clock of this machine."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()
