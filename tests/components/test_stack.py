"""The whole program: existing components, objects of others, faults of the fabric, and the golden file."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
import yaml

from components.common.ownership import LiveObjects
from tests.components.recording import Recording, record, stack_config
from tests.golden import assert_golden_objects
from trainyard.kube.api_errors import ApiError
from trainyard.platform.pulumi_sdk.recorded_objects import recorded_objects
from trainyard.platform.takeover.former_objects import FormerObject
from trainyard.platform.takeover.takeover_plan import PlannedTakeoverError
from trainyard.policy.pack.review_pack import PackReport, PolicyPack
from trainyard.policy.pack.stack_resources import StackResource
from trainyard.settings.stack_loader import parse_stack

GOLDEN = Path(__file__).parent / "golden" / "local.yaml"
EXAMPLES = (
    "Namespace vision",
    "TenantPolicy vision/tenant",
    "ResourceQuota vision/tenant",
    "Queue vision",
    "HyperNode rack-0",
    "HyperNode spine-0",
    "Platform platform",
    "ClusterTrainingRuntime torch-distributed-gang",
    "Deployment kubeflow-system/kubeflow-trainer-controller-manager",
    "ClusterRole kubeflow-trainer-controller-manager",
    "MutatingWebhookConfiguration defaulter.trainer.kubeflow.org",
)
NODES = [f"rack-{rack}-node-{node}" for rack in (0, 1) for node in range(4)]


def live(*objects: tuple[str, str, str, dict[str, Any]], nodes: list[str] = NODES) -> LiveObjects:
    found: dict[tuple[str, str, str, str], dict[str, Any]] = {
        ("v1", "Node", "", name): {"name": name} for name in nodes
    }
    for api_version, kind, name, metadata in objects:
        found[api_version, kind, "", name] = {"name": name, **metadata}
    return LiveObjects(found)


def node_names() -> list[str]:
    from trainyard.scheduling.topology.fabric_compiler import compile_fabric
    from trainyard.settings.stack_loader import parse_stack

    return [node.name for node in compile_fabric(parse_stack(stack_config(), source="test").fabric).nodes]


def rendered(recording: Recording) -> list[dict[str, Any]]:
    """Return every object in a stable order, without schemas, the bundle of rules and the policies made of them."""
    bodies = []
    for each in sorted(recording.objects, key=lambda each: each.name):
        body = dict(each.inputs)
        if body["kind"].startswith("ValidatingAdmissionPolicy"):
            continue
        if body["kind"] == "CustomResourceDefinition":
            body["spec"] = {**body["spec"], "versions": [version["name"] for version in body["spec"]["versions"]]}
        if "binaryData" in body:
            body["binaryData"] = sorted(body["binaryData"])
        bodies.append(body)
    text = yaml.safe_dump_all(bodies, sort_keys=True, width=110)
    text = re.sub(r"(trainyard-policies-)[0-9a-f]{12}", r"\1REVISION", text)
    text = re.sub(r"(revision: )[0-9a-f]{64}", r"\1REVISION", text)
    text = re.sub(r"(trainyard\.dev/configuration: )\S+", r"\1SHA256", text)
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@pytest.mark.slow
def test_the_local_stack_is_what_was_reviewed(local: Recording) -> None:
    assert_golden_objects(GOLDEN, rendered(local), EXAMPLES)


@pytest.mark.parametrize("component", ["volcano", "jobset"])
def test_a_component_that_exists_is_not_declared(component: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(stack_config(**{component: {"install": "existing"}}), monkeypatch)
    areas = {recording.resources[each.parent].type for each in recording.objects}
    assert f"trainyard:{component}:{'Volcano' if component == 'volcano' else 'JobSet'}" not in areas
    file = recording.one("ConfigMap/kubeflow-system/trainyard-controller-config").inputs["data"]["config.yaml"]
    assert f"namespace: {component}-system" not in file


def test_a_foreign_trainer_without_certificates_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pulumi.RunError, match="certificate is issued by this program's trainer controller"):
        record(stack_config(trainer={"install": "existing"}), monkeypatch)


@pytest.mark.slow
def test_an_older_jobset_is_read_from_its_own_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(stack_config(jobset={"version": "0.11.1"}), monkeypatch)
    pod = recording.one("Deployment/jobset-system/jobset-controller-manager").inputs["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].endswith(":v0.11.1")
    rules = recording.one("ClusterRole/jobset-manager-role").inputs["rules"]
    assert rules


def test_wrong_settings_name_file_path_and_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    config = stack_config(volcano={"replica": 2}, queue={})
    with pytest.raises(pulumi.RunError) as caught:
        record(config, monkeypatch)
    text = str(caught.value)
    assert "Pulumi.local.yaml" in text
    assert "trainyard:volcano.replica: unknown setting" in text
    assert "did you mean replicas?" in text
    assert "trainyard:queue: unknown setting" in text


def test_a_queue_tree_that_cannot_work_stops_everything_before_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    config = stack_config()
    config["queues"]["vision"]["deserved"] = {**config["queues"]["vision"]["deserved"], "nvidia.com/gpu": "640"}
    recorded: list[Recording] = []
    monkeypatch.setattr("tests.components.recording.Recording", lambda: recorded.append(Recording()) or recorded[-1])
    with pytest.raises(pulumi.RunError, match="The queue tree is invalid"):
        record(config, monkeypatch)
    assert not recorded[0].resources


def test_objects_of_others_are_all_listed_by_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = live(
        ("v1", "Namespace", "volcano-system", {}),
        ("scheduling.volcano.sh/v1beta1", "Queue", "vision", {"labels": {"trainyard.dev/stack": "other"}}),
        nodes=node_names(),
    )
    with pytest.raises(pulumi.RunError) as caught:
        record(stack_config(), monkeypatch, live=foreign, preview=True)
    assert "Namespace volcano-system: exists already" in str(caught.value)
    assert "Queue vision: exists already" in str(caught.value)
    assert "adopt" in str(caught.value)


def test_objects_of_this_stack_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = live(("v1", "Namespace", "vision", {"labels": {"trainyard.dev/stack": "local"}}), nodes=node_names())
    recording = record(stack_config(), monkeypatch, live=ours)
    assert not any(each.retain for each in recording.objects)


@pytest.mark.slow
def test_objects_of_this_stack_that_the_state_lacks_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what the state has, what others created, and what is being deleted; nothing if the state is unknown."""
    ours = {"labels": {"trainyard.dev/stack": "local"}}
    service, account = "volcano-admission-service", "volcano-admission"
    found = live(
        ("v1", "Namespace", "vision", ours),
        ("v1", "Namespace", "research", ours),
        ("v1", "Namespace", "language", ours | {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("v1", "Namespace", "volcano-system", ours),
        ("v1", "Namespace", "jobset-system", {}),
        nodes=node_names(),
    )
    namespaced = {
        ("v1", "Service", "volcano-system", service): ours | {"name": service},
        ("v1", "ServiceAccount", "volcano-system", account): {"name": account},
    }
    reads = []
    monkeypatch.setattr(
        "components.preparation.list_owned_objects", lambda *_: reads.append("read") or LiveObjects(namespaced)
    )
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_, **__: warnings.append(message))
    with recorded_objects({("kubernetes:core/v1:Namespace", "Namespace/research")}):
        recording = record(stack_config(adopt=True), monkeypatch, live=found)
    assert not any("another backend" in each for each in warnings)
    assert {each.name: each.import_id for each in recording.objects if each.import_id} == {
        "Namespace/vision": "vision",
        "Namespace/volcano-system": "volcano-system",
        f"Service/volcano-system/{service}": f"volcano-system/{service}",
    }
    assert reads == ["read"]
    assert not any(each.import_id for each in record(stack_config(adopt=True), monkeypatch, live=found).objects)


@pytest.mark.slow
def test_plain_pulumi_imports_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the program reads its state: the engine rejects the replacement of what the state has and an id declares."""
    ours = {"labels": {"trainyard.dev/stack": "local"}}
    found = live(*(("v1", "Namespace", name, ours) for name in ("vision", "research")), nodes=node_names())
    resources = [
        {"type": "kubernetes:core/v1:Namespace", "urn": f"urn:pulumi:local::trainyard::t::Namespace/{name}", **more}
        for name, more in (("research", {}), ("vision", {"delete": True}))
    ]
    commands: list[list[str]] = []

    def export(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(stdout=json.dumps({"deployment": {"resources": resources}}))

    monkeypatch.setattr("trainyard.platform.pulumi_sdk.exported_state.subprocess.run", export)
    monkeypatch.setattr("components.preparation.list_owned_objects", lambda *_: LiveObjects({}))
    monkeypatch.setenv("TRAINYARD_IMPORT", "true")
    recording = record(stack_config(), monkeypatch, live=found)
    assert {each.name for each in recording.objects if each.import_id} == {"Namespace/vision"}
    assert [command[-1] for command in commands] == ["organization/trainyard/local"]
    monkeypatch.setenv("TRAINYARD_IMPORT", "false")
    assert not any(each.import_id for each in record(stack_config(), monkeypatch, live=found).objects)


@pytest.mark.slow
@pytest.mark.parametrize("preview", [True, False])
def test_a_state_without_objects_of_a_stack_that_has_some_is_a_warning(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may belong to a stack of the same name in another backend."""
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_, **__: warnings.append(message))
    ours = {"labels": {"trainyard.dev/stack": "local"}}
    namespaces = [("v1", "Namespace", name, ours) for name in ("vision", "language")]
    others = ("v1", "Namespace", "elsewhere", ours)
    found = live(*namespaces, others, nodes=node_names())
    monkeypatch.setattr("components.preparation.list_owned_objects", lambda *_: LiveObjects({}))
    provider = ("pulumi:providers:kubernetes", "kubernetes")
    with recorded_objects({("pulumi:pulumi:Stack", "trainyard-local"), provider}):
        record(stack_config(), monkeypatch, live=found, preview=preview)
        assert [each for each in warnings if "another backend" in each] == [
            "This state has none of the 2 objects of stack local that exist; they are imported, and `destroy` deletes "
            "them; is another backend in use?"
        ]
        warnings.clear()
        record(stack_config(), monkeypatch, live=live(nodes=node_names()), preview=preview)
    record(stack_config(), monkeypatch, live=found, preview=preview)
    assert not any("another backend" in each for each in warnings)


@pytest.mark.slow
def test_an_imported_object_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine rejects it, and the live object differs from the program by what the API server has set."""
    name = "torch-with-dataset-1.0"
    key = f"ClusterTrainingRuntime/{name}"
    ours = {"labels": {"trainyard.dev/stack": "local"}}
    found = live(("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", name, ours), nodes=node_names())
    assert record(stack_config(), monkeypatch, live=found).one(key).replaced_for
    with recorded_objects(()):
        imported = record(stack_config(), monkeypatch, live=found).one(key)
    assert (imported.import_id, imported.replaced_for) == (name, ())


def test_the_address_of_a_service_that_the_api_server_sets_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """An imported Service has it, and its absence in the program would replace the Service."""
    services = record(stack_config(), monkeypatch).of("Service")
    assert services
    for each in services:
        assert (each.ignored == ("spec.clusterIP",)) != ("clusterIP" in each.inputs["spec"])


def test_adopted_objects_are_kept_on_destroy_now_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    later = {"labels": {"trainyard.dev/stack": "local"}, "annotations": {"trainyard.dev/adopted": "true"}}
    found = live(("v1", "Namespace", "vision", {}), ("v1", "Namespace", "language", later), nodes=node_names())
    recording = record(stack_config(adopt=True), monkeypatch, live=found)
    kept = {each.name for each in recording.objects if each.retain}
    assert kept == {"Namespace/vision", "Namespace/language"}
    annotations = recording.one("Namespace/vision").inputs["metadata"]["annotations"]
    assert annotations["pulumi.com/patchForce"] == "true"
    assert annotations["trainyard.dev/adopted"] == "true"


SELECTOR = ApiError(422, "Invalid", "spec.selector: Invalid value: {}: field is immutable")
SCHEDULER = ("apps/v1", "Deployment", "volcano-system", "volcano-scheduler")
HOOKS = "admissionregistration.k8s.io/v1"


def foreign_installation() -> LiveObjects:
    """Return the objects of a Volcano that others installed."""
    webhooks = (HOOKS, "MutatingWebhookConfiguration", "volcano-admission-service-jobs-mutate", {})
    found = live(
        ("v1", "Namespace", "volcano-system", {}), ("v1", "Namespace", "vision", {}), webhooks, nodes=node_names()
    )
    return LiveObjects({**found.metadata, SCHEDULER: {"name": SCHEDULER[3]}})


def test_an_existing_program_is_replaced_before_its_successor_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_, **__: notes.append(message))
    recording = record(stack_config(adopt=True), monkeypatch, live=foreign_installation(), errors={SCHEDULER: SELECTOR})
    replaced = recording.one("Deployment/volcano-system/volcano-scheduler")
    assert replaced.hooks == {"replace-existing"}
    assert not replaced.retain
    assert "trainyard.dev/adopted" not in replaced.inputs["metadata"]["annotations"]
    assert [each.name for each in recording.objects if "replace-existing" in each.hooks] == [replaced.name]
    assert any("Deployment volcano-system/volcano-scheduler is deleted and created again" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("preview", [False, True])
def test_what_a_takeover_changes_is_recorded_before_it_changes(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.log, "warn", lambda *_, **__: None)
    limited = {"root": {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "64"}}}
    config = stack_config(adopt=True, queues={**stack_config()["queues"], **limited})
    found: list[FormerObject] = []
    options: dict[str, Any] = {"preview": preview, "errors": {SCHEDULER: SELECTOR}, "recorded": found.extend}
    record(config, monkeypatch, live=foreign_installation(), **options)
    objects = {
        "Namespace volcano-system",
        "Namespace vision",
        "MutatingWebhookConfiguration volcano-admission-service-jobs-mutate",
        "Deployment volcano-system/volcano-scheduler",
        "Queue root",
        "Namespace kube-system",
    }
    assert {each.object for each in found} == (set() if preview else objects)
    patched = {each.object for each in found if each.patched}
    assert patched == (set() if preview else {"Queue root", "Namespace kube-system"})
    record(config, monkeypatch, live=live(nodes=node_names()), **options)
    assert len(found) == (0 if preview else len(objects)), "nothing is taken over, so nothing is recorded"
    errors = {SCHEDULER: ApiError(403, "Forbidden", "patch is forbidden")}
    with pytest.raises(pulumi.RunError):
        record(config, monkeypatch, live=foreign_installation(), **options | {"errors": errors})
    assert len(found) == (0 if preview else len(objects)), "the takeover is rejected"


@pytest.mark.slow
@pytest.mark.parametrize("preview", [True, False])
def test_a_takeover_is_not_limited_to_targets(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is written as a whole, before the first object, and is no resource that targets could select."""
    monkeypatch.setattr("components.common.takeover_record.has_targets", lambda: True)
    monkeypatch.setattr(pulumi.log, "warn", lambda *_, **__: None)
    found: list[FormerObject] = []
    options: dict[str, Any] = {"preview": preview, "recorded": found.extend}
    record(stack_config(adopt=True), monkeypatch, live=live(nodes=node_names()), **options)
    with pytest.raises(pulumi.RunError, match="--target and --exclude would not limit") as caught:
        record(stack_config(adopt=True), monkeypatch, live=foreign_installation(), **options)
    assert "Deployment volcano-system/volcano-scheduler" in str(caught.value)
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("error", [SELECTOR, ApiError(500, "InternalError", "failed calling webhook x")])
@pytest.mark.parametrize("preview", [True, False])
def test_a_preview_sends_no_dry_run_that_the_existing_installation_rejects(
    error: ApiError, preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi.log, "warn", lambda *_, **__: None)
    config, errors = stack_config(adopt=True), {SCHEDULER: error}
    recording = record(config, monkeypatch, live=foreign_installation(), errors=errors, preview=preview)
    skipped = [each.name for each in recording.objects if "status" in each.inputs]
    assert skipped == (["Deployment/volcano-system/volcano-scheduler"] if preview else [])


@pytest.mark.slow
def test_webhooks_are_taken_and_deleted_on_destroy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.log, "warn", lambda *_, **__: None)
    recording = record(stack_config(adopt=True), monkeypatch, live=foreign_installation())
    taken = recording.one("MutatingWebhookConfiguration/volcano-admission-service-jobs-mutate")
    assert not taken.retain
    annotations = taken.inputs["metadata"]["annotations"]
    assert annotations["trainyard.dev/adopted"] == "owned"
    later = {"labels": {"trainyard.dev/stack": "local"}, "annotations": annotations}
    again = live((HOOKS, "MutatingWebhookConfiguration", taken.inputs["metadata"]["name"], later), nodes=node_names())
    repeated = record(stack_config(), monkeypatch, live=again).one(taken.name)
    assert (repeated.inputs["metadata"]["annotations"], repeated.retain) == (annotations, False)


def test_objects_in_a_namespace_that_is_kept_are_deleted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.log, "warn", lambda *_, **__: None)
    recording = record(stack_config(adopt=True), monkeypatch, live=foreign_installation())
    inside = [each for each in recording.objects if each.inputs["metadata"].get("namespace") in ("vision", "language")]
    kept = {each.inputs["metadata"]["namespace"] for each in inside if not each.deleted_with}
    assert kept == {"vision"}


def test_a_rejection_stops_everything_before_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    address = (HOOKS, "MutatingWebhookConfiguration", "", "volcano-admission-service-jobs-mutate")
    errors = {address: ApiError(403, "Forbidden", "patch is forbidden"), SCHEDULER: SELECTOR}
    with pytest.raises(pulumi.RunError) as caught:
        record(stack_config(adopt=True), monkeypatch, live=foreign_installation(), errors=errors)
    text = str(caught.value)
    assert "1 existing objects cannot be taken over by stack local; nothing is written" in text
    assert "MutatingWebhookConfiguration volcano-admission-service-jobs-mutate: the API server rejects it" in text


@pytest.mark.slow
@pytest.mark.parametrize("mandatory", [True, False])
def test_a_reviewed_update_declares_nothing_after_a_mandatory_violation(
    mandatory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviewed: list[StackResource] = []

    def evaluate(_: PolicyPack, resources: Iterable[StackResource]) -> list[PackReport]:
        reviewed.extend(resources)
        asyncio.run(asyncio.sleep(0))  # as the review does
        return [PackReport("IMG-001", "ClusterTrainingRuntime/plain", mandatory, "spec: not pinned. Fix: pin it")]

    monkeypatch.setattr(PolicyPack, "evaluate", evaluate)
    monkeypatch.setenv("TRAINYARD_REVIEW", "true")
    limited = {"root": {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "64"}}}
    config = stack_config(queues={**stack_config()["queues"], **limited})
    if mandatory:
        with pytest.raises(pulumi.RunError) as caught:
            record(config, monkeypatch)
        assert "ClusterTrainingRuntime/plain: IMG-001 spec: not pinned (pin it)" in str(caught.value)
        assert "nothing is written" in str(caught.value)
    else:
        recording = record(config, monkeypatch)
        pack = PolicyPack(Path, parse_stack(config, source="stack"))
        declared = {(each.type, each.name) for each in recording.objects if pack.reads(each.inputs["kind"])}
        assert {(each.type, each.urn) for each in reviewed} == declared
        assert ("kubernetes:scheduling.volcano.sh/v1beta1:QueuePatch", "QueuePatch/root") in declared
    reviewed.clear()
    record(config, monkeypatch, preview=True)
    assert reviewed == [], "the engine reviews the objects of a preview before anything is written"


@pytest.mark.slow
@pytest.mark.parametrize("adopt", [False, True])
def test_a_run_that_plans_ends_with_the_plan_whatever_the_setting(adopt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_TAKEOVER_PLAN", "true")
    parts = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "init", "namespace": "volcano-system"}}]
    with pytest.raises(pulumi.RunError) as caught:
        record(
            stack_config(adopt=adopt),
            monkeypatch,
            live=foreign_installation(),
            errors={SCHEDULER: SELECTOR},
            parts=parts,
            preview=True,
        )
    planned = caught.value.__cause__
    assert isinstance(planned, PlannedTakeoverError)
    assert planned.plan.summary == "3 to take, 1 to replace, 1 left alone, 0 rejected"


def existing_cluster(**fabric: Any) -> dict[str, Any]:
    """Return the settings of a stack whose cluster exists, with a fabric of eight nodes."""
    provider = {"provider": "existing", "context": "production"}
    racks = [{"name": f"rack-{rack}", "nodes": 4} for rack in (0, 1)]
    return stack_config(cluster=provider, fabric={"tierNames": ["rack"], "domains": racks, **fabric})


@pytest.mark.parametrize("preview", [False, True])
def test_too_many_missing_nodes_stop_preview_and_up(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        record(existing_cluster(), monkeypatch, live=live(nodes=NODES[2:]), preview=preview)
    message = str(caught.value)
    assert "2 of 8 nodes of the fabric are missing in the cluster" in message
    assert "trainyard:fabric.maxMissingNodes: 10%" in message
    assert f"the cluster has no node {NODES[0]}" in message
    assert "raise maxMissingNodes" in message


@pytest.mark.slow
@pytest.mark.parametrize("preview", [False, True])
def test_a_node_under_repair_is_a_warning_and_its_hypernode_stays(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, **_: warnings.append(message))
    whole = record(existing_cluster(), monkeypatch, live=live(), preview=preview)
    assert warnings == []
    recording = record(existing_cluster(), monkeypatch, live=live(nodes=NODES[1:]), preview=preview)
    [warning] = warnings
    assert "1 of 8 nodes of the fabric are missing in the cluster" in warning
    assert f"the cluster has no node {NODES[0]}" in warning
    racks, of_all = ({each.name: each.inputs for each in run.of("HyperNode")} for run in (recording, whole))
    assert racks == of_all


def test_a_number_of_missing_nodes_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert record(existing_cluster(maxMissingNodes=8), monkeypatch, live=live(nodes=[])).of("HyperNode")
    with pytest.raises(pulumi.RunError, match="1 of 8 nodes"):
        record(existing_cluster(maxMissingNodes=0), monkeypatch, live=live(nodes=NODES[1:]))


def selecting_cluster(**fabric: Any) -> dict[str, Any]:
    """Return the settings of a stack whose cluster exists, with two racks of two nodes that are chosen by label."""
    racks = [{"name": f"r{pod}", "nodes": {"matchLabels": {"pod": pod}, "count": 2}} for pod in "ab"]
    provider = {"provider": "existing", "context": "production"}
    return stack_config(cluster=provider, fabric={"tierNames": ["rack"], "domains": racks, **fabric})


def labeled(**labels: Mapping[str, str]) -> LiveObjects:
    return LiveObjects({("v1", "Node", "", name): {"name": name, "labels": own} for name, own in labels.items()})


WHOLE: dict[str, Mapping[str, str]] = {"a1": {"pod": "a"}, "a2": {"pod": "a"}, "b1": {"pod": "b"}, "b2": {"pod": "b"}}


@pytest.mark.slow
@pytest.mark.parametrize("preview", [False, True])
def test_a_domain_whose_labels_match_too_few_nodes_has_missing_nodes(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, **_: warnings.append(message))
    assert record(selecting_cluster(), monkeypatch, live=labeled(**WHOLE), preview=preview).of("HyperNode")
    assert warnings == []
    fewer = labeled(**{**WHOLE, "b2": {}})
    assert record(selecting_cluster(), monkeypatch, live=fewer, preview=preview).of("HyperNode")
    [warning] = warnings
    assert "1 of 4 nodes of the fabric are missing in the cluster" in warning
    assert "trainyard:fabric.rb: 1 of 2 nodes have the labels pod=b" in warning
    none = labeled(**{**WHOLE, "b1": {}, "b2": {}})
    with pytest.raises(pulumi.RunError, match=r"2 of 4 nodes of the fabric(.|\n)*0 of 2 nodes have the labels pod=b"):
        record(selecting_cluster(), monkeypatch, live=none, preview=preview)


@pytest.mark.parametrize("preview", [False, True])
def test_a_node_in_two_domains_stops_preview_and_up(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    domains = [
        {"name": "ra", "nodes": {"matchLabels": {"pod": "a"}, "count": 2}},
        {"name": "rn", "nodes": ["b1", "b2"]},
    ]
    both = labeled(**{**WHOLE, "b2": {"pod": "a"}})
    with pytest.raises(pulumi.RunError, match="node b2 is in domain ra by its labels, and in domain rn"):
        record(selecting_cluster(domains=domains, maxMissingNodes=4), monkeypatch, live=both, preview=preview)


def test_more_nodes_than_the_count_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, **_: warnings.append(message))
    record(selecting_cluster(), monkeypatch, live=labeled(**WHOLE, a3={"pod": "a"}))
    assert "trainyard:fabric.ra: 3 of 2 nodes have the labels pod=a" in warnings[0]


def test_the_nodes_of_a_local_cluster_are_created_before_up_and_may_be_missing_in_a_preview(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(pulumi.RunError, match="trainyard cluster up"):
        record(stack_config(), monkeypatch, live=live(nodes=[]))
    assert record(stack_config(), monkeypatch, live=live(nodes=[]), preview=True).of("HyperNode")
