"""The Helm chart in several sets of values, as Helm's own library renders it."""

import copy
import json
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.native.servers.jars import fetch
from tests.integration.deploy.environment import ROOT, ensure

CHART = ROOT / "helm" / "firstfault"
KUBERNETES = ("1.29", "1.33", "1.37")
LEAST: dict[str, Any] = {
    "kafka": {"bootstrap": "kafka-0:9092,kafka-1:9092"},
    "elasticsearch": {"url": "https://elasticsearch:9200"},
    "clickhouse": {"url": "http://clickhouse:8123"},
    "existingSecret": {"name": "firstfault"},
    "flink": {"state": {"existingClaim": "flink-state"}},
}
Document = dict[str, Any]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`more` laid over `base`, as Helm does."""
    out = dict(copy.deepcopy(base))
    for key, value in more.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


EVERYTHING = merged(
    LEAST,
    {
        "kafka": {"partitions": 32},
        "image": {"digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "pull"}],
        "existingSecret": {
            "keys": {"elasticsearchApiKey": "es", "kafkaSecurity": "kafka", "kafkaCa": "kafka.crt", "elasticsearchCa": "ca.crt"}
        },
        "publicUrl": "https://firstfault.example.org",
        "allowedHosts": ["firstfault.example.org"],
        "settings": {"FIRSTFAULT_ALERT_TIMEOUT_S": 10, "FIRSTFAULT_THRESHOLDS": {"silence_s": 20}, "FIRSTFAULT_FLINK_BACKEND": "rocksdb"},
        **{name: {"autoscaling": {"enabled": True}} for name in ("ingest", "writer", "api", "alerter")},
        "flink": {
            "parallelism": 32,
            "upgradeMode": "last-state",
            "jobManager": {"replicas": 2},
            "state": {"dir": "s3://bucket/firstfault", "plugin": "flink-s3-fs-hadoop-2.3.0.jar", "existingClaim": ""},
            "configuration": {"execution.checkpointing.num-retained": "5"},
        },
        "agent": {
            "enabled": True,
            "clusterName": "east",
            "existingSecret": {"name": "agent"},
            "kernel": {"source": "journald", "journal": "/run/log/journal"},
        },
        "doctor": {"existingSecret": {"name": "doctor"}},
        "podAnnotations": {"a/b": "c"},
        "podLabels": {"team": "x"},
        "nodeSelector": {"pool": "services"},
        "tolerations": [{"key": "services", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "high",
        "networkPolicy": {
            "ingestFrom": [{"namespaceSelector": {}}],
            "apiFrom": [{"podSelector": {}}],
            "metricsFrom": [{"podSelector": {}}],
            "egress": {
                "enabled": True,
                "servers": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}],
                "webhooks": [{"ports": [{"port": 443}]}],
                "flink": [{"ports": [{"port": 6443}]}],
            },
        },
        "serviceMonitor": {"evenIfUnknown": True, "labels": {"release": "prometheus"}},
    },
)
BARE = merged(
    LEAST,
    {
        "flink": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False, "name": "given"},
        "topologySpread": {"enabled": False},
        "api": {"replicas": 1, "podDisruptionBudget": {"enabled": False}},
        "existingSecret": {"keys": {"cursorSecret": ""}},
        "agent": {
            "enabled": True,
            "existingSecret": {"name": "agent"},
            "kernel": {"source": "none"},
            "podLogs": {"enabled": False},
            "hostPorts": {"http": 0, "grpc": 0},
        },
    },
)
KERNEL_FILE = merged(LEAST, {"agent": {"enabled": True, "existingSecret": {"name": "agent"}, "kernel": {"source": "file"}}})
GOOD = {"least": LEAST, "everything": EVERYTHING, "bare": BARE, "kernel-file": KERNEL_FILE}


def flink_definition() -> Document:
    """The operator's own schema of a FlinkDeployment, closed against keys it does not know."""
    (jar,) = fetch("flink-operator").glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        definition = yaml.safe_load(archive.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == "v1beta1"]
    schema: Document = version["schema"]["openAPIV3Schema"]
    schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    # The newest published definition is older than this version of Flink; the operator's documentation says which ones know it.
    schema["properties"]["spec"]["properties"]["flinkVersion"]["enum"].append("v2_3")
    schema = closed(schema)
    return schema


def closed(schema: Any) -> Any:
    """A cluster drops what it does not know without a word; here it is an error."""
    if not isinstance(schema, dict):
        return schema
    out = {
        key: {name: closed(part) for name, part in value.items()} if key == "properties" else closed(value) for key, value in schema.items()
    }
    if "properties" in out and "additionalProperties" not in out and not out.get("x-kubernetes-preserve-unknown-fields"):
        out["additionalProperties"] = False
    if out.pop("x-kubernetes-int-or-string", None):
        out.pop("type", None)
    return out


def render(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
    """What each set of values gives: see chart_program.py."""
    asked = {
        "chart": str(CHART),
        "kubernetes": KUBERNETES,
        "definitions": {"FlinkDeployment": flink_definition()},
        "cases": list(cases.values()),
    }
    program = Path(__file__).with_name("chart_program.py")
    done = subprocess.run([ensure() / "bin" / "python", str(program)], input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def problems(found: list[Document], kubernetes: Sequence[str] = KUBERNETES) -> list[list[str]]:
    """What a cluster would refuse of each object."""
    asked = {"documents": found, "kubernetes": kubernetes, "definitions": {"FlinkDeployment": flink_definition()}}
    text = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from chart_program import problems; a = json.load(sys.stdin); "
        "print(json.dumps([problems(d, a['kubernetes'], a['definitions']) for d in a['documents']]))"
    )
    command = [str(ensure() / "bin" / "python"), "-c", text, str(Path(__file__).parent)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    answers: list[list[str]] = json.loads(done.stdout)
    return answers


def documents(rendered: Mapping[str, Document], case: str, kind: str = "") -> list[Document]:
    """Objects of a case."""
    return [document for document in rendered[case]["documents"] if kind in ("", document["kind"])]


def pods(found: list[Document]) -> Iterator[tuple[str, Document]]:
    """Pod templates by name."""
    for document in found:
        if document["kind"] in ("Deployment", "DaemonSet", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]
        elif document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"]
        elif document["kind"] == "FlinkDeployment":
            yield document["metadata"]["name"], document["spec"]["podTemplate"]["spec"]
