"""Tenants: limits, roles, and permissions that no role has."""

from __future__ import annotations

import itertools

import pytest

from components.tenants import role_rules
from tests.components.recording import Recording, record, stack_config
from trainyard.insight.usage.record import HEAD, names_of
from trainyard.policy.engines.vap.facts import platform_facts, policy_facts_in, tenant_facts
from trainyard.settings.tenancy import Role, TenantSettings


@pytest.fixture(scope="module")
def with_groups(monkeypatch_module) -> Recording:
    config = stack_config()
    config["tenants"]["vision"]["roles"] = {"submit": ["vision-users"], "raw": ["vision-admins"]}
    return record(config, monkeypatch_module)


def test_no_pod_of_a_tenant_has_affinity_to_other_namespaces(local: Recording) -> None:
    spec = local.one("ResourceQuota/vision/cross-namespace-affinity").inputs["spec"]
    assert spec["hard"] == {"pods": "0"}
    (scope,) = spec["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}


def test_a_namespace_names_its_default_queue_and_its_pod_security(local: Recording) -> None:
    metadata = local.one("Namespace/vision").inputs["metadata"]
    assert metadata["annotations"]["scheduling.volcano.sh/queue-name"] == "vision"
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert metadata["labels"]["trainyard.dev/tenant"] == "vision"


def test_a_tenant_policy_says_what_the_settings_say(local: Recording) -> None:
    spec = local.one("TenantPolicy/language/tenant").inputs["spec"]
    assert spec["queues"] == ["language"]
    assert spec["defaultQueue"] == "language"
    assert spec["maxAcceleratorsPerJob"] == 32
    assert "maxAcceleratorsPerJob" not in local.one("TenantPolicy/vision/tenant").inputs["spec"]


def test_a_namespace_says_what_its_tenant_policy_says(local: Recording) -> None:
    for tenant in ("vision", "language"):
        annotations = local.one(f"Namespace/{tenant}").inputs["metadata"]["annotations"]
        said = local.one(f"TenantPolicy/{tenant}/tenant").inputs["spec"]
        assert policy_facts_in(annotations) == tenant_facts(said)
        assert annotations["pulumi.com/patchForce"] == "true"


def test_policies_come_after_what_they_read_of_the_platform(local: Recording) -> None:
    said = local.one("NamespacePatch/kube-system")
    assert said.type == "kubernetes:core/v1:NamespacePatch"
    spec = local.one("Platform/platform").inputs["spec"]
    assert policy_facts_in(said.inputs["metadata"]["annotations"]) == platform_facts(spec)
    for policy in local.of("ValidatingAdmissionPolicy"):
        assert "NamespacePatch/kube-system" in local.before(policy)


def test_the_raw_role_exists_only_where_a_group_has_it(local: Recording, with_groups: Recording) -> None:
    assert "Role/vision/raw" not in {each.name for each in local.of("Role")}
    assert with_groups.one("RoleBinding/vision/raw").inputs["subjects"][0]["name"] == "vision-admins"
    assert "Role/language/raw" not in {each.name for each in with_groups.of("Role")}


def test_pods_of_a_tenant_reach_each_other_and_what_the_settings_name(monkeypatch_module) -> None:
    config = stack_config()
    config["networkPolicies"] = {"tenants": True, "fromNamespaces": ["gateway"], "egressTo": ["10.20.0.0/16"]}
    config["trainer"]["progressReports"] = True
    spec = record(config, monkeypatch_module).one("NetworkPolicy/vision/tenant").inputs["spec"]
    own = {"podSelector": {}}

    def namespace(name: str) -> dict[str, object]:
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}

    assert spec == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [own, namespace("gateway")]}],
        "egress": [
            {"to": [own, {"ipBlock": {"cidr": "10.20.0.0/16"}}]},
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"to": [namespace("kubeflow-system")], "ports": [{"port": 9443, "protocol": "TCP"}]},
        ],
    }


def test_connections_to_other_addresses_are_not_limited_by_default(monkeypatch_module, local: Recording) -> None:
    config = stack_config()
    config["networkPolicies"] = {"tenants": True}
    spec = record(config, monkeypatch_module).one("NetworkPolicy/vision/tenant").inputs["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
    assert local.of("NetworkPolicy") == []


@pytest.mark.slow
@pytest.mark.parametrize("readers", [["monitoring"], []])
def test_metrics_without_a_login_are_for_the_namespaces_that_the_settings_name(
    monkeypatch_module, readers: list[str]
) -> None:
    config = stack_config()
    config["networkPolicies"] = {"metricsFrom": readers}
    recorded = record(config, monkeypatch_module)
    found = {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in recorded.of("NetworkPolicy")}
    trainer = "kubeflow-trainer-controller-manager"
    programs = {
        "volcano-system/volcano-scheduler": ([], [8080]),
        "volcano-system/volcano-controllers": ([], [8081]),
        f"kubeflow-system/{trainer}": ([9443], [8443]),
    }
    assert set(found) == {program.partition("/")[2] for program in programs}
    for program, (webhooks, metrics) in programs.items():
        selector = recorded.one(f"Deployment/{program}").inputs["spec"]["selector"]
        peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in readers]
        allowed = [{"ports": [{"port": port, "protocol": "TCP"} for port in webhooks]}] if webhooks else []
        if peers:
            allowed.append({"from": peers, "ports": [{"port": port, "protocol": "TCP"} for port in metrics]})
        name = program.partition("/")[2]
        assert found[name] == {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": allowed}


@pytest.mark.slow
@pytest.mark.parametrize("reports", [True, False])
def test_webhooks_are_for_the_blocks_of_the_api_servers_and_progress_reports_for_tenants(
    monkeypatch_module, reports: bool
) -> None:
    config = stack_config()
    config["networkPolicies"] = {"webhooksFrom": ["10.0.0.0/28", "fd00::/120"]}
    config["trainer"]["progressReports"] = reports
    recorded = record(config, monkeypatch_module)
    found = {each.inputs["metadata"]["name"]: each.inputs["spec"]["ingress"] for each in recorded.of("NetworkPolicy")}
    assert set(found) == {"kubeflow-trainer-controller-manager", "volcano-admission", "jobset-controller-manager"}
    callers = [
        {"ipBlock": {"cidr": "10.0.0.0/28"}},
        {"ipBlock": {"cidr": "fd00::/120"}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
    ]
    tenants = {"namespaceSelector": {"matchExpressions": [{"key": "trainyard.dev/tenant", "operator": "Exists"}]}}
    for name, ingress in found.items():
        webhooks, *metrics = ingress
        own = [tenants] if reports and name.startswith("kubeflow-trainer") else []
        assert webhooks["from"] == [*callers, *own]
        assert [set(each) for each in metrics] == [{"ports"}] * len(metrics)  # metrics stay as they are: for all


def test_every_group_with_a_role_may_read_the_catalog(with_groups: Recording) -> None:
    subjects = with_groups.one("ClusterRoleBinding/trainyard-catalogue").inputs["subjects"]
    assert [subject["name"] for subject in subjects] == ["vision-admins", "vision-users"]


def test_the_groups_of_a_tenant_read_its_part_of_the_record_of_usage(with_groups: Recording) -> None:
    role = with_groups.one("Role/kubeflow-system/trainyard-usage-vision").inputs
    (rule,) = role["rules"]
    assert rule["verbs"] == ["get"]
    assert set(rule["resourceNames"]) == {HEAD, *names_of(""), *names_of("vision")}
    binding = with_groups.one("RoleBinding/kubeflow-system/trainyard-usage-vision").inputs
    assert [subject["name"] for subject in binding["subjects"]] == ["vision-admins", "vision-users"]
    assert "Role/kubeflow-system/trainyard-usage-language" not in {each.name for each in with_groups.of("Role")}


def test_by_default_usage_is_not_recorded_and_no_pod_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    config = stack_config(trainer={"progressReports": True})
    config["tenants"]["vision"]["roles"] = {"submit": ["vision-users"]}
    found = record(config, monkeypatch)
    assert not [each.name for each in found.of("Role") if HEAD in each.name], "it is off by default"
    rules = found.one("ClusterRole/kubeflow-trainer-controller-manager").inputs["rules"]
    assert not [rule for rule in rules if "pods" in rule["resources"]]


@pytest.mark.parametrize("role", list(Role))
def test_no_role_may_write_what_the_platform_trusts(role: Role) -> None:
    trusted = {
        "namespaces",
        "commands",
        "queues",
        "tenantpolicies",
        "platforms",
        "hypernodes",
    }
    for rule in role_rules(role):
        if set(rule["verbs"]) - {"get", "list", "watch"}:
            assert not trusted & set(rule["resources"])
            assert rule["apiGroups"][0] not in {
                "admissionregistration.k8s.io",
                "rbac.authorization.k8s.io",
                "trainyard.dev",
            }
        assert "*" not in rule["resources"]


def test_only_the_role_raw_writes_pod_groups() -> None:
    writing = {
        role
        for role in Role
        for rule in role_rules(role)
        if "podgroups" in rule["resources"] and set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert writing == {Role.RAW}, "GNG-005 lets its pods join a PodGroup that users made"


@pytest.mark.parametrize("role", list(Role))
def test_no_role_has_what_only_rbac_protects(role: Role) -> None:
    unprotected = {"deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers", "cronjobs"}
    unprotected |= {"jobflows", "jobtemplates", "services", "limitranges", "serviceaccounts", "roles", "rolebindings"}
    for rule in role_rules(role):
        assert not {"*", "impersonate", "bind", "escalate"} & set(rule["verbs"])
        if set(rule["verbs"]) - {"get", "list", "watch"}:
            assert not unprotected & set(rule["resources"])
            assert not any("/" in name for name in rule["resources"])


@pytest.mark.parametrize("role", list(Role))
def test_every_role_writes_the_inputs_of_its_jobs(role: Role) -> None:
    written = {name for rule in role_rules(role) if "create" in rule["verbs"] for name in rule["resources"]}
    assert {"configmaps", "secrets", "persistentvolumeclaims"} <= written


def test_quota_counts_every_kind_that_a_role_creates() -> None:
    counted = set(TenantSettings(queues=("a",)).object_quota)
    for role in Role:
        for rule in role_rules(role):
            if "create" not in rule["verbs"]:
                continue
            for group, name in itertools.product(rule["apiGroups"], rule["resources"]):
                assert {f"count/{name}.{group}" if group else f"count/{name}", name} & counted, f"{name}.{group}"


def test_quota_bounds_counts_and_leaves_compute_to_the_queue(local: Recording) -> None:
    hard = local.one("ResourceQuota/vision/tenant").inputs["spec"]["hard"]
    assert not any(key.startswith(("requests.", "limits.", "cpu", "memory")) for key in hard)
