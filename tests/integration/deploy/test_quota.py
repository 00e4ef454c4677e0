"""What one tenant may send by default, as deployed: less than detection works off, and all replicas of ingest are counted."""

from pathlib import Path

import pytest
import yaml

from firstfault_server.settings import Settings
from tests.bench.ingest_load import METRICS, POINTS_PER_METRIC, Template
from tests.integration.deploy.chart import CHART, LEAST, documents, merged, render
from tests.integration.deploy.environment import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WORKED_OFF = 104_000
"""Points a second, by one TaskManager: the lowest figure of docs/adr/0011-detection-in-flink.md."""
POINT_BYTES = len(Template(1).next(1 << 60)) / (len(METRICS) * POINTS_PER_METRIC)
NAME = "FIRSTFAULT_TENANT_BYTES_PER_S"


def by_compose() -> int:
    """Bytes a second by the defaults of the compose file, which has one ingest."""
    lines = (ROOT / "deploy" / "docker" / "defaults.env").read_text().splitlines()
    (value,) = [line.partition("=")[2] for line in lines if line.startswith(f"{NAME}=")]
    return int(value)


def test_one_tenant_cannot_make_detection_late() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    by_chart = values["ingest"]["replicas"] * values["ingest"]["tenantBytesPerSecond"]
    assert by_chart == by_compose(), "the same for both"
    assert WORKED_OFF / 2 < by_chart / POINT_BYTES < WORKED_OFF * values["flink"]["parallelism"]
    figures = Path(ROOT / "docs" / "adr" / "0011-detection-in-flink.md").read_text()
    assert f"{WORKED_OFF:,} to" in figures


def test_the_chart_writes_it_as_ingest_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million is not 1e+06."""
    cases = render({"least": LEAST, "more": merged(LEAST, {"ingest": {"tenantBytesPerSecond": 25_000_000}})})
    for case, wanted in (("least", 1_000_000), ("more", 25_000_000)):
        (data,) = [d["data"] for d in documents(cases, case, "ConfigMap") if d["metadata"]["name"].endswith("-settings")]
        monkeypatch.setenv(NAME, data[NAME])
        assert Settings().tenant_bytes_per_s == wanted
