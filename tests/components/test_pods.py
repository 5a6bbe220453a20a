"""Pods of the platform's own programs: every Deployment follows the settings, and has a PodDisruptionBudget."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.common.pod_settings import KLOG, OPA_LOG, ContainerProgram, PodTable
from tests.components.recording import Recording, record, service_access, stack_config
from trainyard.local.cluster.ports import PORT_NAMES, slot_ports
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.local.cluster.supervisor.host_programs.base import RunContext
from trainyard.settings.pods import LogLevel, PlatformPodSettings

KUEUE = {"install": True}
LOG_LEVEL = "--log-level"
PROGRAMS = (
    *("vc-webhook-manager", "vc-controller-manager", "vc-scheduler", "jobset", "kueue", "trainyard-controller", "opa"),
    "trainyard-console",
)
TOLERATIONS = [{"key": "dedicated", "operator": "Equal", "value": "platform", "effect": "NoSchedule"}]
POOL = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]
AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": POOL}},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]},
}
EVERYTHING = {
    "priorityClass": "platform-critical",
    "priorityClassQuota": True,
    "tolerations": TOLERATIONS,
    "nodeSelector": {"pool": "system"},
    "affinity": AFFINITY,
    "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "resources": {"limits": {"cpu": "4"}},
    "imagePullSecrets": ["registry"],
    "logLevel": "debug",
    "programs": {
        "vc-scheduler": {
            "replicas": 3,
            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "16Gi"}},
        },
        "opa": {"logLevel": "info", "resources": {"limits": {"cpu": "1"}}},
        "jobset": {"tolerations": [], "priorityClass": "system-cluster-critical", "affinity": {}},
    },
}

Body = dict[str, Any]


def recorded(patch: pytest.MonkeyPatch, **changes: Any) -> Recording:
    config = stack_config(cluster={"provider": "existing", "context": "prod"}, **changes)
    return record(config, patch, access=service_access(), stack="prod")


@pytest.fixture(scope="module")
def everything(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    return recorded(monkeypatch_module, kueue=KUEUE, pods=EVERYTHING)


@pytest.fixture(scope="module")
def plain(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    return recorded(monkeypatch_module, kueue=KUEUE)


def deployments(recording: Recording) -> list[Body]:
    """Return every Deployment of every component."""
    return [dict(each.inputs) for each in recording.of("Deployment")]


def containers(recording: Recording) -> dict[str, Body]:
    return {
        container["name"]: container
        for body in deployments(recording)
        for container in body["spec"]["template"]["spec"]["containers"]
    }


def pod(recording: Recording, program: str) -> Body:
    pods = (body["spec"]["template"]["spec"] for body in deployments(recording))
    return next(each for each in pods if each["containers"][0]["name"] == program)


def address(body: Body) -> tuple[str, str]:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def test_every_deployment_is_covered(everything: Recording) -> None:
    assert sorted(containers(everything)) == sorted(PROGRAMS)
    for kind in ("StatefulSet", "DaemonSet", "Pod", "Job"):
        assert not everything.of(kind)


def test_every_deployment_follows_every_setting(everything: Recording) -> None:
    for body in deployments(everything):
        spec = body["spec"]["template"]["spec"]
        if spec["containers"][0]["name"] == "jobset":
            continue
        assert spec["priorityClassName"] == "platform-critical"
        assert spec["tolerations"] == TOLERATIONS
        assert spec["affinity"]["nodeAffinity"] == AFFINITY["nodeAffinity"]
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["nodeSelector"] == {"pool": "system"}


def test_spread_and_affinity_select_the_pods_of_the_program(everything: Recording) -> None:
    for body in deployments(everything):
        spec, selector = body["spec"]["template"]["spec"], body["spec"]["selector"]
        (spread,) = spec["topologySpreadConstraints"]
        assert spread == {
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
            "matchLabelKeys": ["pod-template-hash"],
        }
        for part in spec.get("affinity", {}).get("podAntiAffinity", {}).values():
            own = {"labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}
            assert part == [{"topologyKey": "kubernetes.io/hostname", **own}]


def test_a_program_overrides_and_an_empty_value_removes(everything: Recording) -> None:
    spec = pod(everything, "jobset")
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert "tolerations" not in spec
    assert "affinity" not in spec
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


def test_resources_are_merged_by_name(everything: Recording, plain: Recording) -> None:
    before, after = containers(plain), containers(everything)
    assert after["vc-scheduler"]["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"cpu": "4", "memory": "16Gi"},
    }
    assert after["opa"]["resources"]["limits"]["cpu"] == "1"
    for program in PROGRAMS:
        assert after[program]["resources"]["limits"]["cpu"] == ("1" if program == "opa" else "4")
        if program != "vc-scheduler":
            assert after[program]["resources"]["requests"] == before[program]["resources"]["requests"]


def test_every_program_gets_its_own_log_flag_once(everything: Recording) -> None:
    flags = {
        **dict.fromkeys(("vc-webhook-manager", "vc-controller-manager", "vc-scheduler"), "-v=5"),
        **dict.fromkeys(("jobset", "kueue"), "--zap-log-level=5"),
        **dict.fromkeys(("trainyard-controller", "trainyard-console"), "--log-level=debug"),
        "opa": "--log-level=info",
    }
    for program, container in containers(everything).items():
        name = flags[program].partition("=")[0]
        assert [each for each in container["args"] if each.partition("=")[0] == name] == [flags[program]]


def test_the_embedded_cluster_starts_programs_with_the_changed_arguments(everything: Recording) -> None:
    ports = slot_ports({use: 20000 + position for position, use in enumerate(PORT_NAMES)}, 0)
    context = RunContext(Path("/bin/program"), "some-system", Path("/p/kubeconfig"), Path("/p"), ports)
    for program, container in containers(everything).items():
        command = HOST_PROGRAMS[program].command(context, [*container["command"], *container["args"]])
        (flag,) = (each for each in container["args"] if each.partition("=")[0] in ("-v", "--zap-log-level", LOG_LEVEL))
        assert command.count(flag) == 1


def test_without_settings_only_the_budgets_are_added(local: Recording) -> None:
    for body in deployments(local):
        spec = body["spec"]["template"]["spec"]
        assert spec["priorityClassName"] == "system-cluster-critical"
        assert spec["nodeSelector"] == {"trainyard.dev/platform": "true"}
        assert not {"tolerations", "affinity", "imagePullSecrets"} & spec.keys()
    assert containers(local)["vc-scheduler"]["args"][-1] == "-v=2"
    assert not [each for each in local.of("ResourceQuota") if each.inputs["metadata"]["namespace"].endswith("-system")]


def test_replicas_of_a_program_decide_on_its_leader_election(everything: Recording) -> None:
    by_name = {body["metadata"]["name"]: body["spec"] for body in deployments(everything)}
    assert by_name["volcano-scheduler"]["replicas"] == 3
    assert by_name["volcano-scheduler"]["strategy"]["type"] == "RollingUpdate"
    assert by_name["volcano-controllers"]["replicas"] == 1
    assert by_name["volcano-controllers"]["strategy"]["type"] == "Recreate"
    assert "--leader-elect=true" in containers(everything)["vc-scheduler"]["args"]
    assert "--leader-elect=false" in containers(everything)["vc-controller-manager"]["args"]


@pytest.mark.parametrize("stack", ["plain", "everything", "local"])
def test_every_deployment_has_a_budget_that_never_blocks_a_drain(stack: str, request: pytest.FixtureRequest) -> None:
    recording: Recording = request.getfixturevalue(stack)
    budgets = {address(dict(each.inputs)): each.inputs["spec"] for each in recording.of("PodDisruptionBudget")}
    assert budgets == {
        address(body): {
            "maxUnavailable": 1,
            "selector": body["spec"]["selector"],
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
        for body in deployments(recording)
    }


def test_a_quota_permits_the_priority_class_before_the_pods_need_it(everything: Recording) -> None:
    quotas = {address(dict(each.inputs)): each for each in everything.of("ResourceQuota")}
    for each in everything.of("Deployment"):
        quota = quotas[address(dict(each.inputs))]
        (scope,) = quota.inputs["spec"]["scopeSelector"]["matchExpressions"]
        name = each.inputs["spec"]["template"]["spec"]["priorityClassName"]
        assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
        assert quota.name in everything.before(each)


def rejected(patch: pytest.MonkeyPatch, **pods: Any) -> str:
    with pytest.raises(pulumi.RunError) as caught:
        recorded(patch, pods=pods)
    return str(caught.value)


def test_unknown_and_uninstalled_programs_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    message = rejected(monkeypatch, programs={"scheduler": {"replicas": 2}, "kueue": {"replicas": 2}})
    assert "trainyard:pods.programs.scheduler: unknown program" in message
    assert "use one of vc-scheduler, vc-controller-manager" in message
    assert "trainyard:pods.programs.kueue: kueue is not installed by this stack" in message


def test_the_policy_server_has_no_pods_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    message = rejected(monkeypatch, programs={"opa": {"replicas": 3, "tolerations": [], "logLevel": "debug"}})
    assert "trainyard:pods.programs.opa.replicas: opa runs in the pods of trainyard-controller" in message
    assert "set it under pods.programs.trainyard-controller" in message
    assert "trainyard:pods.programs.opa.tolerations" in message
    assert "logLevel" not in message


def test_a_limit_below_a_default_request_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    message = rejected(monkeypatch, programs={"opa": {"resources": {"limits": {"memory": "32Mi"}}}})
    assert "trainyard:pods.programs.opa.resources: the limit 32Mi of memory of opa is below the request 64Mi" in message
    assert "raise limits.memory, or lower requests.memory" in message
    message = rejected(monkeypatch, resources={"limits": {"cpu": "200m"}})
    assert "trainyard:pods.resources: the limit 200m of cpu of" in message


UPSTREAM = {
    "metadata": {"name": "manager", "namespace": "upstream"},
    "spec": {
        "selector": {"matchLabels": {"app": "manager"}},
        "template": {
            "spec": {
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "args": ["--leader-elect", "--v=1"]}, {"name": "proxy"}],
            }
        },
    },
}


def test_a_deployment_of_an_upstream_manifest_follows_the_settings() -> None:
    settings = PlatformPodSettings.model_validate(
        {"nodeSelector": {"pool": "system"}, "tolerations": [], "logLevel": "error", "programs": {"x": {"replicas": 2}}}
    )
    original = copy.deepcopy(UPSTREAM)
    programs = {"main": ContainerProgram("x", KLOG), "proxy": ContainerProgram("x-proxy")}
    spec = PodTable(settings).applied(UPSTREAM, programs)["spec"]
    assert original == UPSTREAM
    assert spec["replicas"] == 2
    inner = spec["template"]["spec"]
    assert inner["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert "tolerations" not in inner
    assert inner["containers"] == [{"name": "main", "args": ["--leader-elect", "--v=0"]}, {"name": "proxy"}]


def test_a_log_flag_is_replaced_in_its_place_or_added() -> None:
    assert KLOG.applied(["-v=2", "--vmodule=x"], LogLevel.DEBUG) == ["-v=5", "--vmodule=x"]
    assert OPA_LOG.applied(["run"], LogLevel.ERROR) == ["run", "--log-level=error"]
