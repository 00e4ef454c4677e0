"""What the README shows works when it is typed in."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.faults.service import Service, running, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def command(line: str, folder: Path, service: Service) -> str:
    """Run a line as a shell does; returns stdout."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FIRSTFAULT_", "OTEL_"))}
    env = kept | {"FIRSTFAULT_ENDPOINT": service.endpoint, "FIRSTFAULT_API_URL": service.api_url}
    done = subprocess.run(["bash", "-ec", line], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_quickstart_ends_in_an_incident(tmp_path: Path) -> None:
    (program,) = blocks("python")
    (shell,) = blocks("bash")
    name = re.match(r"# (\S+\.py)\n", program)
    assert name is not None
    (tmp_path / name[1]).write_text(program)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    train, *questions = shell.splitlines()
    with running(tmp_path / "service", {}) as service:
        assert "it failed, as it should" in command(train, tmp_path, service)
        until(lambda: service.get("/v1/incidents")["items"], 30, "an incident opens")
        (incident,) = service.get("/v1/incidents")["items"]
        assert (incident["first_fault"]["rank"], incident["run"]["name"]) == (0, "quickstart")
        assert questions
        for line in questions:
            assert "quickstart" in command(line, tmp_path, service) or incident["id"][:8] in command(line, tmp_path, service)


def test_the_make_targets_it_names_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"run", "test", "demo", "check", "help"} <= named
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= targets


def test_its_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken
