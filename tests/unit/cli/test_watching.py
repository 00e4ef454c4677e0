"""Whether a server answers is known at once: when it refuses, when it breaks, and when it hangs."""

import threading

from firstfault_server.cli.serve.watching import Watch
from firstfault_server.ports import StoreUnavailable
from tests.integration.distributed.installation import wait_for

PATIENCE_S = 3.0


class Server:
    """Answers as it is told to; time is moved by hand."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.hanging, self.released = threading.Event(), threading.Event()
        self.asked = threading.Semaphore(0)
        self.now_s = 100.0
        self.watch = Watch("store", self._ask, every_s=0.001, patience_s=PATIENCE_S, monotonic=lambda: self.now_s)

    def _ask(self) -> None:
        self.asked.release()
        if self.hangs:
            self.hanging.set()
            assert self.released.wait(10)
        if self.error is not None:
            raise self.error


def test_a_server_that_was_not_asked_yet_is_a_problem() -> None:
    assert Server().watch.problem


def test_a_server_that_goes_and_comes_back() -> None:
    server = Server()
    server.watch.start()
    try:
        wait_for(lambda: server.watch.problem == "", "it answers")
        server.error = StoreUnavailable("the disk is away")
        wait_for(lambda: server.watch.problem == "the disk is away", "it refuses")
        server.error = KeyError("oops")
        wait_for(lambda: server.watch.problem == "KeyError: 'oops'", "it breaks")
        server.error = None
        wait_for(lambda: server.watch.problem == "", "it answers again")
    finally:
        server.watch.stop()


def test_a_server_that_hangs_is_a_problem_while_it_hangs() -> None:
    server = Server()
    server.hangs = True
    server.watch.start()
    try:
        assert server.hanging.wait(10)
        assert server.watch.problem == "not asked yet"
        server.now_s += PATIENCE_S + 1
        assert server.watch.problem == "no answer for 4 s"
        server.released.set()
        wait_for(lambda: server.watch.problem == "", "it answers")
    finally:
        server.released.set()
        server.watch.stop()


def test_a_watch_that_was_stopped_asks_no_more() -> None:
    server = Server()
    server.watch.start()
    assert server.asked.acquire(timeout=10)
    server.watch.stop()
    server.watch._thread.join(10)
    assert not server.watch._thread.is_alive()
