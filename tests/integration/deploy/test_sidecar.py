"""The Collector as a sidecar, as the documentation shows it: a cluster takes it, and the Collector knows what it is told."""

import re

import pytest
import yaml

from tests.integration.deploy.chart import CHART, Document, merged, problems
from tests.integration.deploy.environment import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CONFIG = ROOT / "deploy" / "collector" / "config"


@pytest.fixture(scope="module")
def job() -> Document:
    """The only object in the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [document for document in map(yaml.safe_load, blocks) if "firstfault-collector" in str(document)]
    return dict(found)


def test_a_cluster_takes_it(job: Document) -> None:
    broken = merged(job, {"spec": {"template": {"spec": {"restartPolcy": "Never"}}}})
    found, misspelt = problems([job, broken])
    assert found == []
    assert "restartPolcy" in misspelt[0]


def test_it_is_a_sidecar_that_the_collector_understands(job: Document) -> None:
    pod = job["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always", "else the job would wait for its end"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert sidecar["image"] == f"firstfault/collector:{version}"
    (config,) = [argument.removeprefix("--config=/etc/firstfault-collector/") for argument in sidecar["args"]]
    text = (CONFIG / config).read_text()
    known = dict(re.findall(r"\$\{env:(\w+)(:-[^}]*)?\}", text))
    given = {entry["name"] for entry in sidecar["env"]}
    assert given - {"GOMEMLIMIT"} <= known.keys()
    assert {name for name, default in known.items() if not default} <= given, "has no default"
    assert {probe["httpGet"]["port"] for probe in (sidecar["startupProbe"], sidecar["livenessProbe"])} == {13133}
    (health,) = [entry["value"] for entry in sidecar["env"] if entry["name"] == "COLLECTOR_HEALTH"]
    assert health.endswith(":13133")
    (training,) = pod["containers"]
    endpoint = {entry["name"]: entry.get("value") for entry in training["env"]}["FIRSTFAULT_ENDPOINT"]
    assert f"COLLECTOR_OTLP_HTTP:-{endpoint.removeprefix('http://')}}}" in text, "where the Collector listens by itself"


def test_it_is_confined(job: Document) -> None:
    pod = job["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    security = sidecar["securityContext"]
    assert security["runAsNonRoot"] is security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} <= sidecar["resources"].keys()
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    # Three queues of this size must fit into the volume.
    (queue,) = [int(entry["value"]) for entry in sidecar["env"] if entry["name"] == "COLLECTOR_QUEUE_BYTES"]
    (size,) = [volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if volume["name"] == "queue"]
    assert 3 * queue < int(size.removesuffix("Gi")) << 30
