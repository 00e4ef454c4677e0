"""An exception as a log prints it, with the chain that led to it."""

import msgspec

from firstfault.stack import Frame


class Link(msgspec.Struct, kw_only=True):
    """One exception of a chain."""

    type: str
    message: str = ""
    frames: list[Frame] = []
    relation: str = ""
    """cause | context | group, to the exception it belongs to; empty for the last one."""


class Crash(msgspec.Struct, kw_only=True):
    """One exception as printed, with the chain that led to it."""

    type: str
    message: str = ""
    frames: list[Frame] = []
    chain: list[Link] = []
    """Causes and contexts, nearest first."""
    first_line: int = 0
    """Number of the line it begins on, from 1."""
    last_line: int = 0
    """Number of the line that names it."""
    ignored: bool = False
    """Python said so: raised in a destructor or callback, nothing ended."""
    bare: bool = False
    """Only the line that names it was there."""
