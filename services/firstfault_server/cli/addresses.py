"""HOST:PORT addresses: parsing, loopback check, listening sockets that bind again at once after a kill."""

import ipaddress
import socket

import msgspec


class AddressError(ValueError):
    """An address cannot be used; the message names it and says why."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen or connect."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(text: str) -> Address:
    """`127.0.0.1:8080`, `localhost:0`, `[::1]:8080`. Raises AddressError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise AddressError(f"{text!r} is not HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{text!r}: write an IPv6 address in brackets, [::1]:8080")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"{text!r}: the port is a number from 0 to 65535")
    return Address(host=host, port=int(port))


def listen(address: Address) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises AddressError."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except OSError as error:
        raise AddressError(f"cannot listen on {address}: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        # Connections of a killed predecessor linger in TIME_WAIT; they must not keep the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise AddressError(f"cannot listen on {address}: {error.strerror or error}") from error
    listener.setblocking(False)
    return listener


def bound(listener: socket.socket) -> Address:
    """The address a socket really listens on."""
    name = listener.getsockname()
    return Address(host=name[0], port=name[1])
