"""Settings: later sources win, mistakes are named, secrets are not shown."""

from pathlib import Path

import pytest

from firstfault_server import settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("FIRSTFAULT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def _home(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".config" / "firstfault" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.load().api_url == "http://127.0.0.1:8080"
    _home(tmp_path, 'api_url = "http://file"\n')
    assert settings.load().api_url == "http://file"
    monkeypatch.setenv("FIRSTFAULT_API_URL", "http://environment")
    assert settings.load().api_url == "http://environment"
    assert settings.load(api_url="http://flag").api_url == "http://flag"
    assert settings.load(api_url=None).api_url == "http://environment"


def test_a_named_file_takes_the_place_of_the_one_at_home(tmp_path: Path) -> None:
    _home(tmp_path, 'api_url = "http://home"\n')
    other = tmp_path / "other.toml"
    other.write_text("retention_events_days = 3\n")
    loaded = settings.load(other)
    assert (loaded.retention_events_days, loaded.api_url) == (3, "http://127.0.0.1:8080")


KEPT = ("events", "rollups", "incidents", "runs", "audit", "deliveries")
WEB_ADDRESSES = ("public_url", "telemetry_endpoint", "clickhouse_url")
NO_URLS = (
    "firstfault.example",
    "firstfault.example:8080",
    "ftp://x",
    "http://",
    "https:///path",
    "javascript:alert(1)",
    "http://a b",
    "http://[",
    "http://h:99999",
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("colour = 1", "colour"),
        ("retention_events_days = -1", "retention_events_days"),
        ('log_level = "loud"', "log_level"),
        ("a = [", "config.toml"),
        *((f"retention_{kind}_days = 36501", f"retention_{kind}_days") for kind in KEPT),
        ("retention_events_days = nan", "retention_events_days"),
        ("retention_runs_days = inf", "retention_runs_days"),
        *((f'{name} = "{url}"', name) for name in WEB_ADDRESSES for url in NO_URLS),
        ('elasticsearch_url = "https://es.example"', r"elasticsearch_url.*HOST:PORT"),
        ('elasticsearch_url = "http://es:9200, http://es2:9200"', "elasticsearch_url"),
        ('elasticsearch_url = "http://es:9200,es2:9200"', "elasticsearch_url"),
        ('elasticsearch_url = "http://es:9200"\nelasticsearch_ca_file = "/ca.pem"', "elasticsearch_ca_file.*https"),
        *((f'kafka_prefix = "{text}"', "kafka_prefix") for text in ("a b", "a/b", "a*", "é")),
        *((f'elasticsearch_prefix = "{text}"', "elasticsearch_prefix") for text in ("Big", "a*", "a b", "_a", "-a", "a,b")),
        *(
            (f'kafka_bootstrap = "{text}"', "kafka_bootstrap.*HOST:PORT")
            for text in ("notaport", "h:99999", "h:0", "a:1,,b:2", "a b:1", ":9")
        ),
        ('data = ""', "data"),
        ("[thresholds]\npause_flor_s = 1", "^settings: thresholds: unknown pause_flor_s .did you mean pause_floor_s..$"),
        ("[thresholds]\nqqq = 1", "unknown qqq; known are .*pause_floor_s"),
        ("[thresholds]\nsettle_s = 0", "thresholds: Expected .*settle_s"),
        ('data = " "', "data"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, word: str) -> None:
    _home(tmp_path, text)
    with pytest.raises(settings.SettingsError, match=word):
        settings.load()


def test_addresses_folders_and_ages_that_can_be(tmp_path: Path) -> None:
    ages = "".join(f"retention_{kind}_days = 36500\n" for kind in KEPT)
    _home(tmp_path, f'{ages}data = "."\npublic_url = "https://ff.example/sub"\ntelemetry_endpoint = "http://[::1]:4318"\n')
    loaded = settings.load()
    assert (loaded.data, loaded.public_url, loaded.telemetry_endpoint) == (Path(), "https://ff.example/sub", "http://[::1]:4318")
    assert loaded.retention_runs_days == 36500


def test_addresses_and_prefixes_of_servers_that_can_be(tmp_path: Path) -> None:
    text = """
    elasticsearch_url = "https://es1.example:9200,https://user:word@[::1]:9243"
    elasticsearch_ca_file = "/ca.pem"
    clickhouse_url = "https://ch.example"
    kafka_bootstrap = "SASL_SSL://k1.example:9093, [::1]:9092"
    kafka_prefix = "Team.a_b-1"
    elasticsearch_prefix = "team.a_b-1"
    """
    _home(tmp_path, text)
    loaded = settings.load()
    assert loaded.elasticsearch_url.count(",") == 1
    assert (loaded.clickhouse_url, loaded.kafka_prefix, loaded.elasticsearch_prefix) == ("https://ch.example", "Team.a_b-1", "team.a_b-1")


def test_a_folder_named_by_nothing_is_a_mistake() -> None:
    with pytest.raises(settings.SettingsError, match="data"):
        settings.load(data="")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(settings.SettingsError, match=r"nothing\.toml"):
        settings.load(tmp_path / "nothing.toml")


def test_thresholds_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_THRESHOLDS__SILENCE_S", "7.5")
    assert settings.load().thresholds == {"silence_s": 7.5}


def test_reasons_are_told_in_our_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_PUBLIC_URL", "nowhere")
    with pytest.raises(settings.SettingsError, match=r"^settings: public_url: is not an address"):
        settings.load()


def test_variables_of_the_sdk_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_ENDPOINT", "http://x")
    monkeypatch.setenv("FIRSTFAULT_RUN_ID", "r")
    settings.load()


def test_a_key_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_API_KEY", "ffk_secret")
    assert "ffk_secret" not in repr(settings.load())
    _home(tmp_path, 'api_key = ["ffk_secret"]\n')
    monkeypatch.delenv("FIRSTFAULT_API_KEY")
    with pytest.raises(settings.SettingsError) as failure:
        settings.load()
    assert "ffk_secret" not in str(failure.value)


SECRETS = {"api_key": "ffk_s3", "elasticsearch_api_key": "es3", "clickhouse_password": "ch3", "cursor_secret": "cur3"}


@pytest.mark.parametrize(("name", "value"), SECRETS.items())
def test_a_secret_comes_from_a_file_and_is_not_shown(name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "mounted"
    mounted.write_text(f"{value}\n")
    monkeypatch.setenv(f"FIRSTFAULT_{name.upper()}_FILE", str(mounted))
    loaded = settings.load()
    assert getattr(loaded, name) == value
    assert value not in repr(loaded)
    monkeypatch.setenv(f"FIRSTFAULT_{name.upper()}", "other")
    with pytest.raises(settings.SettingsError, match="both"):
        settings.load()


def test_options_of_kafka_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "kafka"
    mounted.write_text('{"sasl.password": "k3"}')
    monkeypatch.setenv("FIRSTFAULT_KAFKA_SECURITY_FILE", str(mounted))
    assert settings.load().kafka_security == {"sasl.password": "k3"}
    mounted.write_text("k3")
    with pytest.raises(settings.SettingsError, match="KAFKA_SECURITY_FILE") as failure:
        settings.load()
    assert "k3" not in str(failure.value)


def test_a_secret_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_CLICKHOUSE_PASSWORD_FILE", "/nothing/here")
    with pytest.raises(settings.SettingsError, match="CLICKHOUSE_PASSWORD_FILE"):
        settings.load()


def test_what_is_no_secret_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_KAFKA_BOOTSTRAP_FILE", "/nothing/here")
    assert settings.load().kafka_bootstrap == ""


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_KAFKA_SECURITY", "")
    assert settings.load().kafka_security == {}
