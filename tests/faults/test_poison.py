"""No object ends the controller, keeps it from starting, or keeps it from its other work."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.faults.bench import Api
from tests.faults.conftest import Launch
from tests.faults.scene import Scene, foreign_content, runtime, sentinel
from trainyard.kube.kinds import CONFIG_MAPS, PRIORITY_CLASSES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    PLATFORMS,
    POD_GROUPS,
    TENANT_POLICIES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
)

pytestmark = pytest.mark.cluster
Body = dict[str, Any]
OURS = {"trainyard.dev/train-job": "poison"}
ODD = ["", "x", "-1", "1e99", "9" * 40, "null", "{"]


def odd_job_sets() -> list[Body]:
    """JobSets that the CRD admits, or may admit, and no JobSet controller would make."""
    containers = {"containers": [{"name": "node", "image": "image:1"}]}
    whole = foreign_content(JOB_SETS)["spec"]["replicatedJobs"][0]
    specs: list[Any] = [
        {"replicatedJobs": [{"name": "a", "template": {}}]},
        {"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]},
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {}}}}]},
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"metadata": None, "spec": containers}}}}]},
        {"replicatedJobs": [{"name": "a", "template": {"metadata": {"labels": None, "annotations": None}}}]},
        {"replicatedJobs": []},
        {"replicatedJobs": [{**whole, "replicas": 0}]},
        {"suspend": True},
        {},
        None,
    ]
    bodies = [{} if spec is None else {"spec": spec} for spec in specs]
    return bodies


def odd_metadata(name: str, uid: str) -> list[Body]:
    """Metadata that claims to be ours, in ways that we would not write."""
    owner = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "name": name, "uid": uid}
    annotations = [
        {key: value}
        for key in ("trainyard.dev/ttl-seconds-after-finished", "trainyard.dev/frozen-digest")
        for value in ODD
    ]
    return [
        {"labels": OURS},
        {"labels": {"trainyard.dev/train-job": ""}},
        {"labels": OURS, "ownerReferences": [owner]},
        {"labels": OURS, "ownerReferences": [{**owner, "controller": True, "name": "another"}]},
        {"labels": OURS, "ownerReferences": [{**owner, "controller": True, "apiVersion": "v1", "kind": "Pod"}]},
        {"labels": OURS, "ownerReferences": [{**owner, "controller": True, "apiVersion": "a/b/c"}]},
        *({"labels": OURS, "annotations": each} for each in annotations),
    ]


def odd_runtimes() -> list[Body]:
    """Runtimes that the CRD may admit."""
    whole = runtime()["spec"]
    found = [{}, {"template": {}}, {"template": {"spec": {}}}, {"template": {"spec": {"replicatedJobs": []}}}]
    jobs = [
        {"name": "node"},
        {"name": "node", "template": {}},
        {"name": "node", "template": {"spec": {}}},
        {"name": "node", "template": {"spec": {"template": {}}}},
        {"name": "node", "template": {"spec": {"template": {"spec": {"containers": []}}}}},
        {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}},
    ]
    found += [{"template": {"spec": {"replicatedJobs": [job]}}} for job in jobs]
    policies = [{"torch": {"numProcPerNode": "many"}}, {"mpi": {}}, {"numNodes": 2147483647}, {"jax": {}, "torch": {}}]
    found += [{**copy.deepcopy(whole), "mlPolicy": policy} for policy in policies]
    found += [{**copy.deepcopy(whole), "podGroupPolicy": each} for each in ({}, {"volcano": {}, "coscheduling": {}})]
    return found


def odd_train_jobs() -> list[Body]:
    """TrainJobs that the CRD may admit."""
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "torch"}
    specs = [
        {"runtimeRef": {"name": ""}},
        {"runtimeRef": {**reference, "kind": "Pod"}},
        {"runtimeRef": {**reference, "apiGroup": "example.com"}},
        {"trainer": {}},
        {"trainer": {"numNodes": 0}},
        {"trainer": {"numNodes": 2147483647}},
        {"trainer": {"resourcesPerNode": {"limits": {"cpu": "9" * 60}}}},
        {"trainer": {"env": [{"name": "A", "value": "$(A)"}, {"name": "A"}]}},
        {"activeDeadlineSeconds": 2**63 - 1},
        {"activeDeadlineSeconds": 1},
        {"runtimePatches": [{"manager": "a.b/c"}]},
        {
            "runtimePatches": [
                {
                    "manager": "a.b/c",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "none"}]}}},
                }
            ]
        },
        {"labels": {"a": ""}, "annotations": {"trainyard.dev/ttl-seconds-after-finished": "-1"}},
        {"initializer": {}},
        {"initializer": {"dataset": {"storageUri": "x"}}},
        {"managedBy": "kueue.x-k8s.io/multikueue"},
    ]
    return [{"spec": {"runtimeRef": reference, **spec}} for spec in specs]


def condition(kind: str, status: str, when: str) -> Body:
    return {"type": kind, "status": status, "reason": "Odd", "message": "", "lastTransitionTime": when}


ODD_STATUS: list[Body] = [
    {"conditions": []},
    {"conditions": [condition("Complete", "Unknown", "0001-01-01T00:00:00Z")]},
    {"conditions": [condition("Suspended", "False", "9999-12-31T23:59:59Z")]},
    {"conditions": [condition("Suspended", "False", "0001-01-01T00:00:00Z")]},
    {"jobsStatus": [{"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}]},
    {"jobSet": {"uid": ""}},
    {"jobSet": {"uid": "somebody"}},
    {"jobSet": {"remake": "why not"}},
    {"jobSet": {"uid": "somebody", "remake": "why not"}},
]


def put(api: Api, resource: Resource, name: str, body: Body, namespace: str | None) -> bool:
    """Store an object if the API server takes it."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **body.get("metadata", {})}
    stamp = {"apiVersion": resource.api_version, "kind": resource.kind}
    path = resource.path(namespace=namespace)
    return api.session.request("POST", path, {**stamp, **body, "metadata": metadata}).ok


def spread(scene: Scene) -> dict[str, int]:
    """Store whatever the API server takes, in this namespace and in kube-system; return how many of each kind."""
    taken: dict[str, int] = {}

    def many(resource: Resource, bodies: list[Body], *, where: str | None = scene.namespace, prefix: str = "") -> None:
        start = prefix or (f"odd-{scene.namespace[-8:].strip('-')}" if where != scene.namespace else "odd")
        for number, body in enumerate(bodies):
            stored = put(scene.api, resource, f"{start}-{number}", body, where)
            taken[resource.kind] = taken.get(resource.kind, 0) + stored

    uid = scene.create(CONFIG_MAPS, {"metadata": {"name": "owner"}})["metadata"]["uid"]
    many(JOB_SETS, odd_job_sets())
    many(JOB_SETS, odd_job_sets(), where="kube-system")
    many(JOB_SETS, [{**body, "metadata": {"labels": OURS}} for body in odd_job_sets()], prefix="ours")
    claims = odd_metadata("poison", uid)
    many(JOB_SETS, [{**foreign_content(JOB_SETS), "metadata": each} for each in claims], prefix="claim")
    many(POD_GROUPS, [{}, {"spec": {}}, {"spec": {"minMember": -1}}])
    many(POD_GROUPS, [{"metadata": each} for each in claims], prefix="claim")
    many(TRAINING_RUNTIMES, odd_runtimes())
    many(CLUSTER_TRAINING_RUNTIMES, odd_runtimes(), where=None)
    many(TENANT_POLICIES, [{}, {"spec": {}}, {"spec": {"queues": []}}], prefix="tenant")
    put(scene.api, TENANT_POLICIES, "tenant", {"spec": {}}, scene.namespace)
    taken["Platform"] = put(scene.api, PLATFORMS, "platform", {"spec": {}}, None)
    many(PRIORITY_CLASSES, [{"value": -1}], where=None)
    many(TRAIN_JOBS, odd_train_jobs())
    for number in range(len(odd_runtimes())):
        reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": f"odd-{number}"}
        many(TRAIN_JOBS, [{"spec": {"runtimeRef": reference}}], prefix=f"with-{number}")
    for number, status in enumerate(ODD_STATUS):
        spec = {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime"}, "activeDeadlineSeconds": 2**62}
        if put(scene.api, TRAIN_JOBS, f"status-{number}", {"spec": spec}, scene.namespace):
            path = TRAIN_JOBS.path(namespace=scene.namespace, name=f"status-{number}", subresource="status")
            taken["status"] = taken.get("status", 0) + scene.api.session.request("PATCH", path, {"status": status}).ok
    return taken


@pytest.fixture
def cleared(scene: Scene) -> Any:
    """Remove what lies outside the namespace."""
    yield
    prefix = f"odd-{scene.namespace[-8:].strip('-')}"
    for resource, namespace in ((JOB_SETS, "kube-system"), (CLUSTER_TRAINING_RUNTIMES, None), (PRIORITY_CLASSES, None)):
        for body in scene.api.list(resource, namespace):
            if body["metadata"]["name"].startswith(prefix):
                scene.api.delete(resource, body["metadata"]["name"], namespace)
    scene.api.delete(PLATFORMS, "platform")


@pytest.mark.usefixtures("cleared")
def test_the_controller_works_among_odd_objects_and_starts_among_them(scene: Scene, launch: Launch) -> None:
    replica = launch()
    scene.runtime()
    taken = spread(scene)
    assert taken["JobSet"] > 10
    assert taken["TrainJob"] > 10
    sentinel(scene, "meanwhile")
    assert replica.controller.alive
    replica.controller.kill()
    replica.controller.start()
    sentinel(scene, "afterwards")
    assert replica.controller.alive
