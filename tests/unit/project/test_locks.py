"""The locks hold every requirement with hashes and name no registry; the distributions ask for nothing that is not locked."""

import re
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "requirements"
LOCKS = sorted(FOLDER.glob("*.txt"))
OWN = {"firstfault", "firstfault-server"}


def locked(path: Path) -> dict[str, str]:
    """Name -> version of a lock."""
    pairs = re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pairs}


def wanted(path: Path) -> list[Requirement]:
    """Requirements of an .in file and of those it includes."""
    found: list[Requirement] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("-r "):
            found += wanted(path.with_name(text[3:]))
        elif text:
            found.append(Requirement(text))
    return found


def left_out() -> set[str]:
    """What the services of the distributed deployment do without."""
    return {requirement.name for requirement in wanted(FOLDER / "services.without")}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_names_no_registry_and_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"://|--(?:index-url|extra-index-url|find-links|trusted-host)", text)
    assert not re.search(r"# +via .*/(?:home|root|tmp|work)/", text)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_has_a_hash(path: Path) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [entry.splitlines()[0] for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_satisfies_its_requirements(path: Path) -> None:
    versions = locked(path)
    for requirement in wanted(path.with_suffix(".in")):
        if path.name == "services.txt" and requirement.name in left_out():
            continue
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)], prereleases=True), requirement


@pytest.mark.parametrize("path", [ROOT / "pyproject.toml", ROOT / "sdk" / "pyproject.toml"], ids=["server", "sdk"])
def test_the_lock_satisfies_a_distribution(path: Path) -> None:
    versions = locked(FOLDER / "dev.txt")
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(text for extra in project.get("optional-dependencies", {}).values() for text in extra)]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        assert name in OWN or requirement.specifier.contains(versions[name], prereleases=True), requirement


def test_locks_agree_with_each_other() -> None:
    everything = locked(FOLDER / "dev.txt")
    for name in ("server", "services", "sdk", "bootstrap"):
        assert {key: version for key, version in locked(FOLDER / f"{name}.txt").items() if everything.get(key) != version} == {}


def test_the_services_have_all_of_the_server_but_what_the_embedded_store_needs() -> None:
    missing = locked(FOLDER / "server.txt").keys() - locked(FOLDER / "services.txt").keys()
    assert missing == left_out() | {"pandas", "pyarrow"}
    image = (ROOT / "deploy" / "docker" / "server" / "Dockerfile").read_text(encoding="utf-8")
    assert "requirements/services.txt" in image
    assert "requirements/server.txt" not in image
