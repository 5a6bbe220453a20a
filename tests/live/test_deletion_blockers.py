"""What keeps an object from being deleted is named, with the finalizer, its owner and the command that helps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from trainyard.kube import Client, Object, Resource
from trainyard.live.deletion_blockers import read_blockers

CORE = {
    "resources": [
        {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": ["list"]},
        {"name": "namespaces/finalize", "kind": "Namespace", "namespaced": False, "verbs": ["update"]},
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]},
    ]
}
KUEUE = {"resources": [{"name": "workloads", "kind": "Workload", "namespaced": True, "verbs": ["list"]}]}
LEFT = "Some resources are remaining: pods. has 1 resource instances, workloads.kueue.x-k8s.io has 1 resource instances"


class FakeClient:
    """A client of recorded answers by path."""

    def __init__(self, answers: Mapping[str, Object]) -> None:
        self._answers = answers

    async def request(self, method: str, path: str, **_: Any) -> Object:
        assert method == "GET"
        return self._answers[path]

    async def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        return self._answers.get(resource.path(namespace=namespace, name=name))


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


def namespace(message: str = LEFT, deleted: bool = True) -> Object:
    conditions = [{"type": "NamespaceContentRemaining", "status": "True", "message": message}]
    return body("vision", deleted=deleted, status={"conditions": conditions})


def blockers(answers: Mapping[str, Object], *address: str) -> list[str]:
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
