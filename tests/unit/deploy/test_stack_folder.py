"""A stack's folder goes with the stack, so it is one of its own."""

from pathlib import Path

import pytest

from deploy.native.servers.process import ServerFailed
from deploy.native.stack import layout, life


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "folder/file"])
def test_a_folder_with_something_else_in_it_is_left_alone(name: str, tmp_path: Path) -> None:
    there = tmp_path / name
    there.parent.mkdir(exist_ok=True)
    there.write_text("mine")
    for act in (life.up, life.down):
        with pytest.raises(ServerFailed, match=str(tmp_path)):
            act(tmp_path, lambda _: None)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [there]


def test_an_empty_folder_and_one_of_a_stack_are_taken(tmp_path: Path) -> None:
    made = layout.make(tmp_path)
    (tmp_path / "kafka").mkdir()
    assert layout.make(tmp_path) == made
