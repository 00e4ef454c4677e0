"""Puts a file behind a command's stderr and copies it on to the original, byte for byte (`firstfault run --capture-stderr`)."""

import ctypes
import os
import tempfile
import threading

_PERIOD_S = 0.05
_CHUNK_BYTES = 256 * 1024
_KEPT_BYTES = 16 * 1024 * 1024
"""What stays on disk of the part that has been copied; more than any sidecar reads behind."""
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


class StderrCapture:
    """The file, and the thread that copies it. What outlives the command writes on into a file without a name."""

    def __init__(self, fd: int, path: str, original: int) -> None:
        self.fd = fd
        """Descriptor for the command's stderr."""
        self._path = path
        self._original = original
        self._copied = 0
        self._freed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._copy, name="firstfault-stderr")

    @classmethod
    def open(cls) -> "StderrCapture":
        """Make the file. Raises OSError."""
        written, path = tempfile.mkstemp(prefix="firstfault-stderr-")
        os.close(written)
        # Every process below appends: without it a child with a position of its own would overwrite others.
        return cls(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), path, 2)

    def start(self) -> None:
        """Copy from now on; call it after the fork."""
        self._thread.start()

    def finish(self) -> None:
        """The command has ended: copy the rest, remove the file."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        os.close(self.fd)
        os.unlink(self._path)  # noqa: PTH108

    def _copy(self) -> None:
        while True:
            over = self._over.wait(_PERIOD_S)
            while data := os.pread(self.fd, _CHUNK_BYTES, self._copied):
                if not self._write(data):
                    return
                self._copied += len(data)
                self._free()
            if over:
                return

    def _write(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self._original, data) :]
            except OSError:
                return False  # Nobody reads the original any more; the command is left alone.
        return True

    def _free(self) -> None:
        """Give back the disk blocks of what was copied long ago; file systems that cannot keep them until the end."""
        end = self._copied - _KEPT_BYTES
        if end - self._freed < _KEPT_BYTES:
            return
        try:
            punch = ctypes.CDLL(None, use_errno=True).fallocate
        except (OSError, AttributeError):
            return
        punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        punch(self.fd, _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, self._freed, end - self._freed)
        self._freed = end
