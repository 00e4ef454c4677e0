"""Health and metrics of services that have no API of their own: `/healthz`, `/readyz`, `/metrics`."""

from collections.abc import Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from firstfault_server.cli import addresses
from firstfault_server.cli.process import Process
from firstfault_server.cli.servers import HttpServer

Problems = Callable[[], Mapping[str, str]]
"""Why each part does not work now; parts that work are left out, or empty."""


async def serve_health(process: Process, address: str, problems: Problems) -> addresses.Address:
    """Serve until the end; where. Raises AddressError."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_request: Request) -> Response:
        found = {part: problem for part, problem in {**process.broken, **problems()}.items() if problem}
        if found:
            return JSONResponse({"status": "not ready", "problems": found}, 503)
        return JSONResponse({"status": "ok"})

    def metrics(_request: Request) -> Response:
        return Response(generate_latest(process.registry), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", metrics)])
    server = HttpServer(app, process.listen(addresses.parse(address)), process.settings.drain_s)
    await process.serve(server)
    return server.address
