"""What keeps an object from being deleted is named, with the finalizer, its owner and the command that helps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource
from trainyard.platform.takeover.deletion_blockers import read_blockers

CORE = {
    "resources": [
        {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": ["list"]},
        {"name": "namespaces/finalize", "kind": "Namespace", "namespaced": False, "verbs": ["update"]},
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]},
    ]
}
KUEUE = {"resources": [{"name": "workloads", "kind": "Workload", "namespaced": True, "verbs": ["list"]}]}
EXTENSIONS = {
    "resources": [
        {
            "name": "customresourcedefinitions",
            "kind": "CustomResourceDefinition",
            "namespaced": False,
            "verbs": ["list"],
        }
    ]
}
API = "/apis/apiextensions.k8s.io/v1"
DEFINITION, CLEANUP = "jobsets.jobset.x-k8s.io", "customresourcecleanup.apiextensions.k8s.io"
DEFINED = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION)
STORED = {"name": "v1alpha2", "served": True, "storage": True}
LEFT = "Some resources are remaining: pods. has 1 resource instances, workloads.kueue.x-k8s.io has 1 resource instances"


class FakeClient:
    """A client of recorded answers by path."""

    def __init__(self, answers: Mapping[str, Object | ApiError]) -> None:
        self._answers = answers

    async def request(self, method: str, path: str, **_: Any) -> Object:
        assert method == "GET"
        answer = self._answers[path]
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        return cast("Object | None", self._answers.get(resource.path(namespace=namespace, name=name)))


def body(name: str, *finalizers: str, manager: str = "", deleted: bool = True, **fields: Any) -> Object:
    metadata: dict[str, Any] = {"name": name, "finalizers": list(finalizers)}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if manager:
        owned = {".": {}, **{f'v:"{finalizer}"': {} for finalizer in finalizers}}
        metadata["managedFields"] = [
            {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
            {"manager": manager, "fieldsV1": {"f:metadata": {"f:finalizers": owned}}},
        ]
    return {"metadata": metadata, **fields}


def namespace(message: str = LEFT, deleted: bool = True, **others: str) -> Object:
    messages = {"NamespaceContentRemaining": message, **others}
    conditions = [{"type": name, "status": "True", "message": text} for name, text in messages.items()]
    return body("vision", deleted=deleted, status={"conditions": conditions})


def definition(*versions: Mapping[str, Any], scope: str = "Namespaced") -> Object:
    spec = {"group": "jobset.x-k8s.io", "names": {"plural": "jobsets", "kind": "JobSet"}, "scope": scope}
    return body(DEFINITION, CLEANUP, manager="kube-apiserver", spec={**spec, "versions": list(versions)})


def blockers(answers: Mapping[str, Object | ApiError], *address: str) -> list[str]:
    client = cast("Client", FakeClient({"/api/v1": CORE, **answers}))
    return [str(each) for each in asyncio.run(read_blockers(client, *address))]


def test_a_namespace_names_what_is_left_inside_with_its_finalizer_and_owner() -> None:
    workload = body("job-1", "kueue.x-k8s.io/resource-in-use", manager="kueue")
    workload["metadata"]["namespace"] = "vision"
    answers = {
        "/api/v1/namespaces/vision": namespace(),
        "/api/v1/namespaces/vision/pods": {"items": [body("terminating")]},
        "/apis/kueue.x-k8s.io": {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}},
        "/apis/kueue.x-k8s.io/v1beta2": KUEUE,
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/vision/workloads": {"items": [workload]},
    }
    assert blockers(answers, "v1", "Namespace", "vision") == [
        "Workload vision/job-1 has finalizer kueue.x-k8s.io/resource-in-use of kueue, whose controller must remove it; "
        "if the controller is gone: kubectl patch workloads.kueue.x-k8s.io job-1 -n vision --type=merge "
        """-p '{"metadata":{"finalizers":null}}'"""
    ]


def test_an_object_without_a_known_owner_of_its_finalizer_is_named() -> None:
    answers = {"/api/v1/namespaces/vision": body("vision", "example.com/a", "example.com/b")}
    (text,) = blockers(answers, "v1", "Namespace", "vision")
    assert text.startswith("Namespace vision has finalizers example.com/a, example.com/b, whose controller")
    assert "kubectl patch namespaces vision --type=merge" in text


def test_what_is_gone_or_not_being_deleted_is_held_by_nothing() -> None:
    assert blockers({}, "v1", "Namespace", "vision") == []
    assert blockers({"/api/v1/namespaces/vision": namespace(deleted=False)}, "v1", "Namespace", "vision") == []
    assert blockers({}, "v1", "Unknown", "vision") == []


def test_many_objects_of_a_kind_are_not_all_listed() -> None:
    pods = [body(f"p{number}", "example.com/a") for number in range(9)]
    answers = {
        "/api/v1/namespaces/vision": namespace("Some resources are remaining: pods. has 9 resource instances"),
        "/api/v1/namespaces/vision/pods": {"items": pods},
    }
    assert len(blockers(answers, "v1", "Namespace", "vision")) == 3


def held_definition(crd: Object, path: str, answer: Object | ApiError) -> list[str]:
    answers = {API: EXTENSIONS, f"{API}/customresourcedefinitions/{DEFINITION}": crd, path: answer}
    return blockers(answers, *DEFINED)


@pytest.mark.parametrize(
    ("versions", "path"),
    [
        (({"name": "v2", "served": True}, STORED), "/apis/jobset.x-k8s.io/v1alpha2/jobsets"),
        (({**STORED, "served": False}, {"name": "v2", "served": True}), "/apis/jobset.x-k8s.io/v2/jobsets"),
    ],
)
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_a_definition_names_the_objects_that_hold_it_instead_of_itself(
    versions: tuple[Mapping[str, Any], ...], path: str, scope: str
) -> None:
    job = body("job-1", "example.com/archive", manager="archiver")
    where = ""
    if scope == "Namespaced":
        job["metadata"]["namespace"], where = "research", " -n research"
    (text,) = held_definition(definition(*versions, scope=scope), path, {"items": [body("free"), job]})
    assert text.startswith(f"JobSet {'research/' if where else ''}job-1 has finalizer example.com/archive of archiver")
    assert f"kubectl patch {DEFINITION} job-1{where} --type=merge" in text


def test_no_command_removes_a_finalizer_of_kubernetes() -> None:
    """Without it objects would stay in etcd, or volumes be deleted under their pods."""
    path = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    (text,) = held_definition(definition(STORED), path, {"items": []})
    assert text == (
        f"CustomResourceDefinition {DEFINITION} has finalizer {CLEANUP}, which Kubernetes removes when all objects of "
        "the kind are deleted"
    )
    for finalizer, end in (
        ("foregroundDeletion", "when its dependents are deleted"),
        ("kubernetes.io/pvc-protection", "when no object uses it"),
    ):
        (text,) = blockers({"/api/v1/namespaces/vision": body("vision", finalizer)}, "v1", "Namespace", "vision")
        assert text == f"Namespace vision has finalizer {finalizer}, which Kubernetes removes {end}"


def test_the_command_keeps_finalizers_of_kubernetes_beside_foreign_ones() -> None:
    held = body("vision", "kubernetes.io/pv-protection", "example.com/a", "foregroundDeletion")
    (text,) = blockers({"/api/v1/namespaces/vision": held}, "v1", "Namespace", "vision")
    assert text.startswith("Namespace vision has finalizer example.com/a, whose controller")
    kept = """-p '{"metadata":{"finalizers":["kubernetes.io/pv-protection","foregroundDeletion"]}}'"""
    assert text.endswith(f"kubectl patch namespaces vision --type=merge {kept}")


def test_objects_that_cannot_be_listed_do_not_hide_the_definition() -> None:
    path = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    error = ApiError(500, "InternalError", "conversion webhook failed: connection refused")
    texts = held_definition(definition(STORED), path, error)
    assert [CLEANUP in text for text in texts] == [False, True]
    assert texts[0] == (
        f"CustomResourceDefinition {DEFINITION}: {DEFINITION} cannot be listed: conversion webhook failed: "
        f"connection refused; see kubectl get {DEFINITION} -A"
    )


def test_a_namespace_held_by_an_api_service_names_it() -> None:
    failed = (
        "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: "
        "metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1, "
        "custom.metrics.k8s.io/v1: the server is currently unable to handle the request"
    )
    answers = {"/api/v1/namespaces/vision": namespace("", NamespaceDeletionDiscoveryFailure=failed)}
    assert blockers(answers, "v1", "Namespace", "vision") == [
        f"Namespace vision: {failed}; start the server of the API, or delete its APIService if it is gone: see "
        "kubectl get apiservices v1beta1.metrics.k8s.io v1.custom.metrics.k8s.io"
    ]


def test_a_namespace_held_by_a_webhook_or_an_unreadable_group_says_so() -> None:
    denied = (
        'Failed to delete all resource types, 1 remaining: admission webhook "guard.example.com" denied the request'
    )
    parsing = "invalid group version"
    conditions = {"NamespaceDeletionContentFailure": denied, "NamespaceDeletionGroupVersionParsingFailure": parsing}
    answers = {"/api/v1/namespaces/vision": namespace("", **conditions)}
    see = "see kubectl get namespace vision -o yaml"
    found = blockers(answers, "v1", "Namespace", "vision")
    assert sorted(found) == [f"Namespace vision: {denied}; {see}", f"Namespace vision: {parsing}; {see}"]


def test_conditions_that_are_not_true_hold_nothing() -> None:
    """The controller sets each of them, with the status False and a text, where nothing failed."""
    held = namespace("", NamespaceDeletionDiscoveryFailure="All resources successfully discovered")
    for condition in held["status"]["conditions"]:
        condition["status"] = "False"
    assert blockers({"/api/v1/namespaces/vision": held}, "v1", "Namespace", "vision") == []


def test_a_kind_that_cannot_be_listed_does_not_hide_the_others() -> None:
    answers = {
        "/api/v1/namespaces/vision": namespace(),
        "/api/v1/namespaces/vision/pods": {"items": [body("p", "example.com/a")]},
        "/apis/kueue.x-k8s.io": ApiError(503, "ServiceUnavailable", "the server is unable to handle the request"),
    }
    pod, kueue = blockers(answers, "v1", "Namespace", "vision")
    assert pod.startswith("Pod p has finalizer")
    assert kueue == (
        "Namespace vision: workloads.kueue.x-k8s.io cannot be listed: the server is unable to handle the request; "
        "see kubectl get workloads.kueue.x-k8s.io -n vision"
    )
