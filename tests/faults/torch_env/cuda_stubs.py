"""Stand-ins for the CUDA libraries that a torch wheel links to, so that it loads on a machine without them.

The default Linux wheel needs libcudart, libcublas, libnccl and others: gigabytes that no CPU code path ever calls, but that
the dynamic loader insists on. Each missing library becomes a tiny shared object with the SONAME, the symbol versions and the
symbols torch asks for; every call answers "no device". For tests only.
"""

import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
MARKER = "firstfault_cuda_stub"
_LIBRARY = re.compile(r"lib(cu|nv|nccl)[A-Za-z_]*\.so[.0-9]*")
_NEEDED = re.compile(r"\(NEEDED\).*\[(?P<library>[^\]]+)\]")
_VERSION_FILE = re.compile(r"File: (?P<library>\S+)")
_VERSION_NAME = re.compile(r"Name: (?P<version>\S+)\s+Flags")
_CUDA_SYMBOL = re.compile(r"(__cuda|cuda|cu[A-Z]|cu(blas|dnn|fft|rand|solver|sparse|pti|File)|nccl|nvrtc|nvtx|nvJitLink|nvml|nvshmem)")
# Calls whose answer torch reads while it is imported.
_BODIES = {
    "cudaGetDeviceCount": "int cudaGetDeviceCount(int *n) { if (n) *n = 0; return 100; }",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *v) { if (v) *v = 0; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *v) { if (v) *v = 13000; return 0; }",
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e) { return "no CUDA here (stand-in library)"; }',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e) { return "cudaErrorNoDevice"; }',
    "cudaGetLastError": "int cudaGetLastError(void) { return 0; }",
    "cudaPeekAtLastError": "int cudaPeekAtLastError(void) { return 0; }",
    "__cudaRegisterFatBinary": "static void *handle; void *__cudaRegisterFatBinary(void *b) { return &handle; }",
}


class StubError(RuntimeError):
    """A tool is missing or failed; the message names it."""


def build(folder: Path) -> list[str]:
    """Build a stand-in in `folder` (torch's lib folder) for every CUDA library its libraries need and the folder lacks.

    Returns the names built. Needs gcc and readelf; raises StubError without them.
    """
    for tool in ("gcc", "readelf"):
        if shutil.which(tool) is None:
            raise StubError(f"{tool} is not installed (Debian: build-essential)")
    libraries = sorted(path for path in folder.glob("lib*.so*") if path.is_file() and re.match(r"lib(torch|c10|caffe2)", path.name))
    missing = sorted({name for path in libraries for name in _needed(path)} - {path.name for path in folder.iterdir()})
    if not missing:
        return []
    versioned: dict[str, set[tuple[str, str]]] = defaultdict(set)
    plain: set[str] = set()
    for path in libraries:
        owner = _version_owners(path)
        for symbol, version in _undefined(path):
            if owner.get(version) in missing:
                versioned[owner[version]].add((symbol, version))
            elif not version and _CUDA_SYMBOL.match(symbol):
                plain.add(symbol)
    for library in missing:
        # The loader looks unversioned symbols up in every loaded library, so one of them can answer for all.
        _compile(folder / library, versioned[library], plain if library == missing[0] else set())
    return missing


def _needed(path: Path) -> set[str]:
    names = {match["library"] for match in map(_NEEDED.search, _readelf("-d", path)) if match}
    return {name for name in names if _LIBRARY.fullmatch(name)}


def _version_owners(path: Path) -> dict[str, str]:
    owners: dict[str, str] = {}
    library = ""
    for line in _readelf("-V", path):
        if match := _VERSION_FILE.search(line):
            library = match["library"]
        elif library and (match := _VERSION_NAME.search(line)):
            owners[match["version"]] = library
    return owners


def _undefined(path: Path) -> set[tuple[str, str]]:
    found = set()
    for line in _readelf("--dyn-syms", path):
        columns = line.split()
        if len(columns) >= 8 and columns[6] == "UND":
            symbol, _, version = columns[7].partition("@")
            found.add((symbol, version))
    return found


def _readelf(option: str, path: Path) -> list[str]:
    return _output(["readelf", "-W", option, str(path)]).splitlines()


def _compile(target: Path, versioned: set[tuple[str, str]], plain: set[str]) -> None:
    symbols = sorted({symbol for symbol, _ in versioned} | plain)
    bodies = [
        _BODIES.get(symbol, f"long {symbol}(void) {{ return {0 if symbol.startswith('__cuda') else NO_DEVICE}; }}") for symbol in symbols
    ]
    by_version: dict[str, list[str]] = defaultdict(list)
    for symbol, version in sorted(versioned):
        by_version[version].append(symbol)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "stub.c")
        source.write_text("\n".join([*bodies, f"void {MARKER}(void) {{}}", ""]))
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{target.name}", "-o", str(target), str(source)]
        if by_version:
            script = Path(temporary, "versions.map")
            blocks = [f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};" for version, names in by_version.items()]
            script.write_text("\n".join([*blocks, ""]))
            command.append(f"-Wl,--version-script={script}")
        _output(command)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StubError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
