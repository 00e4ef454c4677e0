"""Asks servers every few seconds whether they answer, so that readiness knows it at once, however long a server takes."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from firstfault_server import ports
from firstfault_server.adapters.elasticsearch import ElasticsearchStores
from firstfault_server.cli.process import Process
from firstfault_server.core.access import DEFAULT_TENANT
from firstfault_server.ports import StoreUnavailable

EVERY_S: Final = 2.0
PATIENCE_S: Final = 3.0
"""A server that takes longer to answer a question about nothing counts as away."""
NOTHING: Final = "none"
"""What is asked for: no incident and no run has this id, so that the answer costs next to nothing."""

_logger = logging.getLogger(__name__)


class Watch:
    """Asks one server in a thread of its own. A question that hangs is a problem, too, and holds up nobody."""

    def __init__(
        self,
        name: str,
        ask: Callable[[], object],
        every_s: float = EVERY_S,
        patience_s: float = PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._ask, self._every_s, self._patience_s, self._monotonic = name, ask, every_s, patience_s, monotonic
        self._said = "not asked yet"
        self._asked_at: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    @property
    def problem(self) -> str:
        """Why the server does not answer now; empty: it does."""
        asked_at = self._asked_at
        waited_s = 0.0 if asked_at is None else self._monotonic() - asked_at
        return f"no answer for {waited_s:.0f} s" if waited_s > self._patience_s else self._said

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; a question under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._asked_at = self._monotonic()
            said = self._answer()
            if said and not self._said and not self._stopping.is_set():
                _logger.error("%s does not answer: %s", self._name, said)
            elif self._said and not said:
                _logger.info("%s answers", self._name)
            self._said, self._asked_at = said, None
            self._stopping.wait(self._every_s)

    def _answer(self) -> str:
        try:
            self._ask()
        except StoreUnavailable as error:
            return str(error)
        except Exception as error:
            # Whatever it is, requests would end the same way; readiness says so until it is over.
            return f"{type(error).__name__}: {error}"
        return ""


def watch_elasticsearch(process: Process, stores: ElasticsearchStores) -> Watch:
    """Whether Elasticsearch answers, until the end."""
    return _watch(process, "elasticsearch", lambda: stores.triage.triage(DEFAULT_TENANT, NOTHING))


def watch_clickhouse(process: Process, aggregates: ports.AggregateStore) -> Watch:
    """Whether ClickHouse answers, until the end."""
    return _watch(process, "clickhouse", lambda: aggregates.metrics(DEFAULT_TENANT, NOTHING))


def _watch(process: Process, name: str, ask: Callable[[], object]) -> Watch:
    watch = Watch(name, ask)
    process.stack.callback(watch.stop)
    watch.start()
    return watch
