"""Exceptions as plain data."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from firstfault import _capture


def _raised(action: Callable[[], Any]) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


class Hostile:
    """Every way in which looking at a value can run its code."""

    touched: list[str]

    def __init__(self) -> None:
        object.__setattr__(self, "touched", [])

    def __getattribute__(self, name: str) -> Any:
        if name != "touched":
            object.__getattribute__(self, "touched").append(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        raise AssertionError("repr was called")

    __str__ = __repr__

    def __len__(self) -> int:
        raise AssertionError("len was called")

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("iter was called")

    def __bool__(self) -> bool:
        raise AssertionError("bool was called")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq was called")

    __hash__ = None  # type: ignore[assignment]


class HostileMeta(type):
    """A class whose name is code."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "__name__", "__module__"):
            raise AssertionError("the class was asked for its name")
        return super().__getattribute__(name)


class Computed(metaclass=HostileMeta):
    """Its name is code."""


def test_locals_tell_types_and_never_run_code() -> None:
    hostile = Hostile()

    def fail() -> None:
        mine, other, number, text = hostile, Computed(), 3, "password"
        raise ValueError(f"{number}{len(text)}{mine is None}{other is None}")

    captured = _capture.capture(_raised(fail))
    found = captured.frames[-1].locals or {}
    assert found["number"] == "int" and found["text"] == "str"
    assert found["mine"].endswith("Hostile") and found["other"].endswith("Computed")
    assert hostile.touched == []


def test_arrays_tell_shape_and_dtype() -> None:
    assert _capture.describe(numpy.zeros((2, 3), dtype="float32")) == "numpy.ndarray[2, 3] float32"

    class Sub(numpy.ndarray[Any, Any]):
        @property  # type: ignore[misc]
        def shape(self) -> Any:
            raise AssertionError("a subclass's attribute was read")

    assert _capture.describe(numpy.zeros(2).view(Sub)).endswith("Sub")


def test_no_object_is_kept_alive() -> None:
    class Big:
        pass

    def fail() -> weakref.ref[Big]:
        big = Big()
        references.append(weakref.ref(big))
        raise ValueError("with a big local")

    references: list[weakref.ref[Big]] = []
    error: BaseException | None = _raised(lambda: fail())
    captured = _capture.with_sources(_capture.capture(error))  # type: ignore[arg-type]
    error = None
    gc.collect()
    assert captured.frames[-1].function == "fail"
    assert references[0]() is None


def test_causes_come_nearest_first_once_each() -> None:
    def fail() -> None:
        try:
            try:
                raise KeyError("a")
            except KeyError as error:
                raise ValueError("b") from error
        except ValueError:
            raise RuntimeError("c")  # noqa: B904 - the implicit context is what the test needs

    captured = _capture.capture(_raised(fail))
    assert [(link.relation, link.type) for link in captured.chain] == [("context", "ValueError"), ("cause", "KeyError")]
    text = _capture.stacktrace(_capture.with_sources(captured))
    assert (
        text.index("KeyError: 'a'")
        < text.index("direct cause")
        < text.index("ValueError: b")
        < text.index("During handling")
        < text.index("c\n")
    )


def test_a_suppressed_context_is_left_out() -> None:
    def fail() -> None:
        try:
            raise KeyError("a")
        except KeyError:
            raise RuntimeError("c") from None

    assert _capture.capture(_raised(fail)).chain == []


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert [link.message for link in _capture.capture(first).chain] == ["b"]
    first.__cause__ = first
    assert _capture.capture(first).chain == []


def test_a_long_chain_is_bounded() -> None:
    error = ValueError("0")
    for number in range(1, 500):
        outer = ValueError(str(number))
        outer.__cause__, error = error, outer
    captured = _capture.capture(error)
    assert len(captured.chain) == 10 and captured.chain[0].message == "498"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_members_of_a_group_are_links() -> None:
    group = ExceptionGroup("several", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])  # noqa: F821
    captured = _capture.capture(group)
    assert [(link.relation, link.type) for link in captured.chain] == [
        ("group", "ValueError"),
        ("group", "ExceptionGroup"),
        ("group", "KeyError"),
    ]


class Unprintable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_odd_texts_are_mended_and_bounded() -> None:
    assert "raised RuntimeError" in _capture.message_of(Unprintable())
    assert _capture.message_of(ValueError("a\udc80b")) == "a\\udc80b"
    assert len(_capture.message_of(ValueError("x" * 10**6))) == _capture.MESSAGE_LIMIT
    error = ValueError("m")
    notes: Any = ["first", 3, "second"]
    error.__notes__ = notes
    assert _capture.capture(error).notes == ("first", "second")


def test_the_trace_reads_as_python_prints_it() -> None:
    def fail() -> None:
        raise ValueError("text")

    text = _capture.stacktrace(_capture.with_sources(_capture.capture(_raised(fail))))
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-3].strip().startswith("File") and lines[-3].endswith("in fail")
    assert lines[-2:] == ['    raise ValueError("text")', "ValueError: text"]


def _deep(depth: int) -> None:
    if depth == 0:
        raise RecursionError("too deep")
    _deep(depth - 1)


def test_a_hundred_thousand_frames_are_read_in_bounded_time_and_size() -> None:
    found: list[tuple[float, _capture.Captured, str]] = []

    def run() -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(200_000)
        try:
            error = _raised(lambda: _deep(100_000))
            seconds = []
            for _ in range(3):
                began = time.perf_counter()
                captured = _capture.capture(error)
                seconds.append(time.perf_counter() - began)
            found.append((min(seconds), captured, _capture.stacktrace(captured)))
            error.__traceback__ = None
        finally:
            sys.setrecursionlimit(limit)

    size = threading.stack_size(512 * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    seconds, captured, text = found[0]
    assert captured.left_out > 99_000 and len(captured.frames) == _capture.HEAD + _capture.TAIL
    assert len(text) <= _capture.STACKTRACE_LIMIT
    # Five times what the contract allows on an idle machine (50 ms).
    assert seconds < 0.25
    shallow = _raised(lambda: _deep(50))
    assert _capture.capture(shallow).hash == captured.hash
