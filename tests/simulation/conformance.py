"""The same random requests to the model and to the real API server, and what can be compared of the answers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS

_KINDS = (CONFIG_MAPS, TRAIN_JOBS, POD_GROUPS, JOB_SETS)
_NAMES = ("x", "y")
_STRANGER = "00000000-0000-0000-0000-00000000dead"
_MANAGERS = ("red", "blue")


@dataclass(frozen=True)
class Operation:
    """One request, with preconditions in words: ``good`` as read before, ``bad``, or none."""

    verb: str
    resource: Resource
    name: str
    value: int = 0
    uid: str = ""
    version: str = ""
    manager: str = ""
    force: bool = False
    propagation: str = "Background"

    def __str__(self) -> str:
        words = [self.verb, self.resource.kind, self.name, f"value={self.value}"]
        words += [f"{name}={value}" for name in ("uid", "version", "manager") if (value := getattr(self, name))]
        return " ".join([*words, *(["force"] if self.force else [])])


_VERBS = {
    "create": 8,
    "dry run": 2,
    "patch spec": 6,
    "patch labels": 4,
    "patch status": 3,
    "json patch": 2,
    "replace": 4,
    "apply": 8,
    "delete": 4,
    "add finalizer": 2,
    "remove finalizers": 2,
    "suspend": 3,
    "resume": 3,
    "patch pods": 3,
    "patch image": 3,
    "list": 2,
    "get": 1,
}


def drawn_operations(seed: int, count: int = 40) -> list[Operation]:
    """Return the requests of a seed."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        verb = rng.choices(list(_VERBS), list(_VERBS.values()))[0]
        resource = rng.choice(_KINDS)
        if verb in ("suspend", "resume", "patch pods", "patch image"):
            resource = JOB_SETS
        elif verb == "patch status":
            resource = TRAIN_JOBS
        uid = rng.choices(("", "good", "bad"), (4, 3, 1))[0]
        version = rng.choices(("", "good", "bad"), (4, 2, 1))[0]
        if resource is JOB_SETS and version == "good":
            # JobSet's controller writes meanwhile.
            version = ""
        propagation = rng.choice(("Background", "Background", "Foreground", "Orphan"))
        found.append(
            Operation(
                verb,
                resource,
                rng.choice(_NAMES),
                rng.randint(1, 3),
                uid,
                version,
                rng.choice(_MANAGERS),
                rng.random() < 0.5,
                propagation,
            )
        )
    return found


async def replayed(client: Client, namespace: str, operations: Sequence[Operation]) -> list[str]:
    """Send the requests one after another and return what each was answered."""
    return [await _answered(client, namespace, operation) for operation in operations]


async def _answered(client: Client, namespace: str, operation: Operation) -> str:
    try:
        result = await _sent(client, namespace, operation)
    except ApiError as error:
        return f"{error.status} {error.reason if error.status != 500 else ''}".strip()
    if isinstance(result, dict):
        return f"ok {json.dumps(_essence(operation.resource, result), sort_keys=True)}"
    return f"ok {result}"


async def _sent(client: Client, namespace: str, operation: Operation) -> Any:
    resource, name = operation.resource, operation.name
    held = await client.find(resource, name, namespace=namespace)
    uid, version = (_precondition(operation, field, held) for field in ("uid", "resourceVersion"))
    metadata: Object = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
    manager = operation.manager
    match operation.verb:
        case "create":
            return await client.create(resource, _body(operation, namespace), field_manager=manager)
        case "dry run":
            body = _body(operation, namespace)
            return await client.create(resource, body, field_manager=manager, dry_run=True)
        case "apply":
            body = _body(operation, namespace)
            body["metadata"]["labels"] = {"color": f"{operation.value}", manager: "yes"}
            if uid:
                body["metadata"]["uid"] = uid
            return await client.apply(resource, body, field_manager=manager, force=operation.force)
        case "replace":
            if held is None:
                held = _body(operation, namespace)
            body = {**held, **_changed(operation)}
            kept = {key: value for key, value in held["metadata"].items() if key in ("name", "namespace", "finalizers")}
            body["metadata"] = {**kept, **metadata, "labels": {"replaced": str(operation.value)}}
            if resource is not CONFIG_MAPS and "resourceVersion" not in metadata:
                return "not sent"
            return await client.replace(resource, body)
        case "delete":
            return await client.delete(
                resource, name, namespace=namespace, uid=uid, resource_version=version, propagation="Background"
            )
        case "list":
            page = await client.page(resource, namespace=namespace, label_selector=f"color={operation.value}")
            return sorted(item["metadata"]["name"] for item in page.items)
        case "get":
            found = await client.find_confirmed(resource, name, namespace=namespace, metadata_only=True)
            return found is not None and found["metadata"]["name"]
        case "json patch":
            test = {"op": "test", "path": "/metadata/uid", "value": uid or (held or {}).get("metadata", {}).get("uid")}
            add = {"op": "add", "path": "/metadata/annotations", "value": {"by": f"{operation.value}"}}
            return await client.json_patch(resource, name, [test, add], namespace=namespace, field_manager=manager)
    sub = "status" if operation.verb == "patch status" else None
    patch = {**_patch(operation, held), "metadata": {**_patch(operation, held).get("metadata", {}), **metadata}}
    return await client.merge_patch(resource, name, patch, namespace=namespace, subresource=sub, field_manager=manager)


def _precondition(operation: Operation, field: str, held: Object | None) -> str | None:
    asked = operation.uid if field == "uid" else operation.version
    if asked == "good" and held is not None:
        return str(held["metadata"][field])
    if asked == "bad":
        return _STRANGER if field == "uid" else "1"
    return None


def _patch(operation: Operation, held: Object | None) -> Object:
    value = operation.value
    match operation.verb:
        case "patch labels":
            return {"metadata": {"labels": {"color": str(value)}}}
        case "patch status":
            return {"status": {"jobsStatus": [_counts(value)]}, "metadata": {"labels": {"ignored": "yes"}}}
        case "add finalizer":
            return {"metadata": {"finalizers": ["example.com/kept"]}}
        case "remove finalizers":
            return {"metadata": {"finalizers": None}}
        case "suspend" | "resume":
            return {"spec": {"suspend": operation.verb == "suspend", "ttlSecondsAfterFinished": 1000 + value}}
        case "patch pods" | "patch image" if held is not None:
            jobs = [_edited(job, operation) for job in held["spec"]["replicatedJobs"]]
            return {"spec": {"replicatedJobs": jobs}}
    return _changed(operation)


def _edited(job: Object, operation: Operation) -> Object:
    template = job["template"]["spec"]["template"]
    pod = dict(template["spec"])
    if operation.verb == "patch pods":
        pod["nodeSelector"] = {"pool": str(operation.value)}
    else:
        pod["containers"] = [{**pod["containers"][0], "image": f"image:{operation.value}"}]
    spec = {**job["template"]["spec"], "template": {**template, "spec": pod}}
    return {**job, "template": {**job["template"], "spec": spec}}


def _changed(operation: Operation) -> Object:
    value = operation.value
    if operation.resource is CONFIG_MAPS:
        return {"data": {"value": str(value)}}
    if operation.resource is TRAIN_JOBS:
        return {"spec": _train_job_spec(suspend=value == 1)}
    if operation.resource is POD_GROUPS:
        return {"spec": {"minMember": value, "queue": "default"}}
    return {"spec": {"ttlSecondsAfterFinished": 1000 + value}}


def _train_job_spec(*, suspend: bool) -> Object:
    reference = {"name": "torch", "kind": "ClusterTrainingRuntime", "apiGroup": TRAIN_JOBS.group}
    return {"runtimeRef": reference, "suspend": suspend, "managedBy": "trainer.kubeflow.org/trainjob-controller"}


def _body(operation: Operation, namespace: str) -> Object:
    resource = operation.resource
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    body["metadata"] = {"name": operation.name, "namespace": namespace, "labels": {"color": str(operation.value)}}
    if resource is not JOB_SETS:
        return {**body, **_changed(operation)}
    pod = {"containers": [{"name": "node", "image": "image:1"}], "restartPolicy": "Never"}
    job = {"name": "node", "template": {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod}}}}
    return {**body, "spec": {"replicatedJobs": [job], "suspend": operation.value != 3}}


def _counts(value: int) -> Object:
    return {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": value, "suspended": 0}


def _essence(resource: Resource, body: Mapping[str, Any]) -> Object:
    metadata, spec = body["metadata"], body.get("spec") or {}
    found: Object = {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "generation": metadata.get("generation"),
        "finalizers": metadata.get("finalizers") or [],
        "going": "deletionTimestamp" in metadata,
    }
    if resource is CONFIG_MAPS:
        found["data"] = body.get("data")
    elif resource is JOB_SETS:
        pods = [job["template"]["spec"]["template"]["spec"] for job in spec.get("replicatedJobs") or ()]
        found["spec"] = [spec.get("suspend"), spec.get("ttlSecondsAfterFinished"), spec.get("successPolicy")]
        found["pods"] = [(pod["containers"][0]["image"], pod.get("nodeSelector")) for pod in pods]
    elif resource is TRAIN_JOBS:
        found["spec"] = spec.get("suspend")
        found["status"] = body.get("status")
    else:
        found["spec"] = spec.get("minMember")
    return found
