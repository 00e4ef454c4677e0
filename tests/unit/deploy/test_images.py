"""Dockerfiles, and the versions that appear in several places."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
IMAGES = sorted((ROOT / "deploy" / "docker").glob("*/Dockerfile"))
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PINS = ROOT / "deploy" / "native" / "servers" / "pins"


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    """(instruction, arguments) with continued lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def version(pins: str, artifact: str) -> str:
    """Version of an artifact in the pins of a native server."""
    text = (PINS / f"{pins}.xml").read_text()
    # The file itself may have the name of what it fetches.
    _, _, dependencies = text.partition("<dependencies>")
    found = re.search(rf"<artifactId>{re.escape(artifact)}</artifactId>\s*<version>([^<]+)</version>", dependencies)
    assert found is not None, artifact
    return found[1]


def locked(lock: str, package: str) -> str:
    """Version of a package in a lock."""
    found = re.search(rf"^{re.escape(package)}==(\S+)", (ROOT / "requirements" / f"{lock}.txt").read_text(), re.MULTILINE)
    assert found is not None, package
    return found[1]


def bases(path: Path) -> list[str]:
    """Images that a Dockerfile starts from."""
    return [rest.split()[0] for word, rest in instructions(path) if word == "FROM"]


def test_there_are_images() -> None:
    assert [path.parent.name for path in IMAGES] == ["collector", "flink", "server"]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.parent.name)
class TestDockerfile:
    """Rules for each."""

    def test_bases_are_pinned(self, path: Path) -> None:
        for base in bases(path):
            assert re.search(r":\d+\.\d+(\.\d+)?(-[\w.-]+)?$|@sha256:[0-9a-f]{64}$", base), base

    def test_runs_as_a_number_that_is_not_root(self, path: Path) -> None:
        """By number: a cluster can tell that it is not root."""
        last = [word for word, _ in instructions(path)]
        after = list(instructions(path))[len(last) - 1 - last[::-1].index("FROM") :]
        (user,) = [rest for word, rest in after if word == "USER"]
        assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)

    def test_says_whether_it_is_healthy_and_how_to_stop(self, path: Path) -> None:
        words = [word for word, _ in instructions(path)]
        assert {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "LABEL"} <= set(words)

    def test_what_it_copies_is_there_and_in_the_context(self, path: Path) -> None:
        ignored = (ROOT / ".dockerignore").read_text().splitlines()
        kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
        for word, rest in instructions(path):
            if word != "COPY" or "--from=" in rest:
                continue
            *sources, _ = [part for part in rest.split() if not part.startswith("--")]
            for source in sources:
                found = list(ROOT.glob(source))
                assert found, source
                for one in found:
                    relative = one.relative_to(ROOT)
                    assert any(relative.is_relative_to(line) or relative.match(line) for line in kept if line), f"{relative} is ignored"

    def test_installs_by_hash_only(self, path: Path) -> None:
        for word, rest in instructions(path):
            for command in re.split(r"&&|;", rest) if word == "RUN" else []:
                if re.search(r"\bpip (?:install|sync)\b", command) and "/wheels/" not in command:
                    assert "--require-hashes" in command, command

    def test_takes_nothing_from_elsewhere(self, path: Path) -> None:
        text = path.read_text()
        assert not re.search(r"https?://(?!127\.0\.0\.1)", text)
        assert not re.search(r"^ADD\b", text, re.MULTILINE)


def test_servers_have_the_versions_of_the_tests() -> None:
    images = {name: service.get("image", "") for name, service in COMPOSE["services"].items()}
    assert images["kafka"] == f"apache/kafka:{version('kafka', 'kafka_2.13')}"
    assert images["elasticsearch"] == f"elasticsearch:{version('elasticsearch', 'elasticsearch')}"
    assert images["clickhouse"] == "clickhouse:" + ".".join(locked("server", "chdb-core").split(".")[:2])


def test_flink_has_one_version() -> None:
    flink = locked("flink-wheel", "apache-flink")
    text = (ROOT / "deploy" / "docker" / "flink" / "Dockerfile").read_text()
    assert f"flink:{flink}-java17" in bases(ROOT / "deploy" / "docker" / "flink" / "Dockerfile")
    assert set(re.findall(r"flink-python-([\d.]+)\.jar", text)) == {flink}
    values = yaml.safe_load((ROOT / "helm" / "firstfault" / "values.yaml").read_text())
    assert values["flink"]["flinkVersion"] == "v" + "_".join(flink.split(".")[:2])
    assert flink.endswith(".0"), "templates/flink.yaml makes the name of the jar from flinkVersion"


def test_python_is_one() -> None:
    found = {base for path in IMAGES for base in bases(path) if base.startswith("python:")}
    assert len(found) == 1


def test_our_images_have_the_version_of_the_chart_and_of_the_packages() -> None:
    chart = yaml.safe_load((ROOT / "helm" / "firstfault" / "Chart.yaml").read_text())
    values = yaml.safe_load((ROOT / "helm" / "firstfault" / "values.yaml").read_text())
    ours = {anchor["image"] for anchor in (COMPOSE["x-server"], COMPOSE["x-flink"], COMPOSE["services"]["collector"])}
    assert ours == {f"{part['image']['repository']}:{chart['appVersion']}" for part in (values, values["flink"], values["agent"])}
    for package in ("pyproject.toml", "sdk/pyproject.toml"):
        assert f'\nversion = "{chart["appVersion"]}"\n' in (ROOT / package).read_text()


def test_the_collector_is_built_by_the_go_of_its_sources() -> None:
    go = re.search(r"^go (\d+\.\d+)", (ROOT / "deploy" / "collector" / "src" / "go.mod").read_text(), re.MULTILINE)
    (image,) = [base for base in bases(ROOT / "deploy" / "docker" / "collector" / "Dockerfile") if base.startswith("golang:")]
    assert go is not None
    wanted, there = (tuple(map(int, text.split("."))) for text in (go[1], image.removeprefix("golang:").split("-")[0]))
    assert there >= wanted


def test_the_manifest_and_the_sources_of_the_collector_agree() -> None:
    folder = ROOT / "deploy" / "collector"
    manifest = yaml.safe_load((folder / "builder-config.yaml").read_text())
    modules = {entry["gomod"] for group in ("receivers", "exporters", "processors", "extensions", "providers") for entry in manifest[group]}
    required = (folder / "src" / "go.mod").read_text()
    for module in modules:
        assert f"\t{module}\n" in required, module
    text = (folder / "src" / "components.go").read_text()
    assert set(re.findall(r'"(\S+/\w+ v\d\S+)"', text)) == {module for module in modules if "/confmap/provider/" not in module}
