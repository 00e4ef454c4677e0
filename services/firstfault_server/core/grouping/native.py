"""Frames of native stacks as c10, glog, MXNet, Open MPI and gdb print them."""

import re
from typing import Final

from firstfault.stack import Frame

MOST_NATIVE: Final = 60
"""Frames kept of one native stack."""
_SHAPES: Final = (
    # frame #3: c10d::Work::wait(...) + 0x1e6 (0x7f45 in /opt/lib/libtorch_cuda.so)
    re.compile(r"frame #\d{1,4}: (?P<function>.{1,1000}?) \+ 0x[0-9a-f]{1,16} \(0x[0-9a-f]{1,16} in (?P<library>[^)]{1,400})\)"),
    # [bt] (3) /opt/lib/libmxnet.so(mxnet::op::F()+0x42) [0x7f45]      [host:00071] [ 3] /lib/libc.so.6(clone+0x6d)[0x7f45]
    re.compile(
        r"\[ ?(?:bt\] \()?\d{1,4}[)\]] (?P<library>[^\s(\[]{1,400})\((?P<function>[^\[\]]{0,1000}?)(?:\+0x[0-9a-f]{1,16})?\)\s?\[0x"
    ),
    #     @     0x7fc3a5c32390 grpc::Server::Start()
    re.compile(r"\s{0,8}@ {1,8}0x[0-9a-f]{1,16} (?P<function>.{1,1000})$"),
    # #3  0x00007f45 in ncclAllReduce (a=1) from /opt/lib/libnccl.so.2      #3  main () at main.cc:12
    re.compile(
        r"#\d{1,4} {1,3}(?:0x[0-9a-f]{1,16} in )?(?P<function>[^\s(][^(]{0,500}) ?\(.{0,1000}\)"
        r"(?: from (?P<library>\S{1,400})| at (?P<file>\S{1,400}):\d{1,7})?$"
    ),
)
_ARGUMENTS: Final = re.compile(r"\([^()]{0,1000}\)|<[^<>]{0,1000}>")
_VERSION: Final = re.compile(r"(?:\.so|-\d)[\w.-]{0,40}$")
_UNKNOWN: Final = ("<unknown function>", "(unknown)", "", "??")


def native_frame(line: str) -> Frame | None:
    """The frame a line shows; None when it shows none."""
    text = line[:2000].strip()
    if not text.startswith(("frame #", "[", "@", "#")):
        return None
    for shape in _SHAPES:
        found = shape.match(text)
        if found is None:
            continue
        groups = found.groupdict()
        place = groups.get("library") or groups.get("file") or ""
        function = groups["function"].strip()
        name = "?" if function in _UNKNOWN else _bare(function)
        return Frame(module=_VERSION.sub("", place.rsplit("/", 1)[-1]) or "native", function=name, file=place, in_app=False)
    return None


def _bare(function: str) -> str:
    """The function without arguments and template parameters, which differ between builds."""
    for _ in range(4):
        shorter = _ARGUMENTS.sub("", function)
        if shorter == function:
            break
        function = shorter
    return function.strip()[:200]
