"""First on the path of processes under `firstfault run`: starts the watch for frameworks, then hands over to the next one.

Runs in every Python process there, so it imports as little as it can. Its folder leaves `sys.path` at once: the program finds
the same modules, and the same `sitecustomize`, as without it.
"""

import os
import sys
from importlib import import_module

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would cost every process its import


def _watch_for_frameworks() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("_firstfault_activation", os.path.join(os.path.dirname(_HERE), "_activation.py"))  # noqa: PTH118, PTH120
    if spec is None or spec.loader is None:
        raise ImportError(f"no _activation.py beside {_HERE}")
    activation = module_from_spec(spec)
    spec.loader.exec_module(activation)
    activation.FrameworkWatch().install()


def _hand_over() -> None:
    """Import the `sitecustomize` that would have run without this one; its errors are reported as ever, by `site`."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]  # noqa: PTH100
    this = sys.modules.pop("sitecustomize")
    try:
        import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # The import machinery is about to look for the module it was loading.
        sys.modules.setdefault("sitecustomize", this)


if os.environ.get("FIRSTFAULT_AUTOSTART"):
    try:
        _watch_for_frameworks()
    except Exception as error:  # Whatever it is, the program runs without us.
        print(f"firstfault: not watched: {type(error).__name__}: {error}", file=sys.stderr)
_hand_over()
