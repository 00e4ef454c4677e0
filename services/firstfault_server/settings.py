"""Settings of service and command line: defaults, then the TOML file, then `FIRSTFAULT_*`, then flags; later wins."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import tomllib
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from firstfault_server.core.thresholds import overridden
from firstfault_server.telemetry import LogFormat, LogLevel

DEFAULT_CONFIG = Path("~/.config/firstfault/config.toml")
LONGEST_DAYS = 36_500
"""For ever, in practice; times of far more days do not fit the stores' clocks."""

_BROKER: Final = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._%-]+):(?P<port>[0-9]{1,5})")


class SettingsError(Exception):
    """A setting cannot be used; the message names it and says why."""


class Settings(BaseSettings):
    """Everything that can be set. Field names are the keys of the TOML file; upper case with FIRSTFAULT_ they are variables."""

    model_config = SettingsConfigDict(
        env_prefix="FIRSTFAULT_", env_nested_delimiter="__", env_ignore_empty=True, extra="forbid", frozen=True
    )
    config_file: ClassVar[Path | None] = None

    data: Path = Field(default=Path("firstfault-data"), description="Folder of everything the service keeps; made if missing.")
    api: str = Field(default="127.0.0.1:8080", description="Address of the REST API, HOST:PORT; port 0 takes a free one.")
    otlp_http: str = Field(default="127.0.0.1:4318", description="Address of the OTLP/HTTP receiver.")
    otlp_grpc: str = Field(default="127.0.0.1:4317", description="Address of the OTLP/gRPC receiver.")
    public_url: str = Field(default="", description="Address under which people reach the API; used in links. Default: the API's own.")
    allowed_hosts: list[str] = Field(default=[], description="Host names that requests may name besides the loopback ones.")
    allowed_origins: list[str] = Field(default=[], description="Origins of web pages that may call the API.")
    log_level: LogLevel = Field(default="info", description="debug, info, warning or error.")
    log_format: LogFormat = Field(default="console", description="console for people, json for collectors.")
    thresholds: dict[str, float] = Field(default={}, description="Overrides of detection thresholds by name.")
    retention_events_days: float = Field(default=14, gt=0, le=LONGEST_DAYS, description="How long events are kept.")
    retention_rollups_days: float = Field(default=30, gt=0, le=LONGEST_DAYS, description="How long metric rollups are kept.")
    # Detection keeps a run's state for 14 days: an incident that goes earlier would come back as a new one.
    retention_incidents_days: float = Field(
        default=365, ge=15, le=LONGEST_DAYS, description="How long incidents are kept after they were resolved; others stay."
    )
    retention_runs_days: float = Field(
        default=90, ge=15, le=LONGEST_DAYS, description="How long runs are kept; one with an incident stays as long as that."
    )
    retention_audit_days: float = Field(
        default=365, gt=0, le=LONGEST_DAYS, description="How long the audit trail and silences that have ended are kept."
    )
    retention_deliveries_days: float = Field(default=90, gt=0, le=LONGEST_DAYS, description="How long tries to deliver messages are kept.")
    retention_events_bytes: int = Field(default=8 << 30, gt=0, description="How much room events may take; the oldest go first.")
    retention_rollups_bytes: int = Field(default=8 << 30, gt=0, description="How much room metric rollups may take.")
    log_bytes: int = Field(default=1 << 30, ge=0, description="How much of the input log is kept beyond what is needed, for replays.")
    tenant_bytes_per_s: int = Field(
        default=0,
        ge=0,
        description=(
            "What one tenant may send in bytes per second after decompression, of numbers and of the rest; 0: no limit. Each process that "
            "receives counts by itself: with several, a tenant may send so much to each."
        ),
    )
    drain_s: float = Field(default=8, gt=0, le=12, description="How long a stop waits for what is under way.")
    alert_timeout_s: float = Field(default=15, gt=0, le=60, description="How long one try to deliver a message may take.")

    kafka_bootstrap: str = Field(default="", description="Kafka brokers of the distributed service, HOST:PORT, several with commas.")
    kafka_security: dict[str, str] = Field(
        default={}, repr=False, description="Options of librdkafka as JSON, for instance `security.protocol`, `sasl.username`."
    )
    kafka_prefix: str = Field(default="firstfault", min_length=1, description="What names of topics and consumer groups start with.")
    kafka_partitions: int = Field(
        default=12,
        ge=1,
        le=1000,
        description="Partitions of topics that `migrate` creates; the job has no more instances of a stage. Topics that exist keep theirs.",
    )
    kafka_replicas: int = Field(default=-1, ge=-1, description="Replicas of topics that `migrate` creates; -1 leaves it to the cluster.")
    elasticsearch_url: str = Field(default="", description="Elasticsearch of the distributed service, several addresses with commas.")
    elasticsearch_api_key: str = Field(default="", repr=False, description="API key for Elasticsearch.")
    elasticsearch_ca_file: str = Field(default="", description="Certificates to trust for Elasticsearch.")
    elasticsearch_prefix: str = Field(default="firstfault", min_length=1, description="What names of indices start with.")
    elasticsearch_shards: int = Field(default=1, ge=1, description="Shards of each new index of events; other indices have one.")
    elasticsearch_replicas: int = Field(default=1, ge=0, description="Replicas of each new index.")
    clickhouse_url: str = Field(default="", description="ClickHouse of the distributed service, http(s)://HOST:PORT.")
    clickhouse_user: str = Field(default="default", description="User for ClickHouse.")
    clickhouse_password: str = Field(default="", repr=False, description="Password for ClickHouse.")
    clickhouse_database: str = Field(default="firstfault", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Database in ClickHouse.")
    ingest_health: str = Field(default="127.0.0.1:8081", description="Address of health and metrics of `serve ingest`.")
    writer_health: str = Field(default="127.0.0.1:8082", description="Address of health and metrics of `serve writer`.")
    alerter_health: str = Field(default="127.0.0.1:8083", description="Address of health and metrics of `serve alerter`.")
    cursor_secret: str = Field(
        default="", repr=False, description="Signs cursors of lists; replicas of `serve api` need the same. Default: one for each process."
    )
    telemetry_endpoint: str = Field(
        default="", description="OTLP/HTTP endpoint for the service's own traces and metrics, http(s)://HOST:PORT. Default: none."
    )
    telemetry_share: float = Field(default=0.1, ge=0, le=1, description="Share of own traces that is sent.")
    telemetry_interval_s: float = Field(default=15, ge=1, description="How often own metrics are sent to `telemetry_endpoint`.")

    api_url: str = Field(default="http://127.0.0.1:8080", description="REST API that the commands talk to.")
    api_key: str = Field(default="", repr=False, description="Key that the commands present.")
    output: str = Field(default="", description="table, json or jsonl; default: table on a terminal, else json.")

    @field_validator("thresholds", mode="before")
    @classmethod
    def _lower_names(cls, value: Any) -> Any:
        return {str(name).lower(): number for name, number in value.items()} if isinstance(value, Mapping) else value

    @field_validator("thresholds")
    @classmethod
    def _known_thresholds(cls, value: dict[str, float]) -> dict[str, float]:
        overridden(value)
        return value

    @field_validator("data", mode="before")
    @classmethod
    def _some_folder(cls, value: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise ValueError("is empty; name a folder, `.` for the present one")
        return value

    @field_validator("public_url", "telemetry_endpoint", "clickhouse_url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        if value and not _is_web_address(value):
            raise ValueError("is not an address of the form http(s)://HOST[:PORT]")
        return value

    @field_validator("elasticsearch_url")
    @classmethod
    def _web_addresses_with_port(cls, value: str) -> str:
        # The client knows no port by itself.
        if value and not all(_is_web_address(one) and urlsplit(one).port for one in value.split(",")):
            raise ValueError("is not an address of the form http(s)://HOST:PORT, several with commas and no blanks")
        return value

    @field_validator("elasticsearch_ca_file")
    @classmethod
    def _certificates(cls, value: str, others: ValidationInfo) -> str:
        if value and not all(one.startswith("https:") for one in others.data.get("elasticsearch_url", "").split(",") if one):
            raise ValueError("is of no use to an elasticsearch_url that does not begin with https")
        return value

    @field_validator("kafka_bootstrap")
    @classmethod
    def _brokers(cls, value: str) -> str:
        # Flink's client takes no address without port.
        parts = [_BROKER.fullmatch(one.strip()) for one in value.split(",")] if value else []
        if not all(part is not None and 0 < int(part["port"]) < 1 << 16 for part in parts):
            raise ValueError("is not an address of the form HOST:PORT, several with commas")
        return value

    @field_validator("kafka_prefix")
    @classmethod
    def _topic_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
            raise ValueError("has a character that names of topics cannot have; use letters, digits, '.', '_' and '-'")
        return value

    @field_validator("elasticsearch_prefix")
    @classmethod
    def _index_name(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", value):
            raise ValueError("cannot begin names of indices; use small letters, digits, '.', '_' and '-', the first a letter or digit")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = (init_settings, env_settings, _SecretFiles(settings_cls))
        file = settings_cls.__dict__.get("config_file")
        return sources if file is None else (*sources, TomlConfigSettingsSource(settings_cls, toml_file=file))


class _SecretFiles(PydanticBaseSettingsSource):
    """Secrets out of files, as orchestrators mount them: `FIRSTFAULT_API_KEY_FILE` names the file with the value of `api_key`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """(value, key, whether it is JSON); None when no file is named."""
        variable = f"FIRSTFAULT_{field_name.upper()}"
        path = os.environ.get(f"{variable}_FILE", "") if is_secret(field) else ""
        if not path:
            return None, field_name, False
        if os.environ.get(variable):
            raise SettingsError(f"settings: {variable} and {variable}_FILE are both set; use one")
        try:
            text = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"settings: {variable}_FILE: cannot read {path}: {error}") from error
        return text, field_name, field.annotation is not str

    def __call__(self) -> dict[str, Any]:
        """Values of all secrets whose file is named."""
        found: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            value, _, as_json = self.get_field_value(field, name)
            if value is not None:
                try:
                    found[name] = self.decode_complex_value(name, field, value) if as_json else value
                except ValueError as error:
                    raise SettingsError(f"settings: FIRSTFAULT_{name.upper()}_FILE does not hold JSON") from error
        return found


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        # Its message quotes the text, which may hold a password.
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and text.isprintable() and " " not in text


def _reason(found: ErrorDetails) -> str:
    """Why, in our own words where they are: pydantic puts `Value error, ` in front of what a validator says."""
    said = found.get("ctx", {}).get("error") if found["type"] == "value_error" else None
    return found["msg"] if said is None else str(said)


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting must not be shown, and may be given in a file of its own."""
    return field.repr is False


def load(config: Path | None = None, **flags: Any) -> Settings:
    """Settings from all sources; flags that are None do not count. Raises SettingsError.

    Without `config` the file in the home folder is read if it is there; a file named by `config` must be readable.
    """
    path = config if config is not None else DEFAULT_CONFIG.expanduser()
    if config is not None or path.is_file():
        try:
            with path.open("rb") as file:
                tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read {path}: {error}") from error
    given = {name: value for name, value in flags.items() if value is not None}
    sourced = type("Settings", (Settings,), {"config_file": path if path.is_file() else None, "__module__": __name__})
    try:
        made: Settings = sourced(**given)
    except ValidationError as error:
        # The values themselves stay out of the message: one of them may be a key.
        reasons = "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {_reason(item)}" for item in error.errors(include_input=False))
        raise SettingsError(f"settings: {reasons}") from error
    except ValueError as error:
        # Text of a variable that should be JSON may be a secret and stays out, too.
        raise SettingsError(f"settings: {error}") from None
    return made
