"""Around every request: its id, the check of Host and Origin, counts and times, and an answer when a route breaks."""

import ipaddress
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstfault_server.api.problems import problem_response
from firstfault_server.api.services import Services
from firstfault_server.telemetry import ApiMetrics

MAX_BODY_BYTES = 1 << 20
TOO_LARGE = f"a request may have {MAX_BODY_BYTES} bytes"
_LOCAL_NAMES = frozenset({"localhost"})


class RequestEnvelope:
    """Outermost ASGI layer: sets the request id, counts, and turns an unforeseen error into a problem document."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        services: Services = scope["app"].state.services
        metrics: ApiMetrics = scope["app"].state.metrics
        request_id = uuid.uuid4().hex
        scope["firstfault.request_id"] = request_id
        started = time.perf_counter()
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise HTTPException(413, TOO_LARGE)
            return message

        status = 500
        begun = False

        async def stamped(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status = message["status"]
                begun = True
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers.setdefault("cache-control", "no-store")
                headers["x-content-type-options"] = "nosniff"
            await send(message)

        try:
            refused = host_problem(Headers(scope=scope), services)
            if refused:
                await problem_response(request_id, 403, refused, "origin")(scope, receive, stamped)
            elif _stated_length(scope) > MAX_BODY_BYTES:
                await problem_response(request_id, 413, TOO_LARGE)(scope, receive, stamped)
            else:
                await self._app(scope, counted, stamped)
        except Exception as error:
            services.log.error("request failed", request_id=request_id, path=scope["path"], exc_info=error)
            if begun:
                raise
            await problem_response(request_id, 500, "the service failed; its log has the details under this request_id")(
                scope, receive, stamped
            )
        finally:
            route = route_path(scope)
            metrics.requests.labels(scope["method"] if route else "", route, str(status)).inc()
            metrics.latency.labels(scope["method"] if route else "", route).observe(time.perf_counter() - started)


def _stated_length(scope: Scope) -> int:
    stated = Headers(scope=scope).get("content-length", "")
    return int(stated) if stated.isdigit() and len(stated) < 20 else 0


def route_path(scope: Scope) -> str:
    """Template of the route that took the request; empty when none did, so that labels stay few."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", ""))


def host_problem(headers: Headers, services: Services) -> str | None:
    """Why a request is refused by its Host or Origin, or None.

    A page of any web site can make a browser on this machine call the service (directly, or by DNS rebinding), with any header
    that it likes. Rebinding needs a name, so a name must be one of ours: `localhost`, the one in the links of messages, or one of
    `allowed_hosts`; addresses are served. A request of a web page must come from an allowed origin or the same one.
    """
    host = headers.get("host", "")
    name = _host_of(host)
    if not _is_address(name) and name not in _LOCAL_NAMES | _names(services):
        return f"the host {name!r} is not served here; add it to allowed_hosts"
    origin = headers.get("origin")
    if origin is not None and origin not in services.allowed_origins and (not _parses(origin) or urlsplit(origin).netloc != host):
        return "the origin of this web page is not allowed; add it to allowed_origins"
    return None


def _names(services: Services) -> set[str]:
    return {host.lower().rstrip(".") for host in services.allowed_hosts} | ({_host_of(services.base_url)} - {""})


def _host_of(text: str) -> str:
    """Host of a URL or a Host header in lower case; empty when there is none."""
    return (urlsplit(text if "//" in text else f"//{text}").hostname or "").rstrip(".") if _parses(text) else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _parses(text: str) -> bool:
    try:
        urlsplit(text if "//" in text else f"//{text}")
    except ValueError:
        return False
    return True
