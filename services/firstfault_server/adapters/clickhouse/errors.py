"""ClickHouse's failures as the store errors of the ports, with what to do about them."""

import re
from typing import Final

from firstfault_server.ports import StorageFull, StoreUnavailable

# src/Common/ErrorCodes.cpp of ClickHouse.
_NO_SPACE: Final = 243
_MEMORY_LIMIT: Final = 241
_TOO_SLOW: Final = frozenset({159, 160})
_ENGINE_NOT_OPENED: Final = 36
_REFUSED: Final = frozenset({194, 516, 497})
# Busy, shutting down, network, interrupted, read-only, too many parts or queries: the same call may succeed later.
_TRANSIENT: Final = frozenset({202, 203, 209, 210, 225, 236, 242, 252, 279, 319, 394, 425, 439, 999})
_CODE: Final = re.compile(r"Code:\s*(\d+)")
_NO_SPACE_TEXT: Final = ("No space left on device", "Disk quota exceeded", "File too large")


def code_of(error: Exception) -> int | None:
    """ClickHouse's error code, None for an error of another kind."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    found = _CODE.search(str(error))
    return int(found.group(1)) if found else None


def opening_failed(error: Exception, path: str) -> StoreUnavailable:
    """Why the engine did not open `path`; its own message leaves the reason out."""
    if any(text in str(error) for text in _NO_SPACE_TEXT):
        return StorageFull(f"{path}: no space left for the metrics store; free space on its file system")
    if code_of(error) == _ENGINE_NOT_OPENED or "already initialized" in str(error):
        return StoreUnavailable(
            f"{path}: the metrics store cannot be opened: another process has it open, or this process has another one open, "
            "or the folder cannot be written; end the other process (one service per data folder)"
        )
    return StoreUnavailable(f"{path}: the metrics store cannot be opened: {_first_line(error)}")


def store_error(error: Exception, place: str) -> StoreUnavailable | None:
    """The store error for a failed call, None when the call itself was wrong."""
    code, text = code_of(error), str(error)
    if code == _NO_SPACE or any(reason in text for reason in _NO_SPACE_TEXT):
        return StorageFull(f"{place}: no space left for the metrics store; free space or lower the retention")
    if code == _MEMORY_LIMIT:
        return StoreUnavailable(f"{place}: needs more memory than the metrics store may take; ask for a shorter period or fewer points")
    if code in _TOO_SLOW:
        return StoreUnavailable(f"{place}: took longer than a query may; ask for a shorter period or fewer points")
    if code in _REFUSED:
        return StoreUnavailable(f"{place}: refuses this user: {_first_line(error)}")
    if code in _TRANSIENT:
        return StoreUnavailable(f"{place}: is busy or going down: {_first_line(error)}")
    if code is None and type(error).__name__ in {"OperationalError", "StreamFailureError", "ConnectionError"}:
        return StoreUnavailable(f"{place}: does not answer: {_first_line(error)}")
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
