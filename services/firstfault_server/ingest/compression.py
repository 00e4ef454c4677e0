"""Bodies as they were before compression, within a limit that a small bomb cannot pass."""

import zlib

import zstandard


class TooLarge(Exception):
    """More bytes than the limit."""


class Garbled(ValueError):
    """The bytes do not fit the stated encoding."""


class UnknownEncoding(ValueError):
    """A content encoding that is not supported."""


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content encoding. Raises TooLarge, Garbled, UnknownEncoding."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        plain = body
    elif name in ("gzip", "x-gzip"):
        plain = _inflate(body, 16 + zlib.MAX_WBITS, limit)
    elif name == "deflate":
        plain = _inflate(body, zlib.MAX_WBITS, limit)
    elif name == "zstd":
        plain = _zstd(body, limit)
    else:
        raise UnknownEncoding(f"content encoding {name[:40]!r} is not supported; use gzip or zstd")
    if len(plain) > limit:
        raise TooLarge
    return plain


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    pieces, size, rest = [], 0, body
    while True:
        inflater = zlib.decompressobj(window)
        try:
            piece = inflater.decompress(rest, limit + 1 - size)
        except zlib.error as error:
            raise Garbled(f"the body is not valid gzip: {error}") from error
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLarge
        if not inflater.eof:
            raise Garbled("the gzip body ends early")
        # A gzip body may have several members.
        rest = inflater.unused_data
        if not rest:
            return b"".join(pieces)


def _zstd(body: bytes, limit: int) -> bytes:
    inflater = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    plain = bytearray()
    try:
        # Small pieces, so that a bomb is noticed before it is unpacked: a zstd block holds at most 128 kB, an input piece few blocks.
        for start in range(0, len(body), 1024):
            plain += inflater.decompress(body[start : start + 1024])
            if len(plain) > limit:
                raise TooLarge
    except zstandard.ZstdError as error:
        raise Garbled(f"the body is not valid zstd: {error}") from error
    if not inflater.eof:
        raise Garbled("the zstd body ends early")
    return bytes(plain)
