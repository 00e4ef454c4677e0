"""ASGI applications served in this process, on the caller's event loop, signals left to the caller."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import uvicorn

from firstfault_server.cli.addresses import Address, AddressError, bound


class _QuietServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The composition root handles signals for all parts together."""
        yield


class HttpServer:
    """One ASGI application on one listening socket."""

    def __init__(self, app: Any, listener: socket.socket, drain_s: float, max_connections: int | None = None) -> None:
        self.address: Address = bound(listener)
        self._listener = listener
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=max(1, int(drain_s)),
            timeout_keep_alive=75,
            limit_concurrency=max_connections,
            ws="none",
            proxy_headers=False,
        )
        self._server = _QuietServer(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve; returns when connections are taken."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise RuntimeError(f"the server on {self.address} did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Refuse new connections and finish what is under way."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


class GrpcServer:
    """A gRPC server on one address."""

    def __init__(self, server: grpc.aio.Server, address: Address, drain_s: float) -> None:
        """Binds the address; port 0 takes a free one. Raises AddressError."""
        self._server = server
        self._drain_s = drain_s
        try:
            port = server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise AddressError(f"cannot listen on {address}: it is in use, or not an address of this machine") from error
        self.address = Address(host=address.host, port=port)

    async def start(self) -> None:
        """Serve."""
        await self._server.start()

    async def stop(self) -> None:
        """Refuse new calls and finish those under way."""
        await self._server.stop(self._drain_s)
