"""The Helm chart, rendered by Helm's own library in several sets of values, against the schemas of Kubernetes and of the Flink operator."""

import json
from urllib.parse import urlsplit

import pytest
import yaml

from firstfault_server.cli.process import STOP_WITHIN_S
from firstfault_server.detect.flink.plan import CLOCK_KEYS, read_plan
from firstfault_server.settings import Settings, is_secret
from tests.integration.deploy.chart import GOOD, KUBERNETES, LEAST, Document, documents, merged, pods, problems, render
from tests.integration.deploy.environment import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SECRET_FIELDS = {f"FIRSTFAULT_{name.upper()}_FILE" for name, field in Settings.model_fields.items() if is_secret(field)}
FIELDS = {f"FIRSTFAULT_{name.upper()}" for name in Settings.model_fields}
REFUSED = {
    "nothing": ({}, "must be set"),
    "no-secret": (merged(LEAST, {"existingSecret": {"name": ""}}), "existingSecret.name must be set"),
    "unknown": (merged(LEAST, {"ingset": {}}), "additional properties"),
    "unknown-inside": (merged(LEAST, {"api": {"replica": 2}}), "additional properties"),
    "zero": (merged(LEAST, {"api": {"replicas": 0}}), "minimum"),
    "latest": (merged(LEAST, {"image": {"tag": "latest"}}), "tag"),
    "stateless": (merged(LEAST, {"flink": {"upgradeMode": "stateless"}}), "upgradeMode"),
    "state-in-the-pod": (merged(LEAST, {"flink": {"state": {"existingClaim": ""}}}), "existingClaim must be set"),
    "secret-in-settings": (merged(LEAST, {"settings": {"FIRSTFAULT_CLICKHOUSE_PASSWORD": "x"}}), "FIRSTFAULT_CLICKHOUSE_PASSWORD"),
    "more-instances-than-partitions": (
        merged(LEAST, {"kafka": {"partitions": 3}, "flink": {"parallelism": 4}}),
        "flink.parallelism must not be above kafka.partitions",
    ),
    "more-instances-than-clock-keys": (merged(LEAST, {"kafka": {"partitions": 64}, "flink": {"parallelism": CLOCK_KEYS + 1}}), "maximum"),
    "no-time-to-drain": (merged(LEAST, {"preStopSeconds": 20}), "terminationGracePeriodSeconds must be at least"),
    "calls-nobody": (
        merged(LEAST, {"networkPolicy": {"egress": {"enabled": True, "servers": [{}], "webhooks": [{}]}}}),
        "networkPolicy.egress.flink must be set",
    ),
    "bootstrap": (merged(LEAST, {"kafka": {"bootstrap": "kafka"}}), "bootstrap"),
    "agent-without-key": (merged(LEAST, {"agent": {"enabled": True}}), "agent.existingSecret.name must be set"),
    "cursors": (merged(LEAST, {"existingSecret": {"keys": {"cursorSecret": ""}}}), "cursorSecret must be set"),
}


@pytest.fixture(scope="module")
def rendered() -> dict[str, Document]:
    """The chart in every set of values that must work."""
    return render(GOOD)


@pytest.fixture(scope="module")
def refusals() -> dict[str, Document]:
    """What is said to values that must be refused."""
    return render({name: values for name, (values, _) in REFUSED.items()})


@pytest.mark.parametrize("case", GOOD)
def test_a_cluster_takes_it(rendered: dict[str, Document], case: str) -> None:
    found = rendered[case]
    assert found["refused"] == ""
    assert found["lint"] == []
    assert found["problems"] == []
    names = [(document["kind"], document["metadata"]["name"]) for document in found["documents"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_are_refused(refusals: dict[str, Document], case: str) -> None:
    assert REFUSED[case][1] in refusals[case]["refused"]


def test_the_checks_can_fail(rendered: dict[str, Document]) -> None:
    """A misspelt key of each kind of object is found."""
    (flink,) = documents(rendered, "least", "FlinkDeployment")
    deployment = documents(rendered, "least", "Deployment")[0]
    broken = [merged(flink, {"spec": {"job": {"upgradMode": "savepoint"}}}), merged(deployment, {"spec": {"replicsa": 2}})]
    first, second = problems(broken, KUBERNETES[:1])
    assert "upgradMode" in first[0]
    assert "replicsa" in second[0]


@pytest.mark.parametrize("case", GOOD)
def test_variables_are_settings(rendered: dict[str, Document], case: str) -> None:
    """Every FIRSTFAULT_ variable is a setting of the program that gets it, and the settings can be read."""
    for document in documents(rendered, case, "ConfigMap"):
        assert set(document["data"]) <= FIELDS
        given = {name.removeprefix("FIRSTFAULT_").lower(): value for name, value in document["data"].items()}
        Settings(**{name: json.loads(value) if name in ("allowed_hosts", "thresholds") else value for name, value in given.items()})
    for name, pod in pods(documents(rendered, case)):
        for container in pod["containers"]:
            ours = {
                entry["name"]: entry.get("value", "{}") for entry in container.get("env", []) if entry["name"].startswith("FIRSTFAULT_")
            }
            if name.endswith("-detect"):
                read_plan([], ours)
                assert set(ours) <= {f"FIRSTFAULT_{field.upper()}" for field in read_plan([], ours).__struct_fields__}
            else:
                where = {"FIRSTFAULT_API_URL", "FIRSTFAULT_ENDPOINT"} if name.endswith("-doctor") else set()
                assert set(ours) <= SECRET_FIELDS | {"FIRSTFAULT_ELASTICSEARCH_CA_FILE"} | where


@pytest.mark.parametrize("case", GOOD)
def test_pods_are_confined(rendered: dict[str, Document], case: str) -> None:
    """No privileges, no account token that nobody uses, a root file system that is read; the agent may read what root may, no more."""
    for name, pod in pods(documents(rendered, case)):
        agent, flink = name.endswith("-agent"), name.endswith("-detect")
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert agent or pod["securityContext"]["runAsNonRoot"] is True
        assert flink or pod["automountServiceAccountToken"] is False
        assert not any(pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC"))
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]} | ({"add": ["DAC_READ_SEARCH"]} if agent else {})
            assert flink or security["readOnlyRootFilesystem"] is True
            assert flink or {"requests", "limits"} <= container["resources"].keys()
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}
        for volume in pod["volumes"]:
            if "hostPath" in volume:
                assert agent
                (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
                assert volume["name"] == "data" or mount["readOnly"] is True


def test_services_can_be_watched_moved_and_reached(rendered: dict[str, Document]) -> None:
    found = documents(rendered, "everything")
    kinds = {kind: {d["metadata"]["name"] for d in found if d["kind"] == kind} for kind in {d["kind"] for d in found}}
    services = {f"trial-firstfault-{name}" for name in ("ingest", "writer", "api", "alerter")}
    for kind in ("Deployment", "HorizontalPodAutoscaler", "Service", "ServiceMonitor"):
        assert kinds[kind] == services, kind
    assert kinds["PodDisruptionBudget"] == services | {f"trial-firstfault-detect-{part}" for part in ("jobmanager", "taskmanager")}
    for document in documents(rendered, "everything", "Deployment"):
        assert "replicas" not in document["spec"], "the autoscaler's number would be taken back by each upgrade"
        (container,) = document["spec"]["template"]["spec"]["containers"]
        ports = {port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
        assert container["args"] == ["serve", document["metadata"]["name"].rsplit("-", 1)[1]]
        assert document["spec"]["template"]["metadata"]["annotations"].keys() >= {"checksum/settings", "checksum/secrets", "a/b"}
        assert container["image"].endswith("@sha256:" + "a" * 64)
    assert documents(rendered, "least", "ServiceMonitor") == documents(rendered, "least", "PodMonitor") == []


def test_what_has_no_service_is_scraped_by_its_pods(rendered: dict[str, Document]) -> None:
    """The Flink job where its reporter listens, and the agent."""
    monitors = {d["metadata"]["name"]: d for d in documents(rendered, "everything", "PodMonitor")}
    assert monitors.keys() == {"trial-firstfault-detect", "trial-firstfault-agent"}
    (flink,), (agent,) = documents(rendered, "everything", "FlinkDeployment"), documents(rendered, "everything", "DaemonSet")
    for name, template in (("detect", flink["spec"]["podTemplate"]), ("agent", agent["spec"]["template"])):
        monitor = monitors[f"trial-firstfault-{name}"]
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (container,) = template["spec"]["containers"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
    (container,) = flink["spec"]["podTemplate"]["spec"]["containers"]
    reporters = {key: value for key, value in flink["spec"]["flinkConfiguration"].items() if key.startswith("metrics.report")}
    assert reporters["metrics.reporter.prometheus.port"] == str(container["ports"][0]["containerPort"])
    # The compose file has the same; there it is tried.
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["jobmanager"]["environment"]["FLINK_PROPERTIES"]
    assert reporters.items() <= {key: str(value) for key, value in yaml.safe_load(compose).items()}.items()


def test_secrets_are_files_of_those_who_need_them(rendered: dict[str, Document]) -> None:
    """Every file that a variable names is mounted; the Flink job gets the certificates of Kafka only."""
    mounted = {}
    for name, pod in pods(documents(rendered, "everything")):
        for volume in pod["volumes"]:
            if volume["name"] == "secrets":
                assert volume["secret"]["secretName"] == "firstfault"
                mounted[name] = {item["path"] for item in volume["secret"]["items"]}
        for entry in pod["containers"][0].get("env", []):
            if entry.get("value", "").startswith("/etc/firstfault/secrets/"):
                assert entry["value"].rsplit("/", 1)[1] in mounted[name]
    everything = {"clickhouse-password", "cursor-secret", "es", "kafka", "kafka.crt", "ca.crt"}
    services = {f"trial-firstfault-{name}" for name in ("ingest", "writer", "api", "alerter", "migrate", "doctor")}
    assert mounted == dict.fromkeys(services, everything) | {"trial-firstfault-detect": {"kafka.crt"}}


def test_the_agent_may_always_send(rendered: dict[str, Document]) -> None:
    """Whoever says who may send need not think of the agent."""
    policies = {d["metadata"]["name"]: d["spec"]["ingress"] for d in documents(rendered, "everything", "NetworkPolicy")}
    senders = policies["trial-firstfault-ingest"][0]["from"]
    (agent,) = documents(rendered, "everything", "DaemonSet")
    assert {"podSelector": agent["spec"]["selector"]} in senders
    assert {"namespaceSelector": {}} in senders
    open_to_all = {d["metadata"]["name"]: d["spec"]["ingress"] for d in documents(rendered, "kernel-file", "NetworkPolicy")}
    assert "from" not in open_to_all["trial-firstfault-ingest"][0]
    assert len(policies["trial-firstfault-writer"]) == 1, "nobody but those who scrape"


def test_the_release_can_be_tried(rendered: dict[str, Document]) -> None:
    """By an event that goes through everything, with a key of its own; whoever is let in, it is."""
    assert documents(rendered, "least", "Pod") == []
    (doctor,) = documents(rendered, "everything", "Pod")
    assert doctor["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "helm -n watch test trial" in rendered["everything"]["notes"]
    (container,) = doctor["spec"]["containers"]
    assert container["args"][0] == "doctor"
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    services = {d["metadata"]["name"]: {port["port"] for port in d["spec"]["ports"]} for d in documents(rendered, "everything", "Service")}
    for name in ("FIRSTFAULT_API_URL", "FIRSTFAULT_ENDPOINT"):
        address = urlsplit(variables[name])
        assert address.port in services[str(address.hostname).removesuffix(".watch.svc")]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (key,) = [volume for volume in doctor["spec"]["volumes"] if volume["name"] == "key"]
    assert key["secret"]["secretName"] == "doctor"
    assert variables["FIRSTFAULT_API_KEY_FILE"] == f"{mounts['key']}/api-key"
    config = container["envFrom"][0]["configMapRef"]["name"]
    (settings,) = [d["data"] for d in documents(rendered, "everything", "ConfigMap") if d["metadata"]["name"] == config]
    assert urlsplit(variables["FIRSTFAULT_API_URL"]).hostname in json.loads(settings["FIRSTFAULT_ALLOWED_HOSTS"])
    for policy in documents(rendered, "everything", "NetworkPolicy"):
        if policy["metadata"]["name"].endswith(("-ingest", "-api")):
            senders = [
                peer["podSelector"]["matchLabels"]
                for peer in policy["spec"]["ingress"][0]["from"]
                if "matchLabels" in peer.get("podSelector", {})
            ]
            assert any(labels.items() <= doctor["metadata"]["labels"].items() for labels in senders), policy["metadata"]["name"]


def test_who_gets_requests_goes_on_until_nobody_sends_any(rendered: dict[str, Document]) -> None:
    """And there is time left to drain."""
    for document in documents(rendered, "least", "Deployment"):
        pod = document["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        waits = int(container.get("lifecycle", {"preStop": {"exec": {"command": ["sleep", "0"]}}})["preStop"]["exec"]["command"][1])
        assert (waits > 0) == (container["args"][1] in ("ingest", "api"))
        assert pod["terminationGracePeriodSeconds"] >= waits + STOP_WITHIN_S


def test_pods_of_flink_are_evicted_one_at_a_time(rendered: dict[str, Document]) -> None:
    """Where there are several; a budget for a single one would only keep its node from being emptied."""
    budgets = {d["metadata"]["name"]: d["spec"] for d in documents(rendered, "everything", "PodDisruptionBudget")}
    (flink,) = documents(rendered, "everything", "FlinkDeployment")
    for part, count in (("jobmanager", 2), ("taskmanager", CLOCK_KEYS)):
        budget = budgets[f"trial-firstfault-detect-{part}"]
        labels = dict(budget["selector"]["matchLabels"])
        assert (budget["minAvailable"], labels.pop("component")) == (count - 1, part)
        assert labels.items() <= flink["spec"]["podTemplate"]["metadata"]["labels"].items()
    single = {d["metadata"]["name"] for d in documents(rendered, "least", "PodDisruptionBudget")}
    assert not any("-detect-" in name for name in single)


def test_a_change_of_settings_replaces_pods(rendered: dict[str, Document]) -> None:
    def sums(case: str) -> set[str]:
        return {d["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for d in documents(rendered, case, "Deployment")}

    assert len(sums("least")) == 1
    assert sums("least") == sums("kernel-file") != sums("everything")


def test_migration_comes_first(rendered: dict[str, Document]) -> None:
    """Before pods of the new version, at an install and at an upgrade; what it needs is there before it."""
    hooks = [d for d in documents(rendered, "least") if "install" in d["metadata"].get("annotations", {}).get("helm.sh/hook", "")]
    weights = {d["kind"]: int(d["metadata"]["annotations"]["helm.sh/hook-weight"]) for d in hooks}
    assert weights == {"ConfigMap": -10, "Job": 0}
    assert {d["metadata"]["annotations"]["helm.sh/hook"] for d in hooks} == {"pre-install,pre-upgrade"}
    (job,) = documents(rendered, "least", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "default"
    assert pod["containers"][0]["args"][0] == "migrate"


def test_the_job_may_have_an_instance_for_each_partition(rendered: dict[str, Document]) -> None:
    """`migrate` makes as many partitions as the job counts on."""
    (document,) = documents(rendered, "everything", "FlinkDeployment")
    (container,) = document["spec"]["podTemplate"]["spec"]["containers"]
    plan = read_plan([], {entry["name"]: entry.get("value", "{}") for entry in container["env"]})
    assert (plan.flink_parallelism, plan.kafka_partitions) == (CLOCK_KEYS, CLOCK_KEYS) == (document["spec"]["job"]["parallelism"],) * 2
    partitions = {d["data"]["FIRSTFAULT_KAFKA_PARTITIONS"] for d in documents(rendered, "everything", "ConfigMap")}
    assert partitions == {str(CLOCK_KEYS)}


def test_the_flink_job_keeps_its_state(rendered: dict[str, Document]) -> None:
    (least,), (everything,) = (documents(rendered, case, "FlinkDeployment") for case in ("least", "everything"))
    assert least["spec"]["job"]["upgradeMode"] == "savepoint"
    assert everything["spec"]["job"]["upgradeMode"] == "last-state"
    for document, folder in ((least, "file:///state"), (everything, "s3://bucket/firstfault")):
        options = document["spec"]["flinkConfiguration"]
        assert options["high-availability.type"] == "kubernetes"
        for option in ("high-availability.storageDir", "execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"):
            assert options[option].startswith(f"{folder}/")
        assert options["taskmanager.numberOfTaskSlots"] == "1"
    assert everything["spec"]["flinkConfiguration"]["execution.checkpointing.num-retained"] == "5"
    assert documents(rendered, "bare", "FlinkDeployment") == []
    assert "Detection is switched off" in rendered["bare"]["notes"]


def test_the_agent_reads_what_it_is_told_to(rendered: dict[str, Document]) -> None:
    def arguments(case: str) -> list[str]:
        (agent,) = documents(rendered, case, "DaemonSet")
        (container,) = agent["spec"]["template"]["spec"]["containers"]
        return [argument.rsplit("/", 1)[1] for argument in container["args"]]

    assert arguments("everything") == ["node.yaml", "kernel.yaml", "kernel-journald.yaml", "pods.yaml"]
    assert arguments("kernel-file") == ["node.yaml", "kernel.yaml", "kernel-file.yaml", "pods.yaml"]
    assert arguments("bare") == ["node.yaml"]
    for name in arguments("everything") + arguments("kernel-file"):
        assert (ROOT / "deploy" / "collector" / "config" / name).is_file()
    assert documents(rendered, "least", "DaemonSet") == []
