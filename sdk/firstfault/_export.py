"""The background thread that empties the recorder once a second and delivers what was in it.

Everything slow happens here: importing OpenTelemetry, formatting, encoding, the network. What could not be delivered waits in
a queue bounded in bytes and is tried again with growing pauses; a request keeps its number, so that the service counts it once.
"""

import importlib
import json
import os
import random
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from firstfault import _otlp_json
from firstfault._guard import LOSSES
from firstfault._http import Poster, Reply
from firstfault._recorder import STEPS_KEPT, Recorder
from firstfault._sidecar_config import AttributeValue
from firstfault._spool import Spool
from firstfault._wire import Request
from firstfault.redact import Redactor

if TYPE_CHECKING:
    from firstfault._encode import Encoder

    AnyEncoder: TypeAlias = "Encoder | _otlp_json.EmergencyEncoder"

QUEUE_BYTES = 16 * 1024 * 1024
"""Encoded requests kept in memory while the service does not answer."""
_REQUEST_TIMEOUT_S = 10.0
_FAILING_SHARE = 3
"""The end waits only a third of its time for a service that did not answer before."""
_IN_ORDER = 4
"""A queue of so many requests is sent in order: an exit record then follows the numbers before it."""
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_BUSY_INTERVAL_S = 0.1
_LOADING_DELAY_S = 1.0
"""OpenTelemetry is imported when the process is so old, or when something is to be sent before: the end of a shorter one
would have to wait for the import."""
_LOOK_S = 0.02
_KEEPING_S = 0.3
"""Time for waiting for the thread and putting on disk what the end of the process could not deliver; a disk that hangs must not
keep the process."""
_SPOOL_PAUSE_S = 15.0
"""Time between looks into an empty spool."""
_PATHS = {"metrics": "/v1/metrics", "logs": "/v1/logs"}


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """Where to and as whom."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)
    resource: Mapping[str, AttributeValue] = field(default_factory=dict)
    redactor: Redactor = field(default_factory=Redactor)
    protocol: str = ""
    interval_s: float = 1.0
    sender: str = "sdk"
    exit_wait_s: float = 1.5
    """Longest time the end of the process waits for delivery in all; the contract allows 2 s."""


class _Flush:
    """Somebody who waits for what is queued now."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.delivered = False


class Exporter:
    """One thread, one connection. A forked child makes an exporter of its own and never touches its parent's."""

    def __init__(self, recorder: Recorder, settings: ExportSettings, spool: Spool | None = None) -> None:
        """Raises ValueError for an endpoint that is no HTTP address. Starts nothing."""
        self._recorder = recorder
        self._settings = settings
        self._spool = spool
        self._spool_due = 0.0
        self._poster = Poster(settings.endpoint, settings.headers)
        self._queue: deque[Request] = deque()
        self._queued_bytes = 0
        self._flushes: deque[_Flush] = deque()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._encoder: AnyEncoder | None = None
        self._failures = 0
        self._next_try = 0.0
        self._asked_to_wait_until = 0.0
        self._busy = False
        self._stopping = False
        self._posting = False
        self._set_aside = False
        self._abandoned = False
        self._exit_delivered = False
        self._ending = False
        self._loads = False
        self._loaded = threading.Event()
        self._end: float | None = None
        self._pid = os.getpid()
        self.loading = threading.Lock()
        """Held while modules are imported: a fork in the middle would leave the child with module locks nobody releases."""

    @property
    def failing(self) -> bool:
        """The last request could not be delivered."""
        return self._failures > 0

    @property
    def exit_delivered(self) -> bool:
        """The service acknowledged an exit record."""
        return self._exit_delivered

    def start(self) -> None:
        """Start the thread, once. Raises RuntimeError when the interpreter starts no more threads."""
        if self._thread is None:
            # OpenTelemetry needs it, and it cannot be imported by our thread once the main thread has ended.
            importlib.import_module("concurrent.futures.thread")
            thread = threading.Thread(target=self._run, name="firstfault-export", daemon=True)
            self._thread = thread
            thread.start()
            # Once the main thread has ended, a module can no longer start threads or register exits, and OpenTelemetry's do at
            # import. So the end waits for an import that has begun, and none begins after it.
            register = getattr(threading, "_register_atexit", None)
            if register is not None:
                register(self._main_thread_ends)

    def _main_thread_ends(self) -> None:
        if os.getpid() != self._pid or self._thread is None or not self._thread.is_alive():
            return
        if not self._loaded.is_set() and _others_go_on():
            # The program lives on in its threads: it needs the encoder, and has the time.
            self._wake.set()
            until = time.monotonic() + self._settings.exit_wait_s
            while _others_go_on() and not self._loaded.wait(_LOOK_S) and time.monotonic() < until:
                pass
        if _others_go_on():
            return
        self.process_ends()
        left = self.time_left()
        if self._loads:
            self._loaded.wait(left)

    def process_ends(self) -> None:
        """Start no import of OpenTelemetry any more, unless other threads keep the process alive. Waits for nothing."""
        self._ending = self._ending or not _others_go_on()

    def wake(self) -> None:
        """Send soon."""
        self._wake.set()

    def flush(self, timeout_s: float) -> bool:
        """Wait until what is queued now was delivered or refused; False when it was not in time or could not be."""
        if self._thread is None or not self._thread.is_alive():
            return False
        return self._wait(self._ask_flush(), timeout_s)

    def _ask_flush(self) -> _Flush:
        waiting = _Flush()
        self._flushes.append(waiting)
        return waiting

    def _wait(self, waiting: _Flush, timeout_s: float) -> bool:
        self._wake.set()
        return waiting.done.wait(timeout_s) and waiting.delivered

    def time_left(self) -> float:
        """Seconds that the end of the process may still wait; the first call starts the clock."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + self._settings.exit_wait_s / (_FAILING_SHARE if self.failing else 1)
        return max(self._end - now, 0.0)

    def stop(self) -> bool:
        """Flush in the time left, end the thread, keep on disk what remains. True when everything was delivered."""
        waiting = self._ask_flush()
        # After the request, or the thread could end between the two and nobody would answer it.
        self._stopping = True
        alive = self._thread is not None and self._thread.is_alive()
        delivered = alive and self._wait(waiting, self.time_left())
        if not delivered:
            self._keep_rest()
        return delivered

    # ---- in the thread ----

    def _run(self) -> None:
        try:
            self._wake.wait(min(self._settings.interval_s, _LOADING_DELAY_S))
            if not self._load():
                return
            while not self._abandoned:
                self._wake.wait(min(self._settings.interval_s, _BUSY_INTERVAL_S) if self._busy else self._settings.interval_s)
                self._wake.clear()
                try:
                    self._round()
                except Exception as error:
                    LOSSES.internal_error(error, "export")
                if self._stopping and not self._flushes:
                    return
        except Exception as error:
            # The thread is nobody's to catch from; training goes on without reports.
            LOSSES.internal_error(error, "export")
        finally:
            self._release()

    def _load(self) -> bool:
        """Import what encoding needs, and what the network layer would import in the middle of a request."""
        settings = self._settings
        with self.loading:
            self._loads = True
            try:
                if self._ending or self._stopping:
                    "localhost".encode("idna")
                    self._encoder = _otlp_json.EmergencyEncoder(settings.resource, settings.sender, settings.redactor)
                    return True
                module = importlib.import_module("firstfault._encode")
                importlib.import_module("email.utils")
                "localhost".encode("idna")
                self._encoder = module.Encoder(settings.resource, settings.sender, settings.redactor, settings.protocol)
            except ImportError:
                LOSSES.count("opentelemetry_missing")
                return False
            finally:
                self._loaded.set()
        return True

    def _round(self) -> None:
        waiting = list(self._flushes)
        self._set_aside = False
        if self._encoder is not None:
            self._encode(self._encoder)
        now = time.monotonic()
        urgent = any(request.urgent for request in self._queue) and now >= self._asked_to_wait_until
        if waiting or urgent or now >= self._next_try:
            self._deliver()
        self._deliver_spooled()
        for flush in waiting:
            flush.delivered = not self._queue and not self._set_aside
            flush.done.set()
            self._flushes.remove(flush)

    def _encode(self, encoder: "AnyEncoder") -> None:
        entries = _drain(self._recorder.entries)
        samples = _drain(self._recorder.samples)
        # A program that logs faster than usual would fill the queue before the next regular look.
        self._busy = len(samples) > STEPS_KEPT // 8
        for request in (*encoder.metrics(samples), *encoder.logs(entries)):
            self._queue.append(request)
            self._queued_bytes += len(request.body)
        while self._queued_bytes > QUEUE_BYTES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Numbers go first: an exception is worth more than a thousand points."""
        oldest = next((request for request in self._queue if not request.urgent), self._queue[0])
        self._remove(oldest)
        if not self._keep(oldest):
            LOSSES.count("unsent_full")

    def _keep(self, request: Request, later: bool = False) -> bool:
        return self._spool is not None and self._spool.put(request.signal, request.body, request.content_type, later=later)

    def _remove(self, request: Request) -> None:
        self._queue.remove(request)
        self._queued_bytes -= len(request.body)

    def _deliver(self) -> None:
        """Send the queue until one request has to be tried again; of a long queue the urgent ones first."""
        overtake = len(self._queue) > _IN_ORDER
        for request in sorted(self._queue, key=lambda request: overtake and not request.urgent):
            reply = self._post(request.signal, request.body, request.content_type)
            if self._abandoned:
                return
            if reply.verdict == "try_again":
                self._failures += 1
                pause = min(_PAUSE_S * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S)
                wanted = reply.retry_after_s if reply.retry_after_s is not None else pause
                # Spread, or a thousand ranks that lost the service together would return together.
                self._next_try = time.monotonic() + wanted * random.uniform(0.7, 1.3)
                if reply.retry_after_s is not None:
                    self._next_try = self._asked_to_wait_until = time.monotonic() + wanted * random.uniform(1.0, 1.3)
                return
            self._failures = 0
            self._remove(request)
            if reply.verdict == "failed" and request.urgent and self._keep(request, later=True):
                self._set_aside = True
            elif reply.verdict != "accepted":
                LOSSES.count(f"refused:{reply.reason}")
            elif request.ends_process:
                self._exit_delivered = True

    def _post(self, signal: str, body: bytes, content_type: str) -> Reply:
        self._posting = True
        try:
            reply = self._poster.post(_PATHS[signal], body, content_type, "gzip", _REQUEST_TIMEOUT_S)
        finally:
            self._posting = False
        if reply.verdict == "accepted":
            # What the service rejected inside an accepted request is gone: OTLP forbids to send it again.
            LOSSES.count("rejected_by_service", rejected(reply.body))
        return reply

    def _deliver_spooled(self) -> None:
        """Deliver what earlier processes left, a little at a time, when nothing of our own waits."""
        now = time.monotonic()
        if self._spool is not None and not self._queue and not self._stopping and not self.failing and now >= self._spool_due:
            more = self._spool.deliver(self._post) > 0
            self._spool_due = now + (0 if more else _SPOOL_PAUSE_S)

    def _release(self) -> None:
        self._poster.close()
        while self._flushes:
            self._flushes.popleft().done.set()

    # ---- at the end, in the thread of the caller ----

    def _keep_rest(self) -> None:
        """Put on disk what the thread could not deliver. While it hangs in the network its encoder is free to use."""
        self._abandoned = True
        until = time.monotonic() + _KEEPING_S
        thread = self._thread
        encoder = self._encoder
        if encoder is None:
            # OpenTelemetry was not imported in time or is not there. From now on nothing else may encode: numbers start at 1.
            encoder = _otlp_json.EmergencyEncoder(self._settings.resource, self._settings.sender, self._settings.redactor)
        elif thread is not None and thread.is_alive() and not self._posting:
            thread.join(_KEEPING_S / 2)
            if thread.is_alive() and not self._posting:
                LOSSES.count("unsent_at_exit")
                return
        self._encode(encoder)
        for request in sorted(self._queue, key=lambda request: not request.urgent):
            if time.monotonic() >= until or not self._keep(request):
                LOSSES.count("unsent_at_exit")
        self._queue.clear()


def _others_go_on() -> bool:
    """Whether threads run that keep the process alive after its main thread."""
    main = threading.main_thread()
    return any(thread is not main and thread.is_alive() and not thread.daemon for thread in threading.enumerate())


def _drain(queue: "deque[Any]") -> list[Any]:
    """Everything that is in the queue now; what is appended meanwhile waits for the next round."""
    taken = []
    for _ in range(len(queue)):
        try:
            taken.append(queue.popleft())
        except IndexError:  # the writer dropped its oldest meanwhile
            break
    return taken


def rejected(answer: bytes) -> int:
    """Number of points or records that an answer says were not taken, in JSON or protobuf; 0 for what is no such answer."""
    if answer[:1] == b"\x0a":
        return _rejected_in_protobuf(answer)
    try:
        partial = json.loads(answer).get("partialSuccess") or {}
        return int(partial.get("rejectedDataPoints") or partial.get("rejectedLogRecords") or 0)
    except (ValueError, TypeError, AttributeError):
        return 0


def _rejected_in_protobuf(answer: bytes) -> int:
    """Field 1 (partial_success) holds a message whose field 1 is the number, a varint."""
    if len(answer) < 4 or (answer[1] & 0x80 and answer[2] & 0x80):
        return 0
    inner = answer[3 if answer[1] & 0x80 else 2 :]
    if inner[:1] != b"\x08":
        return 0
    number = 0
    for place, byte in enumerate(inner[1:11]):
        number |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return number
    return 0
