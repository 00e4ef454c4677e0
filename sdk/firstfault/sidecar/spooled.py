"""What happens to the spool when a process has ended: its last records go there, or what the process left there goes out."""

import gzip
import time
from collections.abc import Sequence
from pathlib import Path

from firstfault._http import Poster, Reply
from firstfault._sidecar_config import SidecarConfig
from firstfault._spool import Spool
from firstfault.sidecar.send import Batch

_TOO_LATE = Reply("try_again", "timeout")


def settle_spool(config: SidecarConfig, unsent: Sequence[Batch], timeout_s: float) -> None:
    """Keep `unsent`. If there is none, the service answers: deliver what is kept for it, for at most `timeout_s`.

    A process that ends has little time to deliver its exception; without this it would come to light with the next job.
    """
    spool = Spool(Path(config.spool_dir))
    for batch in unsent:
        spool.put("logs", gzip.compress(batch.body, 1), "application/json")
    if unsent:
        return
    poster = Poster(config.endpoint, config.headers)
    deadline = time.monotonic() + timeout_s

    def send(signal: str, body: bytes, content_type: str) -> Reply:
        left_s = deadline - time.monotonic()
        return poster.post(f"/v1/{signal}", body, content_type, "gzip", left_s) if left_s > 0 else _TOO_LATE

    while spool.deliver(send):
        continue
    poster.close()
