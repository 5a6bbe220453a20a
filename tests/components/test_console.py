"""The console in the cluster: permissions, certificate, pods, and that it is off by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.components.recording import Recording, record, service_access, stack_config
from trainyard.errors import TrainyardError
from trainyard.local.cluster.ports import PORT_NAMES, slot_ports
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.local.cluster.supervisor.host_programs.base import RunContext
from trainyard.settings.stack_loader import parse_stack

NAME = "trainyard-console"
HOSTS = ["console.example.com"]


@pytest.fixture(scope="module")
def installed(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    return record(
        stack_config(console={"install": True, "hosts": HOSTS, "sessions": 3}),
        monkeypatch_module,
        access=service_access(),
    )


def issued(recording: Recording) -> list[dict[str, Any]]:
    file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
    return [each for each in yaml.safe_load(file)["certificates"] if each["namespace"] == NAME]


def deployment(recording: Recording) -> dict[str, Any]:
    return dict(recording.one(f"Deployment/{NAME}/{NAME}").inputs)


def test_it_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(stack_config(console={}), monkeypatch, access=service_access())
    assert not [each.name for each in recording.objects if NAME in each.name]
    assert not issued(recording)


def test_it_has_no_permission(installed: Recording) -> None:
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAME}
    kinds = ("RoleBinding", "ClusterRoleBinding")
    assert not [each.name for kind in kinds for each in installed.of(kind) if account in each.inputs["subjects"]]
    assert not [each.name for each in installed.of("ClusterRole") if NAME in each.name]


def test_the_controller_issues_its_certificate_for_its_names(installed: Recording, local: Recording) -> None:
    (found,) = issued(installed)
    host = f"{NAME}.{NAME}.svc"
    assert found == {
        "secret": f"{NAME}-cert",
        "namespace": NAME,
        "dnsNames": [host, f"{host}.cluster.local", *HOSTS, "localhost"],
    }
    assert issued(local)[0]["ipAddresses"] == ["127.0.0.1"]
    (role,) = [each for each in installed.of("Role") if each.inputs["metadata"]["namespace"] == NAME]
    (rule,) = role.inputs["rules"]
    assert (rule["resources"], rule["resourceNames"]) == (["secrets"], [f"{NAME}-cert"])


def test_it_serves_tls_to_the_names_and_reads_the_namespaces_of_the_settings(installed: Recording) -> None:
    spec = deployment(installed)["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "RollingUpdate")
    (container,) = spec["template"]["spec"]["containers"]
    hosts = [each.partition("=")[2] for each in container["args"] if each.startswith("--host=")]
    assert hosts == [f"{NAME}.{NAME}.svc", f"{NAME}.{NAME}.svc.cluster.local", *HOSTS]
    read = [each.partition("=")[2] for each in container["args"] if each.startswith("--namespace=")]
    assert read == ["language", "vision"]
    assert "--sessions=3" in container["args"]
    assert {each["httpGet"]["scheme"] for each in (container["readinessProbe"], container["livenessProbe"])} == {
        "HTTPS"
    }
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}} in spec["template"]["spec"]["volumes"]
    address = installed.one(f"Service/{NAME}/{NAME}").inputs["spec"]
    assert address["sessionAffinity"] == "ClientIP"  # a viewer is read by one replica
    (port,) = address["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    namespace = installed.one(f"Namespace/{NAME}").inputs["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"
    assert installed.one(f"PodDisruptionBudget/{NAME}/{NAME}")


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-node-lease", "volcano-system", "vision"])
def test_a_namespace_of_others_is_rejected(namespace: str) -> None:
    config = stack_config(console={"install": True, "namespace": namespace})
    with pytest.raises(TrainyardError) as caught:
        parse_stack(config, source="test")
    path = "tenants.vision" if namespace == "vision" else "console.namespace"
    assert [each.path for each in caught.value.findings] == [f"trainyard:{path}"]


def test_a_console_that_is_not_installed_needs_no_namespace() -> None:
    parse_stack(stack_config(console={"namespace": "default"}), source="test")


def test_it_may_have_replicas_which_share_the_key_of_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    config = stack_config(console={"install": True}, pods={"programs": {NAME: {"replicas": 2}}})
    spec = deployment(record(config, monkeypatch, access=service_access()))["spec"]
    assert spec["replicas"] == 2
    secrets = [each["secret"]["secretName"] for each in spec["template"]["spec"]["volumes"] if "secret" in each]
    assert secrets == [f"{NAME}-cert"]


def test_the_embedded_cluster_runs_it_as_a_program_of_this_machine(local: Recording) -> None:
    ports = slot_ports({use: 20000 + position for position, use in enumerate(PORT_NAMES)}, 0)
    context = RunContext(Path(), NAME, Path("/p/kubeconfig"), Path("/p"), ports)
    (container,) = deployment(local)["spec"]["template"]["spec"]["containers"]
    arguments = [*container["command"], *container["args"]]
    _, *command = HOST_PROGRAMS[NAME].command(context, arguments)
    assert command[:4] == ["-m", "trainyard", "console", "serve"]
    assert command[-3:] == ["--kubeconfig=/p/kubeconfig", "--listen=127.0.0.1", f"--port={ports[f'{NAME}/https']}"]
    assert f"{NAME}/https" in PORT_NAMES
    assert HOST_PROGRAMS[NAME].optional


def test_scenarios_are_mounted_from_a_config_map_that_may_be_created_later(monkeypatch: pytest.MonkeyPatch) -> None:
    config = stack_config(console={"install": True, "scenarios": "reports"})
    spec = deployment(record(config, monkeypatch, access=service_access()))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "--scenarios=/etc/trainyard-console-scenarios" in container["args"]
    (volume,) = [each for each in spec["volumes"] if each.get("configMap", {}).get("name") == "reports"]
    assert volume["configMap"]["optional"] is True
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert mounted["/etc/trainyard-console-scenarios"] == volume["name"]


def test_without_the_setting_nothing_is_mounted(installed: Recording) -> None:
    (container,) = deployment(installed)["spec"]["template"]["spec"]["containers"]
    assert not [each for each in container["args"] if each.startswith("--scenarios")]
