"""When reporting begins and ends in this process: `init`, hooks, forks, the last seconds. One object per interpreter."""

import importlib
import multiprocessing.process
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from firstfault import _capture
from firstfault import conventions as c
from firstfault._activation import mark_watched, rank_of
from firstfault._client import Client, Settings, is_disabled
from firstfault._guard import LOSSES, guarded
from firstfault._identity import FALLBACK_RUN_ID, Given, ProcessFacts
from firstfault._sidecar_config import AttributeValue
from firstfault.hooks import exits, fork_warning, processes, uncaught

_FORK_WAIT_S = 5.0
"""Longest time a fork waits for the import of OpenTelemetry, once at the start."""
_INTERRUPTED, _TERMINATED = 130, 143
"""Exit statuses by which programs say that they were stopped by SIGINT or SIGTERM."""


def _log_nothing(metrics: Mapping[str, Any], step: "int | None") -> None:
    return None


class Lifecycle:
    """Holds the client, if there is one, and listens to the hooks for it."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.log: Callable[[Mapping[str, Any], int | None], None] = _log_nothing
        """What `firstfault.log` calls; replaced as the client comes and goes."""
        self._inherited: Client | None = None
        """In a forked child: the parent's client, kept but never used to send."""
        self._deferred: Callable[[], None] | None = None
        """In a spawned child: what `init` was called with while the main module was imported again."""
        self._status = exits.ExitStatus()
        self._removers: list[Callable[[], None]] = []
        self._muted = False
        """This forked child must not import what its parent was importing."""
        self._interrupted = False
        self._fork_watched = False
        self._forking: int | None = None
        """Thread that holds the exporter's `loading` while it forks; the child's only thread has the same number."""

    # ---- begin ----

    @guarded(None)
    def init(
        self,
        run_id: str | None,
        run_name: str | None,
        endpoint: str | None,
        api_key: str | None,
        attributes: Mapping[str, AttributeValue] | None,
        sidecar: bool,
    ) -> None:
        """Start reporting, unless it is on or disabled."""
        if self.client is not None or self._muted or is_disabled(os.environ):
            return
        if _main_is_imported_again():
            # A data worker started by `spawn` gets here through the top of the user's script, and has nothing to say yet.
            self._deferred = lambda: self.init(run_id, run_name, endpoint, api_key, attributes, sidecar)
            self.log = self._first_log_in_child
            return
        role = "auxiliary" if self._deferred is not None and not rank_of(os.environ) else "trainer"
        self._deferred = None
        given = Given(run_id=run_id, run_name=run_name, role=role, attributes=dict(attributes or {}))
        settings = Settings.read(os.environ, given, endpoint, api_key, sidecar)
        try:
            client = Client(settings, os.environ, ProcessFacts.here())
        except ValueError:
            # The address is the user's; a typing error in it must not stop his training.
            LOSSES.count("bad_endpoint")
            return
        if client.resource[c.RUN_ID_SOURCE] == "own":
            # Nothing names this run but us: children that report too must give the same name.
            os.environ[FALLBACK_RUN_ID] = str(client.resource[c.RUN_ID])
        self._use(client)
        mark_watched(os.environ, client.pid)
        client.start()

    def _use(self, client: Client) -> None:
        self.client, self._inherited = client, None
        self.log = client.recorder.log
        self._status.forget()
        if not self._removers:
            self._removers = [uncaught.install(self), exits.install(self._status, self._last_step, self.at_exit), processes.install(self)]
        if not self._fork_watched and hasattr(os, "register_at_fork"):
            self._fork_watched = True
            # Its hook takes the lock that our thread needs while it imports OpenTelemetry, and hooks run last come, first served:
            # registered after it, ours waits for the thread before that lock is taken. The same holds for `logging` in it.
            importlib.import_module("concurrent.futures.thread")
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._in_child)

    def _last_step(self) -> int | None:
        return self.client.recorder.last_step if self.client is not None else None

    def reporting(self) -> Client | None:
        """The client; in a forked child that has something to say, one of its own."""
        if self.client is None and self._inherited is not None:
            self._report_from_child(self._inherited)
        elif self.client is None and self._deferred is not None:
            self._deferred()
        return self.client

    # ---- forks ----

    @guarded(None)
    def _before_fork(self) -> None:
        client = self.client
        if client is None:
            return
        if client.exporter.loading.acquire(timeout=_FORK_WAIT_S):
            self._forking = threading.get_ident()
        fork_warning.silence_if_ours_alone()

    @guarded(None)
    def _after_fork(self) -> None:
        if self._forking == threading.get_ident() and self.client is not None:
            self._forking = None
            self.client.exporter.loading.release()

    @guarded(None)
    def _in_child(self) -> None:
        """Stay quiet: what is queued is the parent's to send, and its thread does not exist here."""
        if self.client is not None and self._forking != threading.get_ident():
            # Some other hook kept the thread from ending its import. Its modules will stay half made here: never touch them.
            LOSSES.count("forked_while_loading")
            self.client.forget_parent()
            self.client = self._inherited = None
            self._muted = True
        self._forking = None
        if self.client is not None:
            self.client.forget_parent()
        self._inherited = self.client or self._inherited
        self.client = None
        self._status.forget()
        self.log = self._first_log_in_child if self._inherited is not None else _log_nothing

    @guarded(None)
    def _first_log_in_child(self, metrics: Mapping[str, Any], step: "int | None") -> None:
        client = self.reporting()
        if client is not None:
            self.log(metrics, step)

    @guarded(None)
    def _report_from_child(self, parent: Client) -> None:
        kept = {name: parent.resource[name] for name in (c.RUN_ID, c.RUN_ID_SOURCE)}
        given = replace(parent.settings.given, role="auxiliary", attributes={**parent.settings.given.attributes, **kept})
        client = Client(replace(parent.settings, given=given, sidecar=False), os.environ, ProcessFacts.here())
        self._use(client)
        client.start()

    # ---- what the hooks hear ----

    def uncaught(self, error: BaseException, prior_is_default: bool) -> None:
        """An exception went through `sys.excepthook`."""
        if _still_handled(error):
            # Somebody shows it and goes on.
            self.captured(error)
            return
        client = self.reporting()
        if client is None:
            return
        client.exporter.process_ends()
        client.exception(error, "excepthook", fatal=True, thread=threading.current_thread().name)
        self._write_elastic(error)
        self._interrupted = isinstance(error, KeyboardInterrupt)
        if self._interrupted:
            client.ends("cancelled", _INTERRUPTED, "excepthook", "KeyboardInterrupt", signal_number=2)
        else:
            client.ends("failed", 1, "excepthook", _one_line(error))
        if not prior_is_default:
            # It may end the process at once, as MPI's abort hooks do.
            client.exporter.flush(client.exporter.time_left())

    @guarded(None)
    def _write_elastic(self, error: BaseException) -> None:
        if not os.environ.get("TORCHELASTIC_ERROR_FILE"):
            return
        from firstfault import _elastic

        _elastic.write(type(error), error, error.__traceback__)

    def thread_died(self, error: BaseException, thread: str) -> None:
        """An exception ended a thread; the process lives on."""
        client = self.reporting()
        if client is not None:
            client.exception(error, "thread", fatal=False, thread=thread)

    def child_raised(self, error: BaseException, name: str) -> None:
        """An exception ends this child of `multiprocessing`."""
        client = self.reporting()
        if client is not None and not client.ended:
            client.exporter.process_ends()
            client.exception(error, "multiprocessing", fatal=True, thread=name)
            client.ends("failed", 1, "excepthook", _one_line(error))

    def child_ends(self, code: int) -> None:
        """This child of `multiprocessing` ends; no `atexit` will run."""
        client = self.client
        if client is not None:
            if not client.ended and code and code == self._status.code and self._status.handling is not None:
                client.handled_before_exit(self._status.handling)
            client.ends("finished" if code == 0 else "failed", code, "atexit", "" if code == 0 else f"exit status {code}")
            client.stop()

    @guarded(None)
    def at_exit(self) -> None:
        """The interpreter ends."""
        client = self.client
        if client is None:
            return
        if not client.ended:
            self._find_reason(client)
        client.stop()
        if self._interrupted:
            exits.restore_death_by_interrupt()

    def _find_reason(self, client: Client) -> None:
        # Set by the interpreter before any hook, so that a hook that replaced ours hides nothing.
        last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        status = self._status
        if isinstance(last, BaseException) and not hasattr(sys, "ps1"):
            client.exception(last, "excepthook", fatal=True)
            client.ends("failed", 1, "atexit", _one_line(last))
        elif status.code and client.recorder.last_step == status.step:
            if status.handling is not None:
                client.handled_before_exit(status.handling)
            # A stop by a signal is the same whether the program handled it or its sidecar saw it.
            stopped = status.code in (_INTERRUPTED, _TERMINATED)
            signal_number = status.code - 128 if stopped else None
            client.ends(
                "cancelled" if stopped else "failed", status.code, "atexit", status.reason or f"exit status {status.code}", signal_number
            )
        else:
            client.ends("finished", 0, "atexit", "")

    # ---- what the user calls ----

    @guarded(None)
    def captured(self, error: BaseException | None) -> None:
        """`capture_exception`."""
        client = self.reporting()
        error = error if error is not None else sys.exc_info()[1]
        if client is not None and isinstance(error, BaseException):
            client.exception(error, "captured", fatal=False, thread=threading.current_thread().name)

    @guarded(None)
    def event(self, name: str, attributes: Mapping[str, Any] | None) -> None:
        """`event`."""
        client = self.reporting()
        if client is not None:
            client.event(name, attributes)

    @guarded(None)
    def phase_begins(self, name: str, expect_s: float | None) -> None:
        """Entering `phase`."""
        client = self.reporting()
        if client is not None:
            client.phase_begins(name, expect_s)

    @guarded(None)
    def phase_ends(self, name: str, error: BaseException | None) -> None:
        """Leaving `phase`."""
        client = self.reporting()
        if client is not None:
            client.phase_ends(name, error)

    @guarded(False)
    def flush(self, timeout_s: float) -> bool:
        """`flush`."""
        client = self.client
        return client is None or client.exporter.flush(max(timeout_s, 0.0))

    @guarded(None)
    def shutdown(self) -> None:
        """`shutdown`: the process says it is done; what happens to it later is seen by its sidecar only."""
        client = self.client
        if client is None:
            return
        client.ends("finished", None, "atexit", "shutdown")
        client.stop()
        for remove in reversed(self._removers):
            remove()
        self._removers = []
        self.client, self.log = None, _log_nothing


def _main_is_imported_again() -> bool:
    """Whether this is a child of `multiprocessing` that is still being prepared."""
    return bool(getattr(multiprocessing.process.current_process(), "_inheriting", False))


def _still_handled(error: BaseException) -> bool:
    """Whether the frame that caught the exception still runs: then Python code called the hook, not the dying interpreter."""
    trace = error.__traceback__
    frame = sys._getframe()
    while trace is not None and frame is not None:
        if frame is trace.tb_frame:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _one_line(error: BaseException) -> str:
    message = _capture.message_of(error).partition("\n")[0]
    kind = _capture.type_name(type(error))
    return f"{kind}: {message}" if message else kind
