"""What every object of a stack has in common, and what differs between clusters."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from components import volcano
from components.common.objects import declare
from components.jobset import custom_resource_definition
from components.registry import cluster_kinds, image_repositories, namespaced_kinds
from tests.components.recording import PORTS, Recording
from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import verify_bundle


def test_every_object_has_a_name_and_the_stacks_labels(local: Recording) -> None:
    for each in local.objects:
        metadata = each.inputs["metadata"]
        assert metadata["name"]
        if each.patch:
            assert "labels" not in metadata
            continue
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "trainyard"
        assert metadata["labels"]["trainyard.dev/stack"] == "local"


def test_an_object_without_a_name_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match=r"ConfigMap without metadata\.name"):
        declare({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}, None)  # type: ignore[arg-type]


def test_every_object_is_a_resource_of_its_own_below_a_component(local: Recording) -> None:
    names = [each.name for each in local.objects]
    assert len(names) == len(set(names))
    for each in local.objects:
        assert local.resources[each.parent].type.startswith("trainyard:")
        assert "pulumi:providers:kubernetes::kubernetes" in each.provider


def test_nothing_declares_secrets_bundles_or_hooks(local: Recording) -> None:
    assert not local.of("Secret")
    assert not local.of("Job")
    assert "caBundle:" not in json.dumps([each.inputs for each in local.of("MutatingWebhookConfiguration")])
    for each in local.objects:
        for webhook in each.inputs.get("webhooks", []):
            assert "caBundle" not in webhook["clientConfig"]


def test_root_and_default_are_volcanos(local: Recording) -> None:
    assert not {"root", "default"} & {each.inputs["metadata"]["name"] for each in local.of("Queue")}


def test_every_queue_names_its_parent_and_is_awaited_open(local: Recording) -> None:
    for each in local.of("Queue"):
        assert each.inputs["spec"]["parent"]
        assert each.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == "jsonpath={.status.state}=Open"


def test_every_kind_is_defined_and_no_schema_carries_descriptions(local: Recording) -> None:
    assert len(local.of("CustomResourceDefinition")) == 17
    for definition in (custom_resource_definition("0.12.0"), *volcano.custom_resource_definitions("1.14.1")):
        for version in definition["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            assert schema["properties"]
            assert "description" not in schema
            assert "description" not in schema["properties"].get("spec", {})


def test_one_field_manager_writes_every_object(local: Recording) -> None:
    managers = {each.inputs["metadata"]["annotations"]["pulumi.com/patchFieldManager"] for each in local.objects}
    assert managers == {"trainyard"}


def test_webhooks_are_reached_by_url_on_this_machine(local: Recording) -> None:
    urls = {w["clientConfig"]["url"] for each in local.objects for w in each.inputs.get("webhooks", [])}
    assert f"https://127.0.0.1:{PORTS['vc-webhook-manager']}/podgroups/mutate" in urls
    assert f"https://127.0.0.1:{PORTS['jobset']}/mutate-jobset-x-k8s-io-v1alpha2-jobset" in urls
    trainer = f"https://127.0.0.1:{PORTS['trainyard-controller']}/validate-trainer-kubeflow-org-v1alpha1-trainjob"
    assert trainer in urls


def test_webhooks_are_reached_through_services_elsewhere(services: Recording) -> None:
    for each in services.objects:
        for webhook in each.inputs.get("webhooks", []):
            service = webhook["clientConfig"]["service"]
            assert services.one(f"Service/{service['namespace']}/{service['name']}")
            assert "url" not in webhook["clientConfig"]


def test_the_admission_program_serves_exactly_the_configured_webhooks(local: Recording) -> None:
    container = local.one("Deployment/volcano-system/volcano-admission").inputs["spec"]["template"]["spec"][
        "containers"
    ][0]
    enabled = (
        next(arg for arg in container["args"] if arg.startswith("--enabled-admission=")).partition("=")[2].split(",")
    )
    served = {
        webhook["clientConfig"]["url"].split(str(PORTS["vc-webhook-manager"]))[1]
        for each in local.objects
        if "volcano-admission-service" in each.name
        for webhook in each.inputs.get("webhooks", [])
    }
    assert set(enabled) == served
    assert {"/podgroups/mutate", "/podgroups/validate", "/hypernodes/validate", "/queues/validate"} <= served


def test_platform_pods_are_restricted_and_stay_off_accelerator_nodes(local: Recording, services: Recording) -> None:
    for recording, selector in ((local, {"trainyard.dev/platform": "true"}), (services, None)):
        assert len(recording.of("Deployment")) == 6
        for each in recording.of("Deployment"):
            pod = each.inputs["spec"]["template"]["spec"]
            assert pod.get("nodeSelector") == selector
            assert pod["priorityClassName"] == "system-cluster-critical"
            assert pod["securityContext"]["runAsNonRoot"] is True
            for container in pod["containers"]:
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
            program = pod["containers"][0]["name"]
            labels = each.inputs["spec"]["template"]["metadata"]["labels"]
            assert labels["trainyard.dev/host-process"] == program
            assert each.inputs["metadata"]["labels"]["trainyard.dev/host-process"] == program


def test_the_policy_server_shares_the_controllers_pod_and_nothing_else(services: Recording) -> None:
    deployment = services.one("Deployment/kubeflow-system/kubeflow-trainer-controller-manager")
    controller, server = deployment.inputs["spec"]["template"]["spec"]["containers"]
    volumes = {volume["name"]: volume for volume in deployment.inputs["spec"]["template"]["spec"]["volumes"]}
    assert server["image"] == "docker.io/openpolicyagent/opa:1.22.0"
    assert "--authorization=basic" in server["args"]
    (socket,) = [argument for argument in server["args"] if argument.startswith("--addr=")]
    assert socket == "--addr=unix:///run/trainyard/opa.sock"
    assert server["readinessProbe"]["httpGet"]["path"] == "/health?bundles"
    mounts = [{mount["mountPath"]: mount for mount in container["volumeMounts"]} for container in (controller, server)]
    for path, kind in (("/run/trainyard", "emptyDir"), ("/etc/trainyard-policies", "configMap")):
        one, other = (each[path] for each in mounts)
        assert one == other
        assert kind in volumes[one["name"]]
        assert one.get("readOnly", False) is (kind == "configMap")
    assert "emptyDir" in volumes[mounts[1]["/var/run/secrets/kubernetes.io/serviceaccount"]["name"]]
    assert "/var/run/secrets/kubernetes.io/serviceaccount" not in mounts[0]


def test_the_rules_are_an_immutable_config_map_of_their_revision(
    local: Recording, services: Recording, tmp_path: Path
) -> None:
    def rules(recording: Recording) -> tuple[str, bytes, dict[str, Any]]:
        (each,) = [each for each in recording.of("ConfigMap") if "trainyard-policies-" in each.name]
        assert each.inputs["immutable"] is True
        file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
        deployment = recording.one("Deployment/kubeflow-system/kubeflow-trainer-controller-manager")
        assert each.name in recording.before(deployment)
        return each.name, base64.b64decode(each.inputs["binaryData"]["rules.tar.gz"]), yaml.safe_load(file)["policy"]

    name, archive, policy = rules(local)
    assert rules(services)[:2] == (name, archive)
    (tmp_path / "rules.tar.gz").write_bytes(archive)
    verify_bundle(tmp_path / "rules.tar.gz", policy["revision"])
    assert "kubeflow-system" in policy["exemptNamespaces"]


def test_the_image_tag_is_the_components_version(local: Recording) -> None:
    images = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in local.of("Deployment")
    }
    assert images["volcano-scheduler"] == "docker.io/volcanosh/vc-scheduler:v1.14.1"
    assert images["jobset-controller-manager"].endswith(":v0.12.0")


def test_an_image_can_come_from_a_mirror_by_digest(services: Recording) -> None:
    pod = services.one("Deployment/jobset-system/jobset-controller-manager").inputs["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "mirror.example/jobset:v0.12.0@sha256:" + "a" * 64


def test_protection_covers_what_takes_other_peoples_work_along(local: Recording, services: Recording) -> None:
    assert not any(each.protect for each in local.objects)
    protected = {each.inputs["kind"] for each in services.objects if each.protect}
    assert protected == {"CustomResourceDefinition", "Namespace", "Queue"}
    for kind in protected:
        assert all(each.protect for each in services.of(kind) if not each.patch)


def test_replicas_bring_leader_election(local: Recording, services: Recording) -> None:
    for recording, elects, strategy in ((local, "false", "Recreate"), (services, "true", "RollingUpdate")):
        spec = recording.one("Deployment/volcano-system/volcano-scheduler").inputs["spec"]
        assert f"--leader-elect={elects}" in spec["template"]["spec"]["containers"][0]["args"]
        assert spec["strategy"]["type"] == strategy


def test_the_configuration_of_the_controller_names_every_certificate(local: Recording) -> None:
    file = local.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
    for secret in ("volcano-admission-secret", "jobset-webhook-server-cert"):
        assert re.search(rf"secret: {secret}$", file, re.MULTILINE)
    configured = {
        each.name.partition("/")[2]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for each in local.of(kind)
    }
    assert all(f"- {name}\n" in file for name in configured)
    assert "127.0.0.1" in file


def test_ownership_knows_every_kind_that_is_declared(services: Recording) -> None:
    for each in services.objects:
        kind = (each.inputs["apiVersion"], each.inputs["kind"])
        known = namespaced_kinds() if "namespace" in each.inputs["metadata"] else cluster_kinds()
        assert kind in known, kind


def test_an_unknown_image_is_refused() -> None:
    from components.common.target import ImageTable
    from trainyard.settings.platform import ImageSettings

    with pytest.raises(TrainyardError, match=r"images\.vc-schedular"):
        ImageTable({"vc-schedular": ImageSettings(tag="v1")}, image_repositories())
