"""What happens to the spool when a process has ended: its last records go there, or what the process left there goes out."""

import gzip
import random
import time
from collections.abc import Sequence
from pathlib import Path

from firstfault._http import Poster, Reply
from firstfault._sidecar_config import SidecarConfig
from firstfault._spool import Spool
from firstfault.sidecar.send import Batch

_TOO_LATE = Reply("try_again", "timeout")


_POST_S = 3.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0


def settle_spool(config: SidecarConfig, unsent: Sequence[Batch], timeout_s: float) -> bool:
    """Keep `unsent`. If there is none, the service answers: deliver what is kept for it, for at most `timeout_s`. False: kept some.

    A process that ends has little time to deliver its exception; without this it would come to light with the next job.
    """
    spool = Spool(Path(config.spool_dir))
    for batch in unsent:
        spool.put("logs", gzip.compress(batch.body, 1), "application/json")
    if unsent:
        return False
    poster = Poster(config.endpoint, config.headers)
    deadline = time.monotonic() + timeout_s

    def send(signal: str, body: bytes, content_type: str) -> Reply:
        left_s = deadline - time.monotonic()
        return poster.post(f"/v1/{signal}", body, content_type, "gzip", left_s) if left_s > 0 else _TOO_LATE

    while spool.deliver(send):
        continue
    poster.close()
    return True


def deliver_later(config: SidecarConfig, within_s: float) -> None:
    """Deliver the spool once the service is back, if that is in time: a job may end while it is away, and no other may follow."""
    spool, poster = Spool(Path(config.spool_dir)), Poster(config.endpoint, config.headers)
    deadline, pause_s = time.monotonic() + within_s, _FIRST_PAUSE_S

    def send(signal: str, body: bytes, content_type: str) -> Reply:
        return poster.post(f"/v1/{signal}", body, content_type, "gzip", _POST_S)

    while len(spool) and time.monotonic() < deadline:
        # Jitter spreads the ranks of a job that ended together.
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = _FIRST_PAUSE_S if spool.deliver(send) else min(2 * pause_s, _LONGEST_PAUSE_S)
    poster.close()
