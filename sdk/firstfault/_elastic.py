"""Writes the error file that torchrun shows as the root cause, unless somebody wrote it already.

torchrun gives each worker a path in TORCHELASTIC_ERROR_FILE; only programs decorated with torch's `@record` write it, and
otherwise the summary says `error_file: <N/A>`. The shape follows `torch.distributed.elastic.multiprocessing.errors`: an object
`message` with `message` and `extraInfo` of `py_callstack` and `timestamp` (seconds since the epoch, as text).
"""

import json
import os
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from firstfault.redact import Redactor

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_LONGEST_MESSAGE, _LONGEST_STACK = 8 * 1024, 64 * 1024


def write(
    exc_type: type[BaseException], exc: BaseException | None, tb: TracebackType | None, environ: Mapping[str, str] | None = None
) -> bool:
    """Write the file for the exception that ends the process; False when there is no such file to write or it exists.

    Raises OSError when the file cannot be written. The file appears whole or not at all, and never in place of another one.
    """
    environ = os.environ if environ is None else environ
    path = Path(environ.get(ERROR_FILE, ""))
    if not path.name or path.exists():
        return False
    redactor = Redactor.from_environ(environ)
    stack = "".join(traceback.format_exception(exc_type, exc, tb, limit=-200))
    error = {
        "message": {
            "message": redactor.text(f"{exc_type.__name__}: {_text(exc)}")[:_LONGEST_MESSAGE],
            "extraInfo": {"py_callstack": redactor.text(stack)[-_LONGEST_STACK:], "timestamp": str(int(time.time()))},
        }
    }
    # A lone surrogate is escaped by JSON; the readers' decoder takes it back.
    written = path.with_name(f"{path.name}.{os.getpid()}.writing")
    written.write_text(json.dumps(error), encoding="ascii")
    try:
        os.link(written, path)
    except FileExistsError:
        return False
    finally:
        written.unlink()
    return True


def _text(exc: BaseException | None) -> str:
    try:
        return str(exc)
    except Exception:  # A broken __str__ must not cost the record.
        return "<message not printable>"
