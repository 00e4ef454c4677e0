"""Completion in real shells: what they offer is what the commands take."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from firstfault import launch
from firstfault_server.cli import commands, completion, terminal
from firstfault_server.cli.keys import SCOPES

TRY = """
source "$1"; shift
complete -p firstfault >&2
while [ $# -gt 0 ]; do
    IFS=$'\\x1f' read -r -a COMP_WORDS <<< "$1x"; shift
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]%x}
    COMPREPLY=()
    _shtab_firstfault "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Shell -> the script as the command prints it."""
    folder = tmp_path_factory.mktemp("scripts")
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        for shell in completion.SHELLS:
            made[shell] = folder / shell
            with made[shell].open("w", encoding="utf-8") as file:
                patch.setattr("sys.stdout", file)
                assert commands()["completion"].main([shell]) == 0
    return made


def _offered(scripts: Mapping[str, Path], lines: Sequence[Sequence[str]], folder: Path) -> list[list[str]]:
    """What bash offers for the last word of each line."""
    command = ["bash", "--norc", "-c", TRY, "bash", str(scripts["bash"]), *("\x1f".join(["firstfault", *words]) for words in lines)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return [line.split() for line in done.stdout.splitlines()]


CASES: list[tuple[list[str], list[str]]] = [
    (["inc"], ["incidents"]),
    (["incidents", "mu"], ["mute"]),
    (["incidents", "list", "--s"], ["--since"]),
    (["incidents", "list", "-o", ""], list(terminal.FORMS)),
    (["incidents", "show", "abc", "--output", "js"], ["json", "jsonl"]),
    (["explain", "-o", "t"], ["table"]),
    (["explain", "ra"], ["rank-0.log"]),
    (["up", "--data", "da"], ["data"]),
    (["up", "--config", "ra"], ["rank-0.log"]),
    (["keys", "create", "--scope", ""], list(SCOPES)),
    (["run", "--na"], ["--name"]),
    (["run", "--name", "x", "--", "ra"], ["rank-0.log"]),
    (["completion", ""], list(completion.SHELLS)),
    (["help", "dem"], ["demo"]),
    (["--v"], ["--version"]),
]


def test_bash_offers_what_fits(scripts: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").touch()
    (tmp_path / "data").mkdir()
    assert _offered(scripts, [words for words, _ in CASES], tmp_path) == [offered for _, offered in CASES]


def _leaves(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield words, command
    for name, part in below.items():
        yield from _leaves(part, [*words, name])


def _typer() -> Iterator[tuple[list[str], Any]]:
    for name, command in commands().items():
        if name not in completion.ARGPARSE:
            module = __import__(command._entry.partition(":")[0], fromlist=["app"])
            yield from _leaves(typer.main.get_command(module.app), [name])


def test_bash_offers_every_option_of_every_command(scripts: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaves = [words for words, _ in _typer()] + [[name] for name in completion.ARGPARSE]
    offered = _offered(scripts, [[*words, "--"] for words in leaves], tmp_path)
    assert len(leaves) > 30
    for words, options in zip(leaves, offered, strict=True):
        if words == ["run"]:
            explained = launch.parser().format_help()
        else:
            assert commands()[words[0]].main([*words[1:], "--help"]) == 0
            explained = capsys.readouterr().out
        described = [line.strip().partition("  ")[0] for line in explained.splitlines() if line.startswith("  -")]
        assert set(options) == {option for line in described for option in re.findall(r"(?<!\S)--[\w-]+", line)}, words


def test_bash_offers_every_command(scripts: Mapping[str, Path], tmp_path: Path) -> None:
    (offered,) = _offered(scripts, [[""]], tmp_path)
    assert {*commands(), "run", "help"} <= set(offered)


def test_every_option_that_is_a_path_completes_one() -> None:
    paths = {
        option
        for _, command in _typer()
        for parameter in command.params
        if parameter.type_descriptor.annotation is Path
        for option in parameter.opts
    }
    assert paths
    assert paths <= set(completion.PATHS)


def test_fish_offers_what_fits(scripts: Mapping[str, Path]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    command = 'source $argv[1]; complete -C "firstfault incidents mu"; complete -C "firstfault incidents list -o js"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", command, str(scripts["fish"])], capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["mute", "json", "jsonl"]


def test_zsh_finds_it_where_it_is_put(scripts: Mapping[str, Path], tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "_firstfault").write_bytes(scripts["zsh"].read_bytes())
    command = 'fpath=("$1" $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[firstfault]; zsh -n "$1/_firstfault"'
    done = subprocess.run(["zsh", "--no-rcs", "-c", command, "zsh", str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "_firstfault\n"


@pytest.mark.parametrize("words", [["tcsh"], ["BASH"], [""], []])
def test_another_shell_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["completion"].main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "SHELL" in captured.err or "bash, zsh, fish" in captured.err
