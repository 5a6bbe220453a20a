"""Objects of every control plane: kinds, tenants, a runtime; and the objects whose creation is timed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.admission.servers import TENANT_GROUP, Plane, awaited
from trainyard import upstream
from trainyard.api import crds
from trainyard.api.constants import PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.data import data_folder
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.policy.engines.vap.facts import PLATFORM_FACTS_NAMESPACE, platform_facts, tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.testing.cases import CaseWorld, load_world
from trainyard.settings.versions import supported_versions
from trainyard.upstream import without_descriptions

Body = dict[str, Any]

SYSTEM_NAMESPACES = ("kube-system", "kubeflow-system", "gatekeeper-system")
"""Namespaces of the platform; tenant rules do not bind them."""
TARGETS = 10
"""So many tenants create objects."""
RUNTIME = "torch-distributed"
QUEUE = "scheduling.volcano.sh/queue-name"
IMAGE = f"registry.example.com/team/train@sha256:{'0' * 64}"
_IN_FLIGHT = 32
_RBAC = "rbac.authorization.k8s.io"
_TRAINER = "trainer.kubeflow.org"
_PATHS = (
    ("jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    ("volcano", "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"),
)


def resource_of(body: Mapping[str, Any]) -> Resource:
    """Return the resource of an object; its plural is the English one."""
    group, _, version = body["apiVersion"].rpartition("/")
    plural = body["kind"].lower() + "s"
    if plural.endswith(("ys", "sss")):
        plural = plural[:-2] + "ies" if plural.endswith("ys") else plural[:-1] + "es"
    if group == "constraints.gatekeeper.sh":
        plural = body["kind"].lower()
    return Resource(group, version, plural, body["kind"], namespaced="namespace" in body["metadata"])


def apply(plane: Plane, bodies: Iterable[Body]) -> None:
    """Apply objects, many at a time, as the administrator."""

    async def run() -> None:
        async with plane.client() as client:
            limit = asyncio.Semaphore(_IN_FLIGHT)
            await asyncio.gather(*(_applied(client, limit, body) for body in bodies))

    asyncio.run(run())


async def _applied(client: Client, limit: asyncio.Semaphore, body: Body) -> None:
    async with limit:
        for attempt in range(100):
            try:
                await client.apply(resource_of(body), body, field_manager="benchmark")
                return
            except ApiError as error:
                # Its namespace, or its kind, was made a moment ago.
                if attempt == 99 or error.status not in (403, 404, 409, 500):
                    raise
                await asyncio.sleep(0.2)


def furnish(plane: Plane) -> None:
    """Make kinds, namespaces, a runtime and the rights of tenants."""
    definitions = _definitions()
    apply(plane, definitions)
    with plane.session() as session:
        for definition in definitions:
            spec = definition["spec"]
            version = next(each["name"] for each in spec["versions"] if each["storage"])
            path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1"
            awaited(f"{path} on {plane.name}", lambda path=path: session.request("GET", path).ok)  # type: ignore[misc]
    world = _world()
    facts = platform_facts(world.platform)
    apply(
        plane,
        [_namespace(name, facts=facts if name == PLATFORM_FACTS_NAMESPACE else None) for name in SYSTEM_NAMESPACES],
    )
    platform = {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "Platform",
        "metadata": {"name": PLATFORM_NAME},
        "spec": world.platform,
    }
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "normal"},
        "value": 0,
    }
    apply(plane, [platform, priority, *_rights(), _runtime()])


def add_tenants(plane: Plane, first: int, end: int) -> None:
    """Make tenants: a namespace and its limits; the first few have a user who creates objects."""
    numbers = range(first, end)
    world = _world()
    facts = tenant_facts(world.tenant_policy)
    apply(plane, (_namespace(tenant(number), {TENANT_LABEL: tenant(number)}, facts) for number in numbers))
    accounts = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": tenant(number)},
        }
        for number in numbers
        if number < TARGETS
        for name in ("default", "trainer")
    ]
    apply(plane, accounts)
    apply(plane, (_tenant_policy(world, tenant(number)) for number in numbers))


def tenant(number: int) -> str:
    """Return the namespace of a tenant."""
    return f"team-{number}"


def timed() -> dict[str, Body]:
    """Return the objects whose creation is timed, by kind; every rule allows them."""
    resources = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"}
    container = {
        "name": "node",
        "image": IMAGE,
        "command": ["torchrun", "train.py", "--epochs", "3"],
        "env": [{"name": f"OPTION_{number}", "value": str(number)} for number in range(6)],
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "shared", "mountPath": "/dev/shm"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "restartPolicy": "Never",
        "schedulerName": "volcano",
        "serviceAccountName": "trainer",
        "containers": [container],
        "volumes": [{"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
    }
    annotations = {QUEUE: "vision"}
    template = {"metadata": {"annotations": annotations}, "spec": pod}
    job = {"backoffLimit": 1, "parallelism": 2, "completions": 2, "template": template}
    trainer = {
        "numNodes": 2,
        "image": IMAGE,
        "command": container["command"],
        "env": container["env"],
        "resourcesPerNode": {"limits": resources, "requests": resources},
    }
    job_set = {
        "failurePolicy": {"maxRestarts": 3},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
    }
    return {
        "TrainJob": _body(f"{_TRAINER}/v1alpha1", "TrainJob", {"runtimeRef": {"name": RUNTIME}, "trainer": trainer}),
        "JobSet": _body("jobset.x-k8s.io/v1alpha2", "JobSet", job_set),
        "Pod": _body("v1", "Pod", pod, annotations),
    }


def _body(api_version: str, kind: str, spec: Body, annotations: Mapping[str, str] | None = None) -> Body:
    metadata = {"name": "timed", **({"annotations": dict(annotations)} if annotations else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _world() -> CaseWorld:
    return load_world(data_folder("policies"))


@functools.cache
def _definitions() -> list[Body]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [yaml.load(upstream.read(name, supported_versions(name)[0], path), Loader=loader) for name, path in _PATHS]
    return [without_descriptions(each) for each in (*found, *crds.build(found[0]))]


def _namespace(name: str, labels: Mapping[str, str] | None = None, facts: Mapping[str, str] | None = None) -> Body:
    metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(facts or {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _tenant_policy(world: CaseWorld, namespace: str) -> Body:
    return {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": TENANT_POLICY_NAME, "namespace": namespace},
        "spec": world.tenant_policy,
    }


def _runtime() -> Body:
    body: Body = yaml.safe_load(Path(data_folder("runtimes"), RUNTIME, "1.0.yaml").read_text())
    del body["metadata"]["annotations"]
    body["metadata"]["name"] = RUNTIME
    [job] = body["spec"]["template"]["spec"]["replicatedJobs"]
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    container["image"] = IMAGE
    return body


def _rights() -> list[Body]:
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["*"]}
        for group, plural in (("", "pods"), ("jobset.x-k8s.io", "jobsets"), (_TRAINER, "trainjobs"))
    ]
    name = {"name": TENANT_GROUP}
    subject = {"kind": "Group", "apiGroup": _RBAC, **name}
    reference = {"kind": "ClusterRole", "apiGroup": _RBAC, **name}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "subjects": [subject],
            "roleRef": reference,
        },
    ]
