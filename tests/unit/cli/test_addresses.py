"""Addresses: what can be listened on, and what only this machine reaches."""

import socket

import pytest

from firstfault_server.cli.addresses import Address, AddressError, bound, listen, parse


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.9.9.9:0", "127.9.9.9", 0, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:80", "::1", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("10.0.0.1:80", "10.0.0.1", 80, False),
        ("example.com:80", "example.com", 80, False),
        ("localhost.example.com:80", "localhost.example.com", 80, False),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int, loopback: bool) -> None:
    address = parse(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)
    assert parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:x", "host:-1", "host:65536", "::1:80", "host:８０"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse(text)


def test_port_0_takes_a_free_one_and_a_taken_one_is_named() -> None:
    with listen(Address(host="127.0.0.1", port=0)) as listener:
        taken = bound(listener)
        assert taken.port > 0
        with pytest.raises(AddressError, match=str(taken.port)):
            listen(taken)


def test_a_port_with_old_connections_is_free_again() -> None:
    listener = listen(Address(host="127.0.0.1", port=0))
    address = bound(listener)
    listener.setblocking(True)
    with socket.create_connection((address.host, address.port)) as client:
        peer, _ = listener.accept()
        # The side that closes first keeps the connection in TIME_WAIT.
        peer.close()
        listener.close()
        assert client.recv(1) == b""
    listen(address).close()
