"""Frames as data: modules, in-app, the hash."""

import re
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault import _capture, stack

SITE = "/opt/conda/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("file", "module", "in_app"),
    [
        (f"{SITE}/torch/nn/modules/linear.py", "torch.nn.modules.linear", False),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml", False),
        ("/usr/lib/python3.11/threading.py", "threading", False),
        ("/home/ada/.pyenv/versions/3.11.7/lib/python3.11/multiprocessing/process.py", "multiprocessing.process", False),
        ("/opt/pytorch/torch/nn/functional.py", "torch.nn.functional", False),
        ("/opt/pytorch/torch/_dynamo/eval_frame.py", "torch._dynamo.eval_frame", False),
        ("C:\\Python311\\Lib\\runpy.py", "runpy", False),
        ("C:\\work\\train.py", "train", True),
        ("/job/app.pex/model/net.py", "model.net", False),
        ("/home/ada/run-17/train.py", "train", True),
        ("/home/ada/torch/train.py", "train", True),
        ("train.py", "train", True),
        ("/home/ada/project/model/__init__.py", "model", True),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap", False),
        ("<frozen runpy>", "runpy", False),
        ("<string>", "<string>", True),
        ("<stdin>", "<stdin>", True),
        ("<ipython-input-12-0a1b2c3d4e5f>", "<notebook>", True),
        ("/tmp/ipykernel_4711/123.py", "<notebook>", True),
        ("<eval_with_key>.12", "<generated>", False),
        ("/tmp/torchinductor_ada/xy/cxyabc.py", "<generated>", False),
        ("<__array_function__ internals>", "<__array_function__>", False),
        ("<decorator-gen-12>", "<decorator-gen->", False),
        ("", "", True),
    ],
)
def test_module_and_in_app_of_a_path(file: str, module: str, in_app: bool) -> None:
    found = stack.frame(file, "f")
    assert (found.module, found.in_app) == (module, in_app)


def test_a_framework_installed_from_source_is_not_in_app() -> None:
    assert not stack.frame("/src/transformers/trainer.py", "train", module="transformers.trainer").in_app
    assert stack.frame("/src/transformers/examples/run_clm.py", "main", module="__main__").in_app


def _frames(*calls: tuple[str, str]) -> list[stack.Frame]:
    return [stack.frame(file, function) for file, function in calls]


TRAIN = [("/a/train.py", "<module>"), ("/a/train.py", "main"), ("/a/model.py", "forward"), (f"{SITE}/torch/nn/functional.py", "linear")]


def test_hash_ignores_place_line_library_and_depth() -> None:
    base = stack.stack_hash("RuntimeError", _frames(*TRAIN))
    moved = [(file.replace("/a/", "/somewhere/else/"), function) for file, function in TRAIN]
    assert stack.stack_hash("RuntimeError", _frames(*moved)) == base
    assert stack.stack_hash("RuntimeError", [stack.frame(file, function, line=9) for file, function in TRAIN]) == base
    other_library = [*TRAIN[:-1], (f"{SITE}/torch/nn/functional.py", "other")]
    assert stack.stack_hash("RuntimeError", _frames(*other_library)) == base
    deeper = [*TRAIN[:3], TRAIN[2], TRAIN[2], TRAIN[1], TRAIN[2], TRAIN[3]]
    assert stack.stack_hash("RuntimeError", _frames(*deeper)) == base
    with_comprehension = [*TRAIN[:3], ("/a/model.py", "<listcomp>"), TRAIN[3]]
    assert stack.stack_hash("RuntimeError", _frames(*with_comprehension)) == base


def test_hash_tells_type_and_function_apart() -> None:
    base = stack.stack_hash("RuntimeError", _frames(*TRAIN))
    assert re.fullmatch(r"[0-9a-f]{64}", base)
    assert stack.stack_hash("ValueError", _frames(*TRAIN)) != base
    assert stack.stack_hash("RuntimeError", _frames(*TRAIN[:2], ("/a/model.py", "backward"), TRAIN[3])) != base
    assert stack.stack_hash("RuntimeError", _frames(*TRAIN[:2], ("/a/data.py", "forward"), TRAIN[3])) != base


def test_without_in_app_frames_the_whole_stack_counts() -> None:
    library = [(f"{SITE}/torch/a.py", "f"), (f"{SITE}/torch/b.py", "g")]
    first = stack.stack_hash("E", _frames(*library))
    assert first and first != stack.stack_hash("E", _frames(library[0]))
    assert first == stack.whole_stack_hash("E", _frames(*library))
    assert stack.stack_hash("E", []) == stack.whole_stack_hash("E", []) == ""


def test_text_and_live_exception_give_one_hash() -> None:
    def inner(depth: int) -> None:
        if depth:
            inner(depth - 1)
        raise KeyError("missing")

    try:
        inner(3)
    except KeyError as error:
        captured = _capture.capture(error)
        text = "".join(traceback.format_exception(error))
    printed = [stack.frame(file, name, int(line)) for file, line, name in re.findall(r'File "(.*)", line (\d+), in (.*)', text)]
    assert stack.stack_hash("KeyError", printed) == captured.hash


def test_frames_survive_the_wire_and_damage() -> None:
    frame = stack.Frame("m", "f", "/a/m.py", 3, True, "x = 1", {"x": "int"})
    assert stack.frames_from_wire([frame.as_dict()]) == [frame]
    damaged = [None, 7, {}, {"function": 3}, {"function": "g", "line": True, "file": None, "in_app": "yes", "locals": [1]}]
    assert stack.frames_from_wire(damaged) == [stack.Frame("", "g", "", None, True, None, None)]
    assert stack.frames_from_wire({"function": "f"}) == []


@given(st.text(max_size=300), st.integers(41, 200))
def test_clipped_texts_are_short_and_keep_both_ends(text: str, limit: int) -> None:
    clipped = stack.clipped(text, limit)
    assert len(clipped) <= max(limit, 0) or len(text) <= limit
    assert clipped[:3] == text[:3]
    assert len(text) <= limit or clipped[-3:] == text[-3:]


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_well_formed_texts_encode(text: str) -> None:
    mended = stack.well_formed(text)
    mended.encode("utf-8")
    assert stack.well_formed(mended) == mended


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_path_has_a_module(file: str, function: str) -> None:
    found = stack.frame(file, function)
    assert len(stack.stack_hash("E", [found])) == 64 or function in ("<listcomp>", "<dictcomp>", "<setcomp>")
