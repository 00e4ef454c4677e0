"""Stack frames as data: modules from paths, what is the user's own code, and the hash that joins equal crashes.

Pure: no clock, no I/O. The SDK feeds frames of live exceptions, the server frames it read from text; the same crash gives
the same hash both ways. Therefore only what a printed traceback shows goes into it: exception type, file, function name.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HASH_VERSION = 1
"""Changes when the hash of an unchanged crash changes."""

_LIBRARY = re.compile(r"^(?:.*/)?(?:site-packages|dist-packages)/|^(?:.*/)?[^/]+\.(?:egg|zip|whl|pex)/")
_STANDARD_LIBRARY = re.compile(r"^(?:.*/)?(?:lib|lib64|Lib)/python\d(?:\.\d+)?t?/(?!(?:site|dist)-packages/)|^(?:.*/)?Python\d+/Lib/")
_FROZEN = re.compile(r"^<frozen ([\w.]+)>$")
_NOTEBOOK = re.compile(r"^<(?:ipython-input|command|cell)[^>]*>$|^(?:.*/)?ipykernel_\d+/")
_GENERATED = re.compile(r"^(?:.*/)?torchinductor_[^/]*/|^<eval_with_key>")
# Source builds of torch lie outside of site-packages.
_TORCH_SOURCE = re.compile(
    r"^(?:.*/)?(?=torch/(?:nn|distributed|utils|optim|autograd|cuda|amp|fx|jit|export|multiprocessing|profiler|backends|masked|ao|func"
    r"|_\w+|functional|serialization|storage|overrides|hub)(?:/|\.py))"
)
_FRAMEWORKS = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "torchdata", "torchrec", "functorch", "triton", "apex", "xformers", "flash_attn", "ignite"),
        *("transformers", "accelerate", "datasets", "peft", "trl", "diffusers", "tokenizers", "bitsandbytes", "deepspeed", "colossalai"),
        *(
            "lightning",
            "pytorch_lightning",
            "lightning_fabric",
            "composer",
            "fairscale",
            "horovod",
            "ray",
            "vllm",
            "numpy",
            "scipy",
            "pandas",
        ),
        *("jax", "jaxlib", "flax", "optax", "orbax", "haiku", "chex", "tensorflow", "keras"),
        *("firstfault", "wandb", "mlflow", "tensorboard", "sentry_sdk", "opentelemetry"),
    }
)
# Python 3.12 runs these inside their function: with them a crash would change its hash with the interpreter.
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack."""

    module: str
    """Dotted; from the path where nothing better is known."""
    function: str
    """Bare name, as a printed traceback shows it."""
    file: str = ""
    line: int | None = None
    in_app: bool = True
    """The user's own code: neither installed packages, nor the standard library, nor a framework's source."""
    source: str | None = None
    """The source line, stripped."""
    locals: Mapping[str, str] | None = None
    """Name -> type, shape, dtype; never a value."""

    def as_dict(self) -> dict[str, Any]:
        """For the wire; absent fields left out."""
        plain: dict[str, Any] = {"module": self.module, "function": self.function, "file": self.file, "line": self.line}
        plain["in_app"] = self.in_app
        if self.source:
            plain["source"] = self.source
        if self.locals:
            plain["locals"] = dict(self.locals)
        return plain


def frame(file: str, function: str, line: int | None = None, module: str = "", source: str | None = None) -> Frame:
    """A frame from what a traceback prints, and the module's name where it is known."""
    named = module if module and module != "__main__" else module_of(file)
    return Frame(named, function, file, line, is_in_app(file, module), source)


def frames_from_wire(raw: Any) -> list[Frame]:
    """Frames from decoded `firstfault.stack.frames`; entries that are not frames are left out, an unknown `in_app` is decided."""
    found: list[Frame] = []
    for entry in raw if isinstance(raw, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("function"), str):
            continue
        file, module, line, source = (entry.get(name) for name in ("file", "module", "line", "source"))
        file, module = file if isinstance(file, str) else "", module if isinstance(module, str) else ""
        in_app, local = entry.get("in_app"), entry.get("locals")
        found.append(
            Frame(
                module=module or module_of(file),
                function=entry["function"],
                file=file,
                line=line if isinstance(line, int) and not isinstance(line, bool) else None,
                in_app=in_app if isinstance(in_app, bool) else is_in_app(file, module),
                source=source if isinstance(source, str) else None,
                locals={str(name): str(value) for name, value in local.items()} if isinstance(local, dict) else None,
            )
        )
    return found


def module_of(file: str) -> str:
    """Dotted module of a path: below the package folder where there is one, else the file's own name.

    >>> module_of("/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py")
    'torch.nn.modules.linear'
    >>> module_of("/home/ada/run-17/train.py")
    'train'
    """
    path = file.replace("\\", "/")
    if frozen := _FROZEN.match(path):
        return frozen.group(1)
    if _NOTEBOOK.match(path):
        return "<notebook>"
    if _GENERATED.match(path):
        return "<generated>"
    if path.startswith("<"):
        return re.sub(r"[\d.]+|0x[0-9a-f]+", "", path.split(" ")[0].rstrip(">")) + ">"
    for root in (_LIBRARY, _STANDARD_LIBRARY, _TORCH_SOURCE):
        if found := root.match(path):
            parts = path[found.end() :].split("/")
            break
    else:
        # Where a checkout lies differs from machine to machine; only the last folder can belong to the name.
        parts = path.split("/")[-2:]
        if parts[-1] != "__init__.py":
            parts = parts[-1:]
    parts[-1] = re.sub(r"\.(?:py[cwx]?|so|pyd)$", "", parts[-1])
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(part for part in parts if part)


def is_in_app(file: str, module: str = "") -> bool:
    """Whether a frame is the user's own code."""
    path = file.replace("\\", "/")
    if _NOTEBOOK.match(path):
        return True
    if path.startswith("<"):
        return path in ("<string>", "<stdin>")
    if _LIBRARY.match(path) or _STANDARD_LIBRARY.match(path) or _GENERATED.match(path) or _TORCH_SOURCE.match(path):
        return False
    return module.partition(".")[0] not in _FRAMEWORKS


def stack_hash(exception_type: str, frames: Iterable[Frame]) -> str:
    """SHA-256 of the exception type and the in-app frames, of all frames if none is in-app; "" without frames.

    Each (module, function) counts once, where it first occurs: the depth of a recursion says nothing. Of an in-app module
    only the last name counts, since a traceback shows where a file lies but not where its package begins.
    """
    kept = [one for one in frames if one.function not in _INLINED]
    own = [one for one in kept if one.in_app]
    chosen = dict.fromkeys(
        (one.module.rpartition(".")[2], one.function) if one.in_app else (one.module, one.function) for one in own or kept
    )
    return _digest(exception_type, chosen) if chosen else ""


def whole_stack_hash(exception_type: str, frames: Iterable[Frame]) -> str:
    """The same over all frames, in-app or not; "" without frames. Frameworks' frames change with their versions."""
    chosen = dict.fromkeys(
        (one.module.rpartition(".")[2] if one.in_app else one.module, one.function) for one in frames if one.function not in _INLINED
    )
    return _digest(exception_type, chosen) if chosen else ""


def _digest(exception_type: str, chosen: Iterable[tuple[str, str]]) -> str:
    lines = [f"v{HASH_VERSION}", exception_type, *(f"{module}:{function}" for module, function in chosen)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def bounded(frames: Sequence[Frame], head: int, tail: int) -> tuple[list[Frame], int]:
    """The outermost `head` and innermost `tail` frames, and how many lie between and were left out."""
    left_out = max(len(frames) - head - tail, 0)
    return ([*frames[:head], *frames[-tail:]], left_out) if left_out else (list(frames), 0)


def clipped(text: str, limit: int) -> str:
    """The text, or its head and tail with a mark between, at most `limit` characters (which must exceed 40)."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    room = limit - len(mark)
    return text[: room - room // 2] + mark + text[len(text) - room // 2 :]


def well_formed(text: str) -> str:
    """The text with lone surrogates as escapes: one of them would make the whole request undecodable."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
