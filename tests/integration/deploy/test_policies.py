"""Who may reach which pod, by the NetworkPolicies of the chart."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.deploy.chart import GOOD, LEAST, Document, documents, merged, pods, render

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CASES = sorted(name for name, values in GOOD.items() if values.get("networkPolicy", {}).get("enabled", True))
DETECT, AGENT = "trial-firstfault-detect", "trial-firstfault-agent"
ANYBODY: list[Document] = []


@pytest.fixture(scope="module")
def rendered() -> dict[str, Document]:
    """The chart in every set of values that must work."""
    return render(GOOD)


def policies(found: list[Document]) -> dict[str, Document]:
    """Specifications of the policies by name."""
    return {document["metadata"]["name"]: document["spec"] for document in found if document["kind"] == "NetworkPolicy"}


def opened(policy: Mapping[str, Any]) -> dict[int | None, list[Document]]:
    """Who may come in by port; None: every port."""
    out: dict[int | None, list[Document]] = {}
    for rule in policy["ingress"]:
        for port in [entry["port"] for entry in rule["ports"]] if "ports" in rule else [None]:
            out[port] = out.get(port, []) + rule.get("from", ANYBODY)
    return out


@pytest.mark.parametrize("case", CASES)
def test_every_pod_that_stays_has_one(rendered: dict[str, Document], case: str) -> None:
    """A policy for each, which selects its pods and no others; ports are those on which it listens."""
    found = documents(rendered, case)
    labels = {
        document["metadata"]["name"]: (document["spec"].get("template") or document["spec"].get("podTemplate"))["metadata"]["labels"]
        for document in found
        if document["kind"] in ("Deployment", "DaemonSet", "FlinkDeployment")
    }
    made = policies(found)
    assert made.keys() == labels.keys()
    for name, policy in made.items():
        wanted = policy["podSelector"]["matchLabels"].items()
        assert [other for other, own in labels.items() if wanted <= own.items()] == [name]
    for name, pod in pods(found):
        listens = {port["containerPort"] for container in pod["containers"] for port in container.get("ports", [])}
        if name in made:
            open_ports = {port for port in opened(made[name]) if port is not None}
            assert all(isinstance(port, int) for port in open_ports), "text would be the name of a port"
            assert open_ports - {8081 if name == DETECT else None} == listens


def test_only_the_operator_reaches_the_rest_port_of_flink(rendered: dict[str, Document]) -> None:
    """Whoever does can stop the job; its own pods may reach each other on any port."""
    operator = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "flink-kubernetes-operator"}}}
    for case, metrics in (("least", ANYBODY), ("everything", [{"podSelector": {}}])):
        policy = policies(documents(rendered, case))[DETECT]
        assert opened(policy) == {None: [{"podSelector": policy["podSelector"]}], 8081: [operator], 9249: metrics}


def test_what_pods_may_call_can_be_limited(rendered: dict[str, Document]) -> None:
    """To DNS, to each other where they must, and to what the values say; without that to anything."""
    assert {tuple(policy["policyTypes"]) for policy in policies(documents(rendered, "least")).values()} == {("Ingress",)}
    made = policies(documents(rendered, "everything"))
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    servers: Document = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    webhooks: Document = {"ports": [{"port": 443}]}
    flink: Document = {"ports": [{"port": 6443}]}
    wanted: dict[str, list[Document]] = {f"trial-firstfault-{name}": [servers] for name in ("ingest", "writer")}
    # The API delivers test messages itself.
    wanted |= {f"trial-firstfault-{name}": [servers, webhooks] for name in ("alerter", "api")}
    wanted[DETECT] = [{"to": [{"podSelector": made[DETECT]["podSelector"]}]}, servers, flink]
    wanted[AGENT] = [{"to": [{"podSelector": made["trial-firstfault-ingest"]["podSelector"]}], "ports": [{"port": 4318}]}]
    assert {name: policy["egress"][1:] for name, policy in made.items()} == wanted
    for policy in made.values():
        assert (policy["policyTypes"], policy["egress"][0]) == (["Ingress", "Egress"], {"ports": names})


def test_flink_takes_no_jobs_and_cancels_none_from_its_pages(rendered: dict[str, Document]) -> None:
    for case in CASES:
        for document in documents(rendered, case, "FlinkDeployment"):
            options = document["spec"]["flinkConfiguration"]
            assert (options["web.submit.enable"], options["web.cancel.enable"]) == ("false", "false")
            assert "jarURI" in document["spec"]["job"], "a job of its own cluster, which is not submitted over REST"


def test_who_may_send_to_an_agent_can_be_said() -> None:
    node = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    agent = {"agent": {"enabled": True, "existingSecret": {"name": "agent"}}}
    cases = {
        "said": merged(LEAST, agent | {"networkPolicy": {"agentFrom": [node]}}),
        "unsaid": merged(LEAST, agent),
        "no-operator": merged(LEAST, {"networkPolicy": {"operatorFrom": []}}),
    }
    found = render(cases)
    assert opened(policies(found["said"]["documents"])[AGENT]) == {4317: [node], 4318: [node], 8888: ANYBODY}
    assert opened(policies(found["unsaid"]["documents"])[AGENT]) == dict.fromkeys((4317, 4318, 8888), ANYBODY)
    assert found["said"]["problems"] == []
    assert "operatorFrom" in found["no-operator"]["refused"], "an empty list would let everybody in"
