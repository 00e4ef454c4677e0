"""Writes the exit status into the beacon page at the very end, in the C library, after Python is gone.

Python code never learns the status of `raise SystemExit(3)`. The GNU C library hands it to functions registered with `on_exit`,
as (int status, void *argument): the signature of `putw`, which puts an int into a stdio stream; and `exit` flushes all streams
after these functions ran. So no code of ours has to run at that time. Elsewhere (musl, macOS) nothing is installed.
"""

import ctypes
import os
import sys
from collections.abc import Callable

_SEEK_SET = 0


def install(fd: int, offset: int) -> Callable[[], None] | None:
    """Have the status written as a native int at `offset` of the file behind `fd`; None where the C library cannot do it.

    The result is for a forked child, which inherits the registration: it turns the write into nothing.
    """
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    try:
        on_exit, putw, fdopen, fseek = library.on_exit, library.putw, library.fdopen, library.fseek
    except AttributeError:
        return None
    fdopen.restype = ctypes.c_void_p
    fdopen.argtypes = [ctypes.c_int, ctypes.c_char_p]
    fseek.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
    on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    own = os.dup(fd)
    stream = fdopen(own, b"r+")
    if not stream:
        os.close(own)
        return None
    fseek(stream, offset, _SEEK_SET)
    on_exit(ctypes.cast(putw, ctypes.c_void_p), stream)

    def detach() -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, own, inheritable=False)
        os.close(null)

    return detach
