"""Decisions about existing objects: taken, replaced, left or rejected, over the answers of the API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainyard.kube.api_errors import ApiError
from trainyard.platform.takeover.takeover import Observation, Takeover, TakeoverAction, decide
from trainyard.platform.takeover.takeover_plan import TakeoverPlan
from trainyard.platform.takeover.takeover_remains import namespaces_of, remains, used_by

STACK = "production"
RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
SECRET = "Secret sh.helm.release.v1.volcano.v1"
FORCED = {"meta.helm.sh/release-name": "volcano", "meta.helm.sh/release-namespace": "volcano-system"}


def body(kind: str, api_version: str = "v1", *, namespace: str = "", name: str = "it", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def existing(declared: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**declared, "metadata": {**declared["metadata"], "uid": "one", **metadata}}


def deployment(*containers: str) -> dict[str, Any]:
    pod = {"containers": [{"name": name, "image": "x"} for name in containers]}
    return body("Deployment", "apps/v1", namespace="volcano-system", spec={"template": {"spec": pod}})


def definition(*served: str, stored: tuple[str, ...] = ()) -> dict[str, Any]:
    versions = [{"name": name, "served": True} for name in served]
    return body(
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
        name="queues.scheduling.volcano.sh",
        spec={"versions": versions},
        status={"storedVersions": list(stored)},
    )


def invalid(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)


def decided(declared: dict[str, Any], seen: Observation) -> Takeover:
    found = decide(declared, seen, STACK)
    assert found.uid == "one"
    return found


SELECTOR = (
    'Deployment.apps "it" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable'
)
ROLE = 'ClusterRoleBinding.rbac.authorization.k8s.io "it" is invalid: roleRef: Invalid value: {}: cannot change roleRef'
ADDRESS = 'Service "it" is invalid: spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'
VALUE = 'PriorityClass.scheduling.k8s.io "it" is invalid: value: Forbidden: may not be changed in an update.'
SCOPE = 'CustomResourceDefinition "it" is invalid: spec.scope: Invalid value: "Cluster": field is immutable'
FINAL = 'ConfigMap "it" is invalid: data: Forbidden: field is immutable when `immutable` is set'


@pytest.mark.parametrize(
    ("declared", "message", "action", "field"),
    [
        (deployment("a"), SELECTOR, TakeoverAction.REPLACE, "spec.selector"),
        (body("ClusterRoleBinding", RBAC), ROLE, TakeoverAction.REPLACE, "roleRef"),
        (body("Service", namespace="a"), ADDRESS, TakeoverAction.REPLACE, "spec.clusterIPs[0]"),
        (body("ConfigMap", namespace="a"), FINAL, TakeoverAction.REPLACE, "data"),
        (body("PriorityClass", "scheduling.k8s.io/v1"), VALUE, TakeoverAction.REJECT, "value"),
        (definition("v1"), SCOPE, TakeoverAction.REJECT, "spec.scope"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_immutable_fields_replace_what_holds_no_data_of_users(
    declared: dict[str, Any], message: str, action: TakeoverAction, field: str
) -> None:
    found = decided(declared, Observation(existing(declared), error=invalid(message)))
    assert found.action is action
    assert field in found.reason
    assert not found.retained


def test_what_cannot_be_merged_is_replaced_unless_it_cannot_be_created_either() -> None:
    declared = body("MutatingWebhookConfiguration", ADMISSION, webhooks=[])
    error = invalid("webhooks[0].clientConfig: Required value: exactly one of url or service is required")
    found = decided(declared, Observation(existing(declared), error=error))
    assert found.action is TakeoverAction.REPLACE
    assert "exactly one of url or service" in found.reason
    wrong = invalid("webhooks[0].name: Invalid value: must be a domain")
    found = decided(declared, Observation(existing(declared), error=error, creation_error=wrong))
    assert found.action is TakeoverAction.REJECT
    assert "must be a domain" in found.reason


@pytest.mark.parametrize(
    ("metadata", "releases", "text", "fix"),
    [
        ({"deletionTimestamp": "now"}, (), "is being deleted", "wait"),
        (
            {"ownerReferences": [{"kind": "VolcanoInstaller", "name": "main", "controller": True}]},
            (),
            "belongs to VolcanoInstaller main",
            "uninstall",
        ),
        ({"labels": {"trainyard.dev/stack": "other"}}, (), "stack other", "trainyard.dev/stack"),
        ({"annotations": FORCED}, (SECRET,), SECRET, "-n volcano-system -l owner=helm,name=volcano"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "volcano:apps"}}, (), "Argo CD", "without pruning"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "volcano"}}, (), "Flux", "without pruning"),
    ],
)
def test_objects_that_others_still_write_are_rejected(
    metadata: dict[str, Any], releases: tuple[str, ...], text: str, fix: str
) -> None:
    declared = deployment("a")
    found = decided(declared, Observation(existing(declared, **metadata), declared, releases=releases))
    assert found.action is TakeoverAction.REJECT
    assert text in found.reason
    assert fix in found.fix


def managed(*managers: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"manager": name, "operation": "Update", "fieldsV1": {"f:spec": {}}, **fields} for name in managers]


@pytest.mark.parametrize(
    ("manager", "tool"),
    [
        ("argocd-controller", "Argo CD"),
        ("argocd-application-controller", "Argo CD"),
        ("kustomize-controller", "Flux"),
        ("helm-controller", "Flux"),
    ],
)
def test_a_tool_that_only_the_field_managers_show_is_rejected(manager: str, tool: str) -> None:
    """Argo CD before 3.0 marks its objects with ``app.kubernetes.io/instance``, which other tools set too."""
    declared = deployment("a")
    labels = {"app.kubernetes.io/instance": "volcano"}
    live = existing(declared, labels=labels, managedFields=managed("kubectl", manager))
    for seen in (Observation(live, declared), Observation(live, error=invalid(SELECTOR))):
        found = decided(declared, seen)
        assert found.action is TakeoverAction.REJECT
        assert found.reason == f"{tool} applies it (field manager {manager}), and would rewrite it"
        assert found.fix == (
            f"remove it from {tool} without pruning, then clear its field managers: kubectl patch deployment it "
            """-n volcano-system --type=json -p '[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'"""
        )
    live["metadata"]["managedFields"] = [{}]
    assert decided(declared, Observation(live, declared)).action is TakeoverAction.TAKE


def test_a_label_and_the_field_manager_of_a_tool_are_one_rejection() -> None:
    key = "argocd.argoproj.io/tracking-id"
    declared = body("ClusterRole", RBAC)
    live = existing(declared, annotations={key: "volcano"}, managedFields=managed("argocd-controller"))
    found = decided(declared, Observation(live, declared))
    assert found.reason == f"Argo CD applies it ({key}: volcano, field manager argocd-controller), and would rewrite it"
    assert (
        f"then remove {key} from the object and clear its field managers: kubectl patch clusterrole it --t" in found.fix
    )


def test_a_tool_that_only_writes_the_status_does_not_own_the_object() -> None:
    declared = deployment("a")
    live = existing(declared, managedFields=managed("argocd-controller", subresource="status"))
    assert decided(declared, Observation(live, declared)).action is TakeoverAction.TAKE


def test_an_object_of_a_forgotten_helm_release_is_taken() -> None:
    declared = body("ServiceAccount", namespace="volcano-system")
    live = existing(declared, annotations=FORCED, labels={"app.kubernetes.io/managed-by": "Helm"})
    assert decided(declared, Observation(live, declared)).action is TakeoverAction.TAKE


def test_a_definition_that_does_not_serve_a_stored_version_is_rejected() -> None:
    declared = definition("v1beta1")
    live = existing(definition("v1alpha1", "v1beta1", stored=("v1alpha1", "v1beta1")))
    found = decided(declared, Observation(live, declared))
    assert found.action is TakeoverAction.REJECT
    assert "version v1alpha1" in found.reason
    live = existing(definition("v1alpha1", "v1beta1", stored=("v1beta1",)))
    assert decided(declared, Observation(live, declared)).action is TakeoverAction.TAKE


def test_containers_and_webhooks_of_the_former_owner_are_not_merged() -> None:
    declared = deployment("vc-scheduler")
    found = decided(declared, Observation(existing(declared), deployment("volcano-scheduler", "vc-scheduler")))
    assert found.action is TakeoverAction.REPLACE
    assert "spec.template.spec.containers[volcano-scheduler]" in found.reason
    hooks = body("MutatingWebhookConfiguration", ADMISSION, webhooks=[{"name": "a", "rules": [1]}])
    merged = copy.deepcopy(hooks)
    merged["webhooks"].append({"name": "b"})
    assert decided(hooks, Observation(existing(hooks), merged)).action is TakeoverAction.REPLACE
    assert decided(hooks, Observation(existing(hooks), hooks)).action is TakeoverAction.TAKE


def test_fields_that_change_are_named_and_those_of_the_server_are_not() -> None:
    declared = body("Queue", "scheduling.volcano.sh/v1beta1", spec={"parent": "root", "weight": 1})
    live = existing(declared, resourceVersion="1", managedFields=[])
    applied = existing({**declared, "spec": {"parent": "root", "weight": 2}}, resourceVersion="2", labels={"a": "b"})
    found = decided(declared, Observation(live, {**applied, "status": {"x": 1}}))
    assert (found.action, found.fields) == (TakeoverAction.TAKE, ("metadata.labels", "spec.weight"))


@pytest.mark.parametrize(
    ("kind", "retained"),
    [("CustomResourceDefinition", True), ("ClusterRole", True), ("ClusterRoleBinding", False), ("Deployment", False)],
)
def test_destroy_keeps_what_is_taken_but_no_program_and_no_permission(kind: str, retained: bool) -> None:
    version = {"Deployment": "apps/v1", "CustomResourceDefinition": "v1"}.get(kind, RBAC)
    declared = body(kind, version)
    found = decided(declared, Observation(existing(declared), declared))
    assert (found.action, found.retained) == (TakeoverAction.TAKE, retained)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (
            ApiError(500, "InternalError", 'failed calling webhook "mutatequeue.volcano.sh": refused'),
            TakeoverAction.TAKE,
        ),
        (
            ApiError(500, "", "failed to create typed patch object: .spec.new: field not declared in schema"),
            TakeoverAction.TAKE,
        ),
        (ApiError(403, "Forbidden", "queues is forbidden"), TakeoverAction.REJECT),
        (ApiError(400, "BadRequest", "admission webhook denied the request: parent"), TakeoverAction.REJECT),
        (invalid("spec.weight: Invalid value: 0: must be greater than 0"), TakeoverAction.REJECT),
    ],
)
def test_other_errors_reject_unless_the_present_installation_causes_them(
    error: ApiError, action: TakeoverAction
) -> None:
    declared = body("Queue", "scheduling.volcano.sh/v1beta1")
    found = decided(declared, Observation(existing(declared), error=error))
    assert found.action is action
    assert error.message[:20] in found.reason


def test_a_denial_that_depends_on_objects_that_change_first_is_not_a_rejection() -> None:
    declared = body("Queue", "scheduling.volcano.sh/v1beta1")
    text = 'admission webhook "validatequeue.volcano.sh" denied the request: it exceeds parent queue research'
    seen = Observation(existing(declared), error=ApiError(400, "BadRequest", text))
    assert decide(declared, seen, STACK, after={"Namespace"}).action is TakeoverAction.REJECT
    found = decide(declared, seen, STACK, after={"Queue"})
    assert found.action is TakeoverAction.TAKE
    assert "exceeds parent queue research" in found.reason


def part(kind: str, name: str, namespace: str = "volcano-system", **fields: Any) -> dict[str, Any]:
    return body(kind, "x/v1", namespace=namespace, name=name, **fields)


def test_parts_that_run_beside_the_stack_come_first() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    subject = {"kind": "ServiceAccount", "name": "old", "namespace": "volcano-system"}
    hook = {"name": "a", "clientConfig": {"service": {"namespace": "volcano-system", "name": "old"}}}
    parts = [
        part("Job", "volcano-admission-init", status=ended),
        part("Role", "volcano-admission-init"),
        part("ServiceAccount", "default"),
        part("Deployment", "old", spec={"replicas": 1}),
        part("Deployment", "stopped", spec={"replicas": 0}),
        part("Deployment", "declared", spec={"replicas": 1}),
        existing(part("Job", "child"), ownerReferences=[{"kind": "CronJob", "name": "x"}]),
        part("ClusterRoleBinding", "old", "", subjects=[subject], roleRef={"kind": "ClusterRole", "name": "all"}),
        part("ClusterRoleBinding", "other", "", subjects=[], roleRef={"kind": "ClusterRole", "name": "all"}),
        part("MutatingWebhookConfiguration", "old", "", webhooks=[hook]),
    ]
    found = remains(parts, {("x/v1", "Deployment", "volcano-system", "declared")}, {"volcano-system"})
    assert [(each.object, each.runs) for each in found] == [
        ("Deployment volcano-system/old", True),
        ("MutatingWebhookConfiguration old", True),
        ("ClusterRoleBinding old", False),
        ("Deployment volcano-system/stopped", False),
        ("Job volcano-system/volcano-admission-init", False),
        ("Role volcano-system/volcano-admission-init", False),
    ]
    assert found[0].fix == "kubectl delete deployment old -n volcano-system"
    assert "it has ended" in found[4].reason


def test_configuration_and_roles_of_the_installation_are_left_too() -> None:
    subject = {"kind": "ServiceAccount", "name": "old", "namespace": "volcano-system"}
    binding = {"subjects": [subject], "roleRef": {"kind": "ClusterRole", "name": "old"}}
    token = {"kubernetes.io/service-account.name": "old"}
    built_in = {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
    parts = [
        part("ClusterRoleBinding", "declared", "", **binding),
        part("ClusterRoleBinding", "view", "", **{**binding, "roleRef": {"kind": "ClusterRole", "name": "view"}}),
        part("ClusterRoleBinding", "elsewhere", "", subjects=[], roleRef={"kind": "ClusterRole", "name": "other"}),
        part("ClusterRole", "old", ""),
        existing(part("ClusterRole", "view", ""), **built_in),
        part("ClusterRole", "other", ""),
        part("ConfigMap", "volcano-scheduler-configmap"),
        part("ConfigMap", "kube-root-ca.crt"),
        part("Secret", "old"),
        part("Secret", "used"),
        existing(part("Secret", "token"), annotations=token),
        existing(part("Secret", "sh.helm.release.v1.x.v1"), labels={"owner": "helm"}),
        part("PodDisruptionBudget", "old"),
        part("NetworkPolicy", "old"),
        part("HorizontalPodAutoscaler", "old", spec={"scaleTargetRef": {"kind": "Deployment", "name": "scheduler"}}),
    ]
    used = {("v1", "Secret", "volcano-system", "used")}
    declared = {("x/v1", "ClusterRoleBinding", "", "declared"), ("x/v1", "ClusterRoleBinding", "", "view")}
    found = remains(parts, declared, {"volcano-system"}, used={(each[1], *each[2:]) for each in used})
    assert [(each.object, each.runs, each.reason) for each in found] == [
        ("HorizontalPodAutoscaler volcano-system/old", True, "it changes the replicas of Deployment scheduler"),
        ("NetworkPolicy volcano-system/old", True, "it limits the connections of the pods that it selects"),
        ("PodDisruptionBudget volcano-system/old", True, "it limits the evictions of the pods that it selects"),
        ("ClusterRole old", False, "no object of the stack uses it"),
        ("ConfigMap volcano-system/volcano-scheduler-configmap", False, "no object of the stack uses it"),
        ("Secret volcano-system/old", False, "no object of the stack uses it"),
    ]


def test_the_secrets_that_programs_of_the_stack_use_are_known() -> None:
    pod = {
        "containers": [
            {
                "name": "a",
                "env": [{"valueFrom": {"secretKeyRef": {"name": "variable"}}}],
                "envFrom": [{"secretRef": {"name": "variables"}}],
            }
        ],
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "certificate"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "c"}}]}},
            {"name": "c", "configMap": {"name": "configuration"}},
        ],
    }
    declared = body("Deployment", "apps/v1", namespace="volcano-system", spec={"template": {"spec": pod}})
    names = {("Secret", "certificate"), ("Secret", "variable"), ("Secret", "variables"), ("Secret", "registry")}
    names |= {("Secret", "projected"), ("ConfigMap", "c"), ("ConfigMap", "configuration")}
    assert used_by(declared) == {(kind, "volcano-system", name) for kind, name in names}
    assert used_by(body("Queue")) == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [("objectSelector", {"matchLabels": {"a": "b"}}), ("matchConditions", [{"name": "n", "expression": "false"}])],
)
def test_a_webhook_is_replaced_if_it_would_keep_what_limits_it(field: str, value: Any) -> None:
    hooks = body("MutatingWebhookConfiguration", ADMISSION, webhooks=[{"name": "a", "rules": [1]}])
    merged = copy.deepcopy(hooks)
    merged["webhooks"][0] |= {field: value, "timeoutSeconds": 10, "namespaceSelector": {}}
    found = decided(hooks, Observation(existing(hooks), merged))
    assert found.action is TakeoverAction.REPLACE
    assert found.reason == f"webhooks[a].{field} would stay beside those of the stack"


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodeSelector", {"a": "b"}), ("tolerations", [{"operator": "Exists"}]), ("initContainers", [{"name": "i"}])],
)
def test_a_program_is_replaced_if_its_pods_would_keep_what_the_stack_does_not_declare(field: str, value: Any) -> None:
    declared, merged = deployment("a"), deployment("a")
    merged["spec"]["template"]["spec"] |= {field: value, "dnsPolicy": "ClusterFirst"}
    found = decided(declared, Observation(existing(declared), merged))
    assert found.action is TakeoverAction.REPLACE
    assert f"spec.template.spec.{field}" in found.reason


def test_an_installation_in_another_namespace_is_found_by_what_refers_to_it() -> None:
    hook = {"name": "a", "clientConfig": {"service": {"namespace": "volcano", "name": "old"}}}
    subject = {"kind": "ServiceAccount", "name": "old", "namespace": "kube-system"}
    bodies = [body("MutatingWebhookConfiguration", webhooks=[hook]), body("ClusterRoleBinding", subjects=[subject])]
    assert namespaces_of(bodies) == {"volcano"}


def test_a_plan_lists_rejections_first_and_counts() -> None:
    declared = deployment("a")
    seen = Observation(existing(declared, deletionTimestamp="now"))
    plan = TakeoverPlan(
        STACK,
        (
            decide(body("Queue"), Observation(existing(body("Queue")), body("Queue")), STACK),
            decide(declared, seen, STACK),
        ),
    )
    lines = list(plan.lines())
    assert lines[0].startswith("Rejected")
    assert lines[-1] == "production: 1 to take, 0 to replace, 0 left alone, 1 rejected"
    assert plan.as_json()["ok"] is False
    assert [each.path for each in plan.rejections] == ["Deployment volcano-system/it"]
    assert list(TakeoverPlan(STACK).lines()) == ["production: no object of another owner to take over"]


def test_the_old_tree_of_a_queue_that_is_taken_is_said() -> None:
    declared = body("Queue", "scheduling.volcano.sh/v1beta1", spec={"parent": "eng"})
    live = existing(declared, annotations={"volcano.sh/hierarchy": "root/eng/it"})
    found = decided(declared, Observation(live, applied=live))
    assert found.action is TakeoverAction.TAKE
    assert "volcano.sh/hierarchy: root/eng/it" in found.reason
    assert "set parent in the stack's queues" in found.fix
    assert decided(declared, Observation(existing(declared), applied=declared)).reason == ""


def test_members_by_label_of_a_hyper_node_that_is_taken_are_said() -> None:
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}}]
    declared = body("HyperNode", "topology.volcano.sh/v1alpha1", spec={"tier": 1, "members": []})
    live = existing({**declared, "spec": {"tier": 1, "members": members}})
    found = decided(declared, Observation(live, applied=declared))
    assert "labelMatch" in found.reason
    assert "topology import" in found.fix
