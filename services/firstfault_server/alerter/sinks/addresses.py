"""Guard against requests into private networks: every address of a name is checked, and the checked address is connected to.

Checking a name and then connecting to the name would let its owner answer twice differently (DNS rebinding).
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

ALLOW: Final = "allow it with allow_private (`--allow-private` on the command line)"
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class RefusedAddress(Exception):
    """A destination must not be connected to; the message says why."""


def check_url(url: str, allow_private: bool = True) -> SplitResult:
    """The parts of a usable webhook URL. Raises RefusedAddress.

    Without `allow_private` a URL that names a private address outright is refused here already; what a name resolves to is
    checked at every connection.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise RefusedAddress(f"the URL does not parse: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RefusedAddress("the URL must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise RefusedAddress("the URL must not hold a user name or password")
    if parts.fragment:
        raise RefusedAddress("the URL must not hold a fragment")
    if port == 0:
        raise RefusedAddress("port 0 cannot be connected to")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise RefusedAddress("the URL must not hold blanks or control characters")
    if not allow_private and _names_private(parts.hostname):
        raise RefusedAddress(f"{parts.hostname} is not a public address; {ALLOW}")
    return parts


def _names_private(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return not is_public(host)


def is_public(address: str) -> bool:
    """Whether an address belongs to the open internet; addresses that carry an IPv4 address count as that."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    reached = _embedded(parsed) or parsed
    return reached.is_global and not reached.is_multicast and not reached.is_reserved


def _embedded(address: IPAddress) -> IPAddress | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Addresses of a name by the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(host: str, port: int, allow_private: bool, resolver: Resolver = resolve) -> Sequence[str]:
    """Addresses to connect to, in order. Raises RefusedAddress when one of them is not public and that was not allowed."""
    try:
        addresses = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise OSError(f"cannot resolve {host}: {error}") from error
    if not addresses:
        raise OSError(f"cannot resolve {host}: no address")
    if not allow_private:
        private = [address for address in addresses if not is_public(address)]
        if private:
            raise RefusedAddress(f"{host} has the address {private[0]}, which is not public; {ALLOW}")
    return addresses
