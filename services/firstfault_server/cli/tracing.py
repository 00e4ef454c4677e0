"""Spans around what a service does, put on from outside: requests, batches, deliveries."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from opentelemetry.trace import NoOpTracer, SpanKind, Status, StatusCode, Tracer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstfault_server import ports
from firstfault_server.alerter.sinks import Outcome, Sink

T = TypeVar("T")


def traced_app(app: ASGIApp, tracer: Tracer) -> ASGIApp:
    """The application with a span a request."""
    if isinstance(tracer, NoOpTracer):
        return app

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        with tracer.start_as_current_span(str(scope["method"]), kind=SpanKind.SERVER) as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await app(scope, receive, noted)
            # Known only after routing; the path itself may hold ids.
            route: Any = scope.get("route")
            path = getattr(route, "path", None)
            if path:
                span.update_name(f"{scope['method']} {path}")
                span.set_attribute("http.route", path)

    return served


def traced_handler(handle: Callable[[Sequence[T]], None], tracer: Tracer, name: str) -> Callable[[Sequence[T]], None]:
    """The handler with a span a batch."""

    def handled(records: Sequence[T]) -> None:
        attributes: dict[str, str | int] = {"messaging.system": "kafka", "messaging.batch.message_count": len(records)}
        with tracer.start_as_current_span(f"process {name}", kind=SpanKind.CONSUMER, attributes=attributes):
            handle(records)

    return handled


class TracedSink:
    """A sink with a span a try."""

    def __init__(self, sink: Sink, tracer: Tracer) -> None:
        self._sink, self._tracer = sink, tracer

    async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
        """Try once; never raises for what a receiver or the network does."""
        attributes = {"firstfault.message": message.id, "firstfault.destination": destination.id}
        with self._tracer.start_as_current_span(f"deliver {destination.kind}", kind=SpanKind.CLIENT, attributes=attributes) as span:
            outcome = await self._sink.send(destination, message, now_ns)
            if outcome.status is not None:
                span.set_attribute("http.response.status_code", outcome.status)
            if not outcome.delivered:
                span.set_status(Status(StatusCode.ERROR, outcome.error))
            return outcome

    async def close(self) -> None:
        """Release connections."""
        await self._sink.close()
