"""The trainer: replicas, how they stop, the priority of their requests, and which Secrets they may touch."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.components.recording import Recording, embedded_access, record, stack_config
from trainyard.local.cluster.provider import WebhookClient

NAME = "kubeflow-trainer-controller-manager"
DEPLOYMENT = f"Deployment/kubeflow-system/{NAME}"
SCHEDULER = "scheduler-plugins-scheduler"
PEM = "-----BEGIN CERTIFICATE-----"
ACCOUNT = {"kind": "ServiceAccount", "name": NAME, "namespace": "kubeflow-system"}


def pod(recording: Recording) -> dict[str, Any]:
    found: dict[str, Any] = recording.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    return found


def test_two_replicas_are_the_default_and_prefer_different_nodes(local: Recording) -> None:
    deployment = local.one(DEPLOYMENT).inputs["spec"]
    assert deployment["replicas"] == 2
    (spread,) = pod(local)["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert spread["labelSelector"] == deployment["selector"]
    single = local.one("Deployment/volcano-system/volcano-scheduler").inputs["spec"]["template"]["spec"]
    assert "topologySpreadConstraints" not in single


@pytest.fixture(scope="module")
def changed(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    """The local stack with a longer delay, a scheduler of coscheduling gangs, and no check of its objects."""
    trainer = {"shutdownDelaySeconds": 20, "coschedulingScheduler": SCHEDULER}
    return record(stack_config(trainer=trainer, policies={"preview": False}), monkeypatch_module)


def test_a_setting_that_only_the_command_line_reads_is_no_roll_out(local: Recording, changed: Recording) -> None:
    files = [
        yaml.safe_load(each.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"])
        for each in (local, changed)
    ]
    settings = [file["policy"]["settings"] for file in files]
    assert settings[0] == settings[1]


def test_a_replica_is_killed_only_after_the_time_that_it_stops_in(local: Recording, changed: Recording) -> None:
    for recording, delay in ((local, 8), (changed, 20)):
        file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
        assert yaml.safe_load(file).get("shutdownDelaySeconds", 8) == delay
        _, policy_server = pod(recording)["containers"]
        assert f"--shutdown-wait-period={delay + 10}" in policy_server["args"]
        assert pod(recording)["terminationGracePeriodSeconds"] == delay + 15


def test_the_scheduler_of_coscheduling_gangs_is_unset_unless_the_stack_names_it(
    local: Recording, changed: Recording
) -> None:
    for recording, expected in ((local, None), (changed, SCHEDULER)):
        file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
        assert yaml.safe_load(file).get("coschedulingScheduler") == expected


def test_webhooks_know_the_api_servers_of_the_settings_or_else_those_of_the_provider(
    local: Recording, monkeypatch_module: pytest.MonkeyPatch
) -> None:
    chosen = {"authority": f"{PEM}\nchosen", "names": ["kube-apiserver"]}
    shown = WebhookClient(f"{PEM}\nown", "webhook-client", ("127.0.0.1:20003",))
    own = replace(embedded_access(), webhook_client=shown)
    elsewhere = replace(own, webhook_client=replace(shown, hosts=("127.0.0.1:1",)))
    quiet = {"policies": {"preview": False}}
    recorded = {
        "none": local,
        "own": record(stack_config(**quiet), monkeypatch_module, access=own),
        "elsewhere": record(stack_config(**quiet), monkeypatch_module, access=elsewhere),
        "chosen": record(stack_config(trainer={"webhookClients": chosen}, **quiet), monkeypatch_module, access=own),
    }
    found = {}
    for name, recording in recorded.items():
        file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
        found[name] = yaml.safe_load(file).get("webhookClients")
    assert found == {
        "none": None,
        "elsewhere": None,
        "own": {"authority": f"{PEM}\nown", "names": ["webhook-client"]},
        "chosen": chosen,
    }


def test_the_lease_has_a_priority_level_of_its_own_and_no_burst_of_others_delays_the_controller(
    local: Recording,
) -> None:
    schemas = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in local.of("FlowSchema")}
    levels = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in local.of("PriorityLevelConfiguration")}
    assert schemas.keys() == levels.keys() == {"trainyard-leader-election", "trainyard-controller"}
    for name, schema in schemas.items():
        assert schema["priorityLevelConfiguration"] == {"name": name}
        assert [rule["subjects"] for rule in schema["rules"]] == [
            [{"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": "kubeflow-system"}}]
        ]
        assert f"PriorityLevelConfiguration/{name}" in local.before(local.one(f"FlowSchema/{name}"))
        assert f"FlowSchema/{name}" in local.before(local.one(DEPLOYMENT))
    lease, rest = schemas["trainyard-leader-election"], schemas["trainyard-controller"]
    assert lease["matchingPrecedence"] < rest["matchingPrecedence"] < 9000
    (rule,) = lease["rules"][0]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"], rule["namespaces"]) == (
        ["coordination.k8s.io"],
        ["leases"],
        ["kubeflow-system"],
    )
    assert levels["trainyard-leader-election"]["limited"]["lendablePercent"] == 0
    for level in levels.values():
        queuing = level["limited"]["limitResponse"]["queuing"]
        assert queuing["handSize"] <= queuing["queues"]


def test_the_controller_may_touch_secrets_by_name_or_where_a_tenant_grants_it(local: Recording) -> None:
    """No rule that is bound in the whole cluster names Secrets, not even by a pattern."""
    roles = {each.inputs["metadata"]["name"]: each.inputs["rules"] for each in local.of("ClusterRole")}
    for each in local.of("ClusterRoleBinding"):
        if ACCOUNT in each.inputs["subjects"]:
            for rule in roles[each.inputs["roleRef"]["name"]]:
                assert not any(fnmatch.fnmatch("secrets", pattern) for pattern in rule["resources"]), rule
    bindings = [each.inputs for each in local.of("RoleBinding") if ACCOUNT in each.inputs["subjects"]]
    granted = [each["metadata"]["namespace"] for each in bindings if each["roleRef"]["kind"] == "ClusterRole"]
    assert sorted(granted) == ["language", "vision"]
    assert {each["roleRef"]["name"] for each in bindings if each["roleRef"]["kind"] == "ClusterRole"} == {
        "kubeflow-trainer-job-keys"
    }
    for tenant in granted:
        binding = local.one(f"RoleBinding/{tenant}/kubeflow-trainer-job-keys")
        assert "ClusterRole/kubeflow-trainer-job-keys" in local.before(binding)
    assert roles["kubeflow-trainer-job-keys"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]}
    ]
    for each in local.of("Role"):
        if each.inputs["metadata"]["name"] == NAME:
            rules = [rule for rule in each.inputs["rules"] if "secrets" in rule["resources"]]
            assert all(rule["resourceNames"] for rule in rules)


def test_the_controller_may_patch_one_deployment_and_delete_or_create_none(local: Recording) -> None:
    """To restart Volcano's webhook manager, which reads its certificate only at its start."""
    roles = {
        (kind, each.inputs["metadata"].get("namespace", ""), each.inputs["metadata"]["name"]): each.inputs["rules"]
        for kind in ("Role", "ClusterRole")
        for each in local.of(kind)
    }
    granted = []
    for each in (*local.of("RoleBinding"), *local.of("ClusterRoleBinding")):
        if ACCOUNT in each.inputs["subjects"]:
            reference, namespace = each.inputs["roleRef"], each.inputs["metadata"].get("namespace", "")
            key = (reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"])
            granted += [(namespace, rule) for rule in roles.get(key, ()) if set(rule["apiGroups"]) & {"apps", "*"}]
    assert granted == [
        (
            "volcano-system",
            {
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "verbs": ["get", "patch"],
                "resourceNames": ["volcano-admission"],
            },
        )
    ]


def test_a_foreign_trainer_is_granted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    existing = {"install": "existing"}
    recording = record(stack_config(trainer=existing, volcano=existing, jobset=existing, console={}), monkeypatch)
    assert not [each for each in recording.of("RoleBinding") if ACCOUNT in each.inputs["subjects"]]
    assert not recording.of("FlowSchema")
