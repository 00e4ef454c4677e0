"""Frames of native stacks in the shapes that libraries print them."""

import pytest

from firstfault_server.core.grouping.native import native_frame


@pytest.mark.parametrize(
    ("line", "module", "function"),
    [
        (
            "frame #1: c10d::Work::wait(std::chrono::duration<long>) + 0x1e6 (0x7f45 in /opt/lib/libtorch_cuda.so)",
            "libtorch_cuda",
            "c10d::Work::wait",
        ),
        ("frame #4: <unknown function> + 0xdc253 (0x7f46 in /lib/libstdc++.so.6)", "libstdc++", "?"),
        ("  [bt] (3) /opt/lib/libmxnet.so(mxnet::op::F(int)+0x42) [0x7f45]", "libmxnet", "mxnet::op::F"),
        ("[ 3] /lib/x86_64-linux-gnu/libc.so.6(clone+0x6d)[0x7f45]", "libc", "clone"),
        ("    @     0x7fc3a5c32390 grpc::Server::Start<int>()", "native", "grpc::Server::Start"),
        ("#3  0x00007f45 in ncclAllReduce (a=1, b=<optimized out>) from /opt/lib/libnccl.so.2", "libnccl", "ncclAllReduce"),
        ("#0  raise (sig=6) at raise.c:51", "raise.c", "raise"),
    ],
)
def test_shapes(line: str, module: str, function: str) -> None:
    found = native_frame(line)
    assert found is not None
    assert (found.module, found.function, found.in_app) == (module, function, False)


@pytest.mark.parametrize("line", ["", "# a comment (really)!", "[1/3] nvcc -c x.cu", "@ home", "frame rate: 30", "#1 best model saved"])
def test_what_is_no_frame(line: str) -> None:
    assert native_frame(line) is None
