"""Kueue is installed with the least that TrainJobs need, before the tenants whose queues it has."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import yaml

from components.common.ownership import LiveObjects
from components.kueue import custom_resource_definitions
from tests.components.recording import PORTS, Recording, record, service_access, stack_config, start
from tests.components.test_stack import node_names
from tests.settings.test_kueue import SECTION, kueue_config
from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_LABEL
from trainyard.local.cluster.provider import ClusterAccess

ALLOWED = {"TEN-005": {"nodeLabels": ["node.kubernetes.io/instance-type", "kubernetes.io/hostname"]}}
LOCAL_QUEUE = "LocalQueue/vision/training"


def config(**changes: Any) -> dict[str, Any]:
    return {**kueue_config(**changes), "policies": {"parameters": ALLOWED}}


@pytest.fixture(scope="module")
def installed(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    return record(config(waitForPodsReady={"timeoutSeconds": 60}), monkeypatch_module, access=service_access())


def webhooks(recording: Recording, kind: str) -> list[dict[str, Any]]:
    (found,) = [each for each in recording.of(kind) if each.inputs["metadata"]["name"].startswith("kueue-")]
    webhooks: list[dict[str, Any]] = found.inputs["webhooks"]
    return webhooks


def test_a_stack_without_it_declares_nothing_of_it(local: Recording) -> None:
    assert not [name for name in (each.name for each in local.objects) if "kueue" in name.lower()]


def test_queues_follow_flavors_and_the_controller_and_precede_tenants(installed: Recording) -> None:
    before = installed.before(installed.one("ClusterQueue/vision"))
    assert {"ResourceFlavor/h100", "Topology/fabric", "Deployment/kueue-system/kueue-controller-manager"} <= before
    assert {"ClusterQueue/vision", "Namespace/vision"} <= installed.before(installed.one(LOCAL_QUEUE))
    assert installed.one(LOCAL_QUEUE).deleted_with


def test_a_local_queue_is_replaced_with_its_cluster_queue_because_kueue_rejects_the_change(
    installed: Recording,
) -> None:
    replaced = {each.name: each.replaced_for for each in installed.objects if each.replaced_for}
    assert replaced.pop(LOCAL_QUEUE) == ("spec.clusterQueue",)
    assert {name.partition("/")[0] for name in replaced} <= {"ClusterTrainingRuntime"}


def test_a_cluster_queue_serves_the_tenants_of_its_local_queues(installed: Recording) -> None:
    spec = installed.one("ClusterQueue/vision").inputs["spec"]
    assert spec["namespaceSelector"]["matchExpressions"][0]["values"] == ["vision"]
    assert spec["cohortName"] == "research"
    (group,) = spec["resourceGroups"]
    assert group["coveredResources"] == [each["name"] for each in group["flavors"][0]["resources"]]


def test_it_manages_trainjobs_of_these_tenants_only(installed: Recording) -> None:
    text = installed.one("ConfigMap/kueue-system/kueue-manager-config").inputs["data"]
    document = yaml.safe_load(text["controller_manager_config.yaml"])
    assert document["integrations"] == {"frameworks": ["trainer.kubeflow.org/trainjob"]}
    assert document["internalCertManagement"] == {"enable": False}
    assert document["waitForPodsReady"]["timeout"] == document["waitForPodsReady"]["recoveryTimeout"] == "60s"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = webhooks(installed, kind)
        assert {name for each in found for rule in each["rules"] for name in rule["apiGroups"]} == {
            "kueue.x-k8s.io",
            "trainer.kubeflow.org",
        }
        (selector,) = [each["namespaceSelector"] for each in found if each["name"].endswith("trainjob.kb.io")]
        assert selector["matchExpressions"][0] == {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": ["vision"],
        }


def test_it_may_do_what_trainjobs_need_and_no_more(installed: Recording) -> None:
    rules = installed.one("ClusterRole/kueue-manager-role").inputs["rules"]
    verbs = {(rule["apiGroups"][0], rule["resources"][0]): set(rule["verbs"]) for rule in rules}
    assert verbs["jobset.x-k8s.io", "jobsets"] == {"get", "list", "watch"}
    assert "delete" not in verbs["", "pods"]
    assert "update" in verbs["trainer.kubeflow.org", "trainjobs"]
    assert not {"secrets", "jobs", "deployments", "customresourcedefinitions"} & {resource for _, resource in verbs}


def test_without_other_clusters_it_reads_no_secrets(installed: Recording) -> None:
    gates = feature_gates(installed)
    assert gates["MultiKueue"] is False
    assert not [name for name in (each.name for each in installed.objects) if "secrets-role" in name]


def test_finished_pods_keep_their_quota_because_a_restart_starts_them_again(installed: Recording) -> None:
    assert feature_gates(installed)["ReclaimablePods"] is False


def feature_gates(recording: Recording) -> dict[str, bool]:
    file = recording.one("ConfigMap/kueue-system/kueue-manager-config").inputs["data"]
    gates: dict[str, bool] = yaml.safe_load(file["controller_manager_config.yaml"])["featureGates"]
    return gates


@pytest.mark.slow
def test_jobs_of_a_queue_are_sent_to_its_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = {**SECTION["clusterQueues"]["vision"], "multiKueueClusters": ["east"]}
    changed = config(
        clusterQueues={"vision": queue, "other": SECTION["clusterQueues"]["vision"]},
        multiKueue={"clusters": {"east": {}, "west": {"kubeconfigSecret": "to-west"}}, "origin": "here"},
    )
    recording = record(changed, monkeypatch, access=service_access())
    secrets = {name: cluster_secret(recording, name) for name in ("east", "west")}
    assert secrets == {"east": ("Secret", "east"), "west": ("Secret", "to-west")}
    assert recording.one("MultiKueueConfig/vision").inputs["spec"] == {"clusters": ["east"]}
    check = recording.one("AdmissionCheck/vision").inputs["spec"]
    assert check["controllerName"] == "kueue.x-k8s.io/multikueue"
    assert check["parameters"] == {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "vision"}
    strategy = recording.one("ClusterQueue/vision").inputs["spec"]["admissionChecksStrategy"]
    assert strategy == {"admissionChecks": [{"name": "vision"}]}
    assert "admissionChecksStrategy" not in recording.one("ClusterQueue/other").inputs["spec"]
    assert {"AdmissionCheck/vision", "MultiKueueConfig/vision"} <= recording.before(
        recording.one("ClusterQueue/vision")
    )
    file = recording.one("ConfigMap/kueue-system/kueue-manager-config").inputs["data"]
    document = yaml.safe_load(file["controller_manager_config.yaml"])
    assert document["multiKueue"] == {"origin": "here", "workerLostTimeout": "900s"}
    assert document["featureGates"]["MultiKueue"] is True
    (rule,) = recording.one("Role/kueue-system/kueue-manager-secrets-role").inputs["rules"]
    assert (rule["resources"], rule["verbs"]) == (["secrets"], ["get", "list", "watch"])


def cluster_secret(recording: Recording, name: str) -> tuple[str, str]:
    location = recording.one(f"MultiKueueCluster/{name}").inputs["spec"]["clusterSource"]["kubeConfig"]
    return location["locationType"], location["location"]


def test_its_certificate_is_issued_by_the_controller(installed: Recording) -> None:
    file = installed.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
    (issued,) = [each for each in yaml.safe_load(file)["certificates"] if each["namespace"] == "kueue-system"]
    assert issued["secret"] == "kueue-webhook-server-cert"
    assert issued["mutatingWebhookConfigurations"] == ["kueue-mutating-webhook-configuration"]
    assert installed.one("RoleBinding/kueue-system/kubeflow-trainer-controller-manager")


def test_kinds_are_served_in_the_version_that_needs_no_conversion() -> None:
    for definition in custom_resource_definitions("0.16.2"):
        served = {each["name"]: each["storage"] for each in definition["spec"]["versions"] if each["served"]}
        assert served == {"v1beta2": True}
        assert "conversion" not in definition["spec"]


def test_an_existing_one_gets_queues_only(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(config(install="existing"), monkeypatch)
    names = {each.name for each in recording.objects}
    assert {"ClusterQueue/vision", LOCAL_QUEUE} <= names
    assert not {name for name in names if "kueue-system" in name}


@pytest.mark.slow
def test_the_groups_of_a_tenant_may_read_its_queues_and_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = config()
    changed["tenants"]["vision"]["roles"] = {"submit": ["vision-users"]}
    recording = record(changed, monkeypatch, access=ClusterAccess("c", service_access().kubeconfig, None, PORTS))
    (rule,) = recording.one("Role/vision/kueue").inputs["rules"]
    assert (rule["resources"], rule["verbs"]) == (["localqueues", "workloads"], ["get", "list", "watch"])
    assert recording.one("RoleBinding/vision/kueue").inputs["subjects"][0]["name"] == "vision-users"


def test_node_labels_that_a_policy_rejects_are_named_before_anything_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(pulumi.RunError) as raised:
        record(kueue_config(), monkeypatch)
    assert "trainyard:kueue.topologies.fabric.levels" in str(raised.value)
    assert "policies.parameters.TEN-005.nodeLabels" in str(raised.value)
    label = {"h100": {**SECTION["flavors"]["h100"], "nodeLabels": {"example.com/pool": "a"}}}
    with pytest.raises(pulumi.RunError, match=r"flavors\.h100\.nodeLabels\[example\.com/pool\]"):
        record(config(flavors=label), monkeypatch)


def test_tolerations_that_a_policy_rejects_are_named_before_anything_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "example.com/team", "value": "vision"}]
    flavor = {"h100": {**SECTION["flavors"]["h100"], "tolerations": tolerations}}
    with pytest.raises(pulumi.RunError) as raised:
        record(config(flavors=flavor), monkeypatch)
    message = str(raised.value)
    assert "trainyard:kueue.flavors.h100.tolerations[1]: rule TEN-005 rejects pods that tolerate" in message
    assert "add example.com/team to trainyard:policies.parameters.TEN-005.taints" in message
    assert "tolerations[0]" not in message


def test_it_is_not_removed_while_it_holds_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "workloads.kueue.x-k8s.io")
    held, finished = (("kueue.x-k8s.io/v1beta2", "Workload", "vision", name) for name in ("held", "finished"))
    workloads: dict[Any, Any] = {held: {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}, finished: {}}
    ours = {definition: {"labels": {STACK_LABEL: "local"}}}
    nodes = {("v1", "Node", "", name): {} for name in node_names()}

    def run(live: dict[Any, Any], **changes: Any) -> None:
        found = LiveObjects({**nodes, **live})
        record(stack_config(**changes), monkeypatch, access=service_access(), live=found, program=start)

    run({**ours, finished: {}})
    run({definition: {}, **workloads}, kueue={"install": "existing"})
    run({definition: {**ours[definition], "annotations": {ADOPTED_ANNOTATION: "true"}}, **workloads})
    for changes in ({}, {"kueue": {"install": "existing"}}):
        with pytest.raises(pulumi.RunError) as raised:
            run({**ours, **workloads}, **changes)
        assert "trainyard:kueue.install: one Workload (vision/held) cannot be deleted" in str(raised.value)
