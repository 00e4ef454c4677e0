"""The console script: commands of other distributions, help, and what is said about commands that are not there."""

from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from firstfault import cli, launch
from firstfault_server.cli import commands


def _answer(args: list[str]) -> int:
    print("called with", args)
    return 4


def plugged() -> dict[str, cli.CommandSpec]:
    """Commands of a distribution that works."""
    return {"up": cli.CommandSpec("run the service", _answer), "explain": cli.CommandSpec("explain logs", _answer)}


def broken() -> dict[str, cli.CommandSpec]:
    """Commands of a distribution that does not."""
    raise RuntimeError("half installed")


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs entry points by the names of functions here; none by default."""

    def install(*names: str) -> None:
        entries = [EntryPoint(name, f"{__name__}:{name}", cli.ENTRY_POINT_GROUP) for name in names]
        monkeypatch.setattr(cli, "entry_points", lambda group: entries)
        # The tests' module is not importable by name.
        monkeypatch.setattr(EntryPoint, "load", lambda entry: globals()[entry.name])

    install()
    return install


def test_a_plugged_in_command_gets_its_arguments(plug: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    plug("plugged")
    assert cli.main(["explain", "a.log", "--help"]) == 4
    assert capsys.readouterr().out == "called with ['a.log', '--help']\n"


def test_help_of_a_command_is_the_commands_own(plug: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    plug("plugged")
    assert cli.main(["help", "up"]) == 4
    assert capsys.readouterr().out == "called with ['--help']\n"


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_lists_every_command(plug: Callable[..., None], capsys: pytest.CaptureFixture[str], word: str) -> None:
    plug("plugged")
    assert cli.main([word]) == 0
    out = capsys.readouterr().out
    for name, spec in {**plugged(), "run": cli.CommandSpec(launch.HELP, launch.main)}.items():
        assert any(line.split() == [name, *spec.help.split()] for line in out.splitlines())


def test_without_the_service_help_and_its_commands_say_what_to_install(
    plug: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["help"]) == 0
    assert "firstfault-server" in capsys.readouterr().out
    for name in commands():
        assert cli.main([name]) == 2
        assert "install firstfault-server" in capsys.readouterr().err


def test_no_command_is_promised_that_the_service_does_not_have() -> None:
    assert set(cli.SERVICE_COMMANDS) == set(commands())


def test_an_unknown_command_is_met_with_near_names(plug: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    plug("plugged")
    assert cli.main(["explian", "x"]) == 2
    captured = capsys.readouterr()
    assert "did you mean explain" in captured.err
    assert captured.out == ""
    assert cli.main(["zzzzzz"]) == 2
    assert "see `firstfault help`" in capsys.readouterr().err


def test_without_arguments_help_goes_to_stderr(plug: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "run" in captured.err


def test_a_broken_distribution_is_named_and_costs_the_others_nothing(plug: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    plug("broken", "plugged")
    assert cli.main(["up"]) == 4
    assert "half installed" in capsys.readouterr().err


def test_run_loads_no_distribution(plug: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plug("broken")
    monkeypatch.setattr(launch, "main", lambda args: 9 if args == ["--", "x"] else 0)
    assert cli.main(["run", "--", "x"]) == 9


def test_version_names_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("firstfault ")


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (["--", "python", "x.py", "--name", "theirs"], ["python", "x.py", "--name", "theirs"]),
        (["python", "x.py", "--name", "theirs"], ["python", "x.py", "--name", "theirs"]),
        (["--", "--odd", "--"], ["--odd", "--"]),
        (["tool", "--", "rest"], ["tool", "--", "rest"]),
    ],
)
def test_everything_behind_the_command_is_its_own(args: list[str], command: list[str]) -> None:
    options, found = launch.parse(["--name", "mine", *args])
    assert options.name == "mine"
    assert found == command


def test_a_missing_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        launch.parse(["--run-id", "r", "--"])
    assert stopped.value.code == 2
    assert "no command given" in capsys.readouterr().err


def test_the_environment_keeps_what_was_there() -> None:
    environ = launch.environment(
        {"PYTHONPATH": "/a:/b", "FIRSTFAULT_FALLBACK_RUN_ID": "outer", "HOME": "/h"}, run_id=None, name=None, launch_dir=""
    )
    folder, *rest = environ["PYTHONPATH"].split(":")
    assert folder.endswith("autostart")
    assert rest == ["/a", "/b"]
    # `run` within `run`: one run.
    assert environ["FIRSTFAULT_FALLBACK_RUN_ID"] == "outer"
    assert environ["HOME"] == "/h"
    assert "FIRSTFAULT_RUN_ID" not in environ


def test_processes_of_one_mpirun_share_the_last_resort() -> None:
    one, two = ({"PMIX_NAMESPACE": "prterun-n1-42@1", "OMPI_COMM_WORLD_RANK": rank} for rank in "01")
    assert launch.own_run_id(one) == launch.own_run_id(two)
    assert launch.own_run_id(one) != launch.own_run_id({"PMIX_NAMESPACE": "prterun-n1-43@1"})
    assert launch.own_run_id({}) != launch.own_run_id({})
