"""The ordering graph: what comes before what, which is also what is deleted after what."""

from __future__ import annotations

import pytest

from tests.components.recording import Recording

VOLCANO = {
    f"Deployment/volcano-system/{name}" for name in ("volcano-admission", "volcano-controllers", "volcano-scheduler")
}
JOBSET = {"Deployment/jobset-system/jobset-controller-manager"}
TRAINER = {"Deployment/kubeflow-system/kubeflow-trainer-controller-manager"}
CONTROLLERS = {
    "Queue": VOLCANO,
    "HyperNode": VOLCANO,
    "ClusterTrainingRuntime": TRAINER,
}


def webhooks(recording: Recording, prefix: str) -> set[str]:
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {each.name for kind in kinds for each in recording.of(kind) if prefix in each.name}


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_every_custom_resource_comes_after_its_controller_and_webhooks(local: Recording, kind: str) -> None:
    prefix = "volcano-admission-service" if CONTROLLERS[kind] is VOLCANO else "trainer.kubeflow.org"
    assert local.of(kind)
    for each in local.of(kind):
        before = local.before(each)
        assert CONTROLLERS[kind] <= before
        assert webhooks(local, prefix) <= before


def test_tenant_namespaces_come_after_everything_that_their_jobs_need(local: Recording) -> None:
    needed = VOLCANO | JOBSET | TRAINER | webhooks(local, "")
    for kind in ("Queue", "HyperNode", "ClusterTrainingRuntime", "Platform", "PriorityClass"):
        needed |= {each.name for each in local.of(kind)}
    needed |= {each.name for each in local.of("ValidatingAdmissionPolicyBinding")}
    for tenant in ("vision", "language"):
        assert needed <= local.before(local.one(f"Namespace/{tenant}"))


def test_nothing_of_the_platform_comes_after_a_tenant(local: Recording) -> None:
    for each in local.objects:
        if each.inputs["metadata"].get("namespace") not in ("vision", "language"):
            assert not {"Namespace/vision", "Namespace/language"} & local.before(each), each.name


def test_namespaced_objects_of_a_tenant_go_with_its_namespace(local: Recording) -> None:
    for each in local.objects:
        namespace = each.inputs["metadata"].get("namespace")
        if namespace in ("vision", "language"):
            assert local.resources[each.deleted_with].name == f"Namespace/{namespace}"
            assert f"Namespace/{namespace}" in local.before(each)


def test_a_queue_comes_after_its_parent(local: Recording) -> None:
    assert "Queue/research" in local.before(local.one("Queue/vision"))
    assert "Queue/vision" not in local.before(local.one("Queue/language"))


def test_a_hypernode_comes_after_its_members_so_that_it_goes_before_them(local: Recording) -> None:
    assert {"HyperNode/rack-0", "HyperNode/rack-1"} <= local.before(local.one("HyperNode/spine-0"))
    assert "HyperNode/spine-0" not in local.before(local.one("HyperNode/rack-0"))


def test_the_trainer_does_not_wait_for_those_that_wait_for_its_certificates(local: Recording) -> None:
    before = local.before(local.one(*TRAINER))
    assert not (VOLCANO | JOBSET) & before
    assert {"CustomResourceDefinition/podgroups.scheduling.volcano.sh"} <= before
    assert {"CustomResourceDefinition/jobsets.jobset.x-k8s.io"} <= before
    assert {"CustomResourceDefinition/trainjobs.trainer.kubeflow.org"} <= before


def test_volcano_admission_finds_its_webhook_configurations_and_the_scheduler_finds_admission(local: Recording) -> None:
    admission = local.one("Deployment/volcano-system/volcano-admission")
    assert webhooks(local, "volcano-admission-service") <= local.before(admission)
    scheduler = local.one("Deployment/volcano-system/volcano-scheduler")
    assert admission.name in local.before(scheduler)


@pytest.mark.parametrize(("prefix", "deployment"), [("jobset-", JOBSET), ("trainer.kubeflow.org", TRAINER)])
def test_other_webhook_configurations_come_after_their_server_and_wait_for_the_bundle(
    local: Recording, prefix: str, deployment: set[str]
) -> None:
    for name in webhooks(local, prefix):
        each = local.one(name)
        assert deployment <= local.before(each)
        wait = each.inputs["metadata"]["annotations"]["pulumi.com/waitFor"]
        for number in range(len(each.inputs["webhooks"])):
            assert f".webhooks[{number}].clientConfig.caBundle" in wait


def test_custom_resource_definitions_come_first_of_all_so_that_they_go_last(local: Recording) -> None:
    for each in local.of("CustomResourceDefinition"):
        assert local.before(each) <= {"kubernetes"}


def test_every_deployment_keeps_its_permissions_until_it_is_gone(local: Recording) -> None:
    for each in local.of("Deployment"):
        account = each.inputs["spec"]["template"]["spec"]["serviceAccountName"]
        before = local.before(each)
        assert f"ServiceAccount/{each.inputs['metadata']['namespace']}/{account}" in before
        bound = any(name.startswith("ClusterRoleBinding/") for name in before)
        assert bound == (account != "trainyard-console"), account  # which has no permissions


def test_policies_come_after_the_objects_they_read(local: Recording) -> None:
    for each in local.of("ValidatingAdmissionPolicy"):
        before = local.before(each)
        assert {"Platform/platform", "CustomResourceDefinition/tenantpolicies.trainyard.dev"} <= before
    for each in local.of("ValidatingAdmissionPolicyBinding"):
        assert f"ValidatingAdmissionPolicy/{each.inputs['spec']['policyName']}" in local.before(each)


def test_queues_and_the_fabric_are_made_fit_before_they_change_and_runtimes_wait_for_their_webhook(
    local: Recording,
) -> None:
    hooked = {each.inputs["kind"] for each in local.objects if each.hooks}
    assert hooked == {"Queue", "HyperNode", "ClusterTrainingRuntime"}
    assert all(each.hooks for each in (*local.of("Queue"), *local.of("ClusterTrainingRuntime")))
