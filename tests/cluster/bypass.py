"""Attacks on the rules of a live platform: who makes them, on what, and how the API server answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard.policy.session import Answer, Session

__all__ = ["ATTEMPTS", "GROUPS", "TENANT", "Attempt", "Cluster", "Kind", "good", "load_attempts", "stack_settings"]

TENANT: Final = "red"
GROUPS: Final = {role: (f"{TENANT}-{role}",) for role in ("submit", "author", "raw")} | {"careless": ("careless",)}
ATTEMPTS: Final = Path(__file__).with_name("bypass_attempts.yaml")
IMAGE: Final = "registry.example/train:1"

Body = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Where the objects of a kind are."""

    api: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of the collection in a namespace, or of one object."""
        root = "/api/v1" if self.api == "v1" else f"/apis/{self.api}"
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


KINDS: Final = {
    "TrainJob": Kind("trainer.kubeflow.org/v1alpha1", "trainjobs"),
    "TrainingRuntime": Kind("trainer.kubeflow.org/v1alpha1", "trainingruntimes"),
    "ClusterTrainingRuntime": Kind("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", namespaced=False),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "VolcanoJob": Kind("batch.volcano.sh/v1alpha1", "jobs"),
    "VolcanoCronJob": Kind("batch.volcano.sh/v1alpha1", "cronjobs"),
    "JobFlow": Kind("flow.volcano.sh/v1alpha1", "jobflows"),
    "Job": Kind("batch/v1", "jobs"),
    "CronJob": Kind("batch/v1", "cronjobs"),
    "Deployment": Kind("apps/v1", "deployments"),
    "Pod": Kind("v1", "pods"),
    "PodGroup": Kind("scheduling.volcano.sh/v1beta1", "podgroups"),
    "Queue": Kind("scheduling.volcano.sh/v1beta1", "queues", namespaced=False),
    "HyperNode": Kind("topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False),
    "Command": Kind("bus.volcano.sh/v1alpha1", "commands"),
    "ConfigMap": Kind("v1", "configmaps"),
    "Secret": Kind("v1", "secrets"),
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "ServiceAccount": Kind("v1", "serviceaccounts"),
    "ResourceQuota": Kind("v1", "resourcequotas"),
    "TenantPolicy": Kind("trainyard.dev/v1alpha1", "tenantpolicies"),
    "Platform": Kind("trainyard.dev/v1alpha1", "platforms", namespaced=False),
    "Role": Kind("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "CertificateSigningRequest": Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False),
    "CustomResourceDefinition": Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
    **{
        name: Kind("admissionregistration.k8s.io/v1", f"{name.lower()}s", namespaced=False)
        for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    },
    "ValidatingAdmissionPolicy": Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": Kind(
        "admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False
    ),
}

GATES: Final = ("example.com/hold", "kueue.x-k8s.io/admission")
POD_SPEC: Final[Body] = {"restartPolicy": "Never", "containers": [{"name": "node", "image": IMAGE}]}
_GANG_POD = {**POD_SPEC, "schedulerName": "volcano"}
_TASK = {"name": "node", "replicas": 1, "template": {"spec": {**POD_SPEC}}}
_JOB = {"parallelism": 1, "completions": 1, "template": {"spec": _GANG_POD}}
_STEP = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
_CRON = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}
_LABELS = {"app": "made"}

GOOD: Final[Mapping[str, tuple[str, Body]]] = {
    "train-job": (
        "TrainJob",
        {
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "suspend": True,
                "trainer": {
                    "numNodes": 1,
                    "command": ["train"],
                    "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}},
                },
            }
        },
    ),
    "runtime": (
        "TrainingRuntime",
        {
            "metadata": {"labels": {"trainer.kubeflow.org/framework": "torch"}},
            "spec": {
                "mlPolicy": {"numNodes": 1, "torch": {}},
                "podGroupPolicy": {"volcano": {}},
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {"name": "node", "template": {"metadata": _STEP, "spec": {"template": {"spec": POD_SPEC}}}}
                        ]
                    }
                },
            },
        },
    ),
    "job-set": (
        "JobSet",
        {
            "spec": {
                "suspend": True,
                "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": _JOB}}],
            }
        },
    ),
    "volcano-job": (
        "VolcanoJob",
        {"spec": {"schedulerName": "volcano", "queue": TENANT, "minAvailable": 1, "tasks": [_TASK]}},
    ),
    "job": ("Job", {"spec": {"suspend": True, "template": {"spec": POD_SPEC}}}),
    "pod": ("Pod", {"spec": {**POD_SPEC, "schedulingGates": [{"name": name} for name in GATES]}}),
    "pod-group": ("PodGroup", {"spec": {"minMember": 1, "queue": TENANT}}),
    "secret": ("Secret", {"stringData": {"key": "value"}}),
    "config-map": ("ConfigMap", {"data": {"key": "value"}}),
    "cron-job": ("CronJob", {"spec": _CRON}),
    "deployment": (
        "Deployment",
        {
            "spec": {
                "selector": {"matchLabels": _LABELS},
                "template": {
                    "metadata": {"labels": _LABELS},
                    "spec": {"containers": [{"name": "node", "image": IMAGE}]},
                },
            }
        },
    ),
    "volcano-cron-job": (
        "VolcanoCronJob",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"minAvailable": 1, "tasks": [_TASK]}}}},
    ),
    "job-flow": ("JobFlow", {"spec": {"flows": [{"name": "a"}], "jobRetainPolicy": "delete"}}),
    "command": (
        "Command",
        {
            "action": "CloseQueue",
            "target": {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "name": "vision",
                "uid": "00000000-0000-0000-0000-000000000000",
            },
        },
    ),
    "queue": ("Queue", {"spec": {"weight": 1, "parent": "root"}}),
    "hyper-node": ("HyperNode", {"spec": {"tier": 1, "members": []}}),
    "namespace": ("Namespace", {}),
    "role-binding": (
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"{TENANT}-raw"}],
        },
    ),
    "certificate-request": (
        "CertificateSigningRequest",
        {
            "spec": {
                "request": "bm9uZQ==",
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            }
        },
    ),
}
"""Objects that the tenant may make, or could if somebody gave it the right: by name, their kind and content."""


def stack_settings(config: dict[str, Any]) -> None:
    """Add the tenant, and what the attempts need beside it, to a stack's configuration."""
    config["trainyard:queues"][TENANT] = {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "16"}}
    config["trainyard:tenants"][TENANT] = {
        "queues": [TENANT],
        "runtimes": ["torch-distributed", "torch-distributed-gang"],
        "priorityClasses": ["training"],
        "serviceAccounts": ["default", "trainer"],
        "maxAcceleratorsPerJob": 16,
        "podSecurity": "privileged",
        "roles": {role: list(GROUPS[role]) for role in ("submit", "author", "raw")},
    }
    config["trainyard:fabric"]["acceleratorResources"] = ["example.com/npu"]
    exemption = {"rule": "ESC-001", "namespace": TENANT, "kind": "Pod", "name": "exempt", "expires": "2199-01-01"}
    config.setdefault("trainyard:policies", {}).update(
        reports=True,
        exemptions=[
            {**exemption, "owner": "ann@example.com", "reason": "a test of exemptions", "expires": "2199-01-01"}
        ],
    )


def good(name: str, called: str, **changes: Any) -> tuple[str, Body]:
    """Return a kind and a good object of it, with changes of an attempt."""
    kind, content = GOOD[name]
    body = copy.deepcopy({"apiVersion": KINDS[kind].api, "kind": kind.removeprefix("Volcano"), **content})
    body["metadata"] = {"name": called, **body.get("metadata", {})}
    if KINDS[kind].namespaced:
        body["metadata"].setdefault("namespace", TENANT)
    _change(kind, body, changes)
    return kind, _without_null(body)


@dataclass(frozen=True)
class Attempt:
    """One attack.

    Parameters
    ----------
    about
        What it is after.
    number
        Its place in the list.
    content
        As the list has it.
    """

    about: str
    number: int
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What is tried, and by whom, for people."""
        return f"{self.about}: {self.content['attack']} ({self.who})"

    @property
    def who(self) -> str:
        return str(self.content.get("as", "submit"))

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the answer must name: one of these; nothing where the request is to succeed."""
        return tuple(str(self.content["refused"]).split("|")) if "refused" in self.content else ()

    def refused(self, answer: Answer) -> bool:
        """Whether an answer is the refusal that is expected, and says why."""
        if answer.status not in (400, 403, 422):
            return False
        for wanted in self.refusals:
            if wanted == "RBAC" and answer.status == 403 and " cannot " in answer.message:
                return True
            if wanted == "Kubernetes" and answer.status == 422:
                return True
            if wanted not in ("RBAC", "Kubernetes") and wanted in answer.message:
                return True
        return False


class Cluster:
    """The platform under attack.

    Parameters
    ----------
    session
        Connection with the rights of an administrator, who can take anybody's place.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def send(self, who: str, method: str, path: str, body: Any = None, *, patch: str = "merge-patch") -> Answer:
        """Make a request in somebody's place."""
        groups = (*GROUPS[who], "system:authenticated")
        headers = [("Impersonate-User", f"{who}@example.com"), *(("Impersonate-Group", group) for group in groups)]
        return self.session.request(method, path, body, headers=headers, patch=patch)

    def object(self, kind: str, name: str, namespace: str = TENANT) -> Body | None:
        """Return an object as it is stored, None where there is none."""
        answer = self.session.request("GET", KINDS[kind].path(namespace, name))
        return dict(answer.body) if answer.ok else None

    def create(self, who: str, name: str, called: str, **changes: Any) -> Answer:
        """Create a good object in somebody's place."""
        kind, body = good(name, called, **changes)
        return self.send(who, "POST", KINDS[kind].path(body["metadata"].get("namespace", "")), body)

    def delete(self, kind: str, name: str, namespace: str = TENANT) -> None:
        """Delete an object at once, as an administrator."""
        path = KINDS[kind].path(namespace, name)
        self.session.request("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")

    def try_it(self, attempt: Attempt) -> tuple[Answer, bool]:
        """Make an attempt; return the answer, and whether everything is as it was."""
        content, who = attempt.content, attempt.who
        if "change" in content:
            kind, name = content["change"].split()
            before = _judged(self.object(kind, name))
            assert before is not None, f"{kind} {name} is not there to be attacked"
            answer = self._changed(attempt, kind, name)
            return answer, _judged(self.object(kind, name)) == before
        if "make" in content:
            kind, body = _wanted(attempt)
            namespace = body["metadata"].get("namespace", "")
            path, before = KINDS[kind].path(namespace), self._names(kind, namespace)
            answer = self._made(attempt, path, body)
            return answer, self._names(kind, namespace) == before
        root = f"/api/v1/namespaces/{TENANT}"
        if "post" in content:
            return self.send(who, "POST", f"{root}/{content['post']}", content.get("body")), True
        path = KINDS["JobSet"].path(TENANT)
        before = self._names("JobSet", TENANT)
        return self.send(who, "DELETE", path), self._names("JobSet", TENANT) == before

    def make(self, attempt: Attempt) -> tuple[str, str, Answer]:
        """Create what an attempt creates; return kind and name with the answer."""
        kind, body = _wanted(attempt)
        answer = self._made(attempt, KINDS[kind].path(body["metadata"].get("namespace", "")), body)
        return kind, body["metadata"]["name"], answer

    def _made(self, attempt: Attempt, path: str, body: Body) -> Answer:
        content, who = attempt.content, attempt.who
        query = "?dryRun=All" if content.get("dry") else ""
        if content.get("how") == "apply":
            path = f"{path}/{body['metadata']['name']}?fieldManager={content['manager']}&force=true"
            return self.send(who, "PATCH", path, body, patch="apply-patch")
        return self.send(who, "POST", path + query, body)

    def _changed(self, attempt: Attempt, kind: str, name: str) -> Answer:
        content, who = attempt.content, attempt.who
        path = KINDS[kind].path(TENANT, name)
        path += f"/{content['subresource']}" if "subresource" in content else ""
        if content.get("delete"):
            return self.send(who, "DELETE", path)
        if content.get("how") == "json":
            return self.send(who, "PATCH", path, content["json"], patch="json-patch")
        body = {key: content[key] for key in ("metadata", "spec") if key in content} | content.get("fields", {})
        if content.get("how") == "apply":
            body |= {"apiVersion": KINDS[kind].api, "kind": kind}
            body["metadata"] = {**body.get("metadata", {}), "name": name, "namespace": TENANT}
            path += f"?fieldManager={content['manager']}&force=true"
            return self.send(who, "PATCH", path, body, patch="apply-patch")
        patch = "strategic-merge-patch" if content.get("subresource") == "ephemeralcontainers" else "merge-patch"
        return self.send(who, "PATCH", path, body, patch=patch)

    def _names(self, kind: str, namespace: str) -> set[str]:
        answer = self.session.request("GET", KINDS[kind].path(namespace))
        return {item["metadata"]["name"] for item in answer.body["items"]}


_OF_PODS: Final = ("template", "jobMetadata", "podMetadata", "pod", "container")
_CHANGES: Final = (*_OF_PODS, "metadata", "spec", "fields", "by", "replicas")


def load_attempts() -> list[Attempt]:
    """Return the list."""
    groups = yaml.safe_load(ATTEMPTS.read_text(encoding="utf-8"))
    pairs = [(group["about"], each) for group in groups for each in group["attempts"]]
    return [Attempt(about, number, content) for number, (about, content) in enumerate(pairs)]


def _wanted(attempt: Attempt) -> tuple[str, Body]:
    changes = {key: attempt.content[key] for key in _CHANGES if key in attempt.content}
    return good(attempt.content["make"], f"attempt-{attempt.number}", **changes)


def _change(kind: str, body: Body, changes: Mapping[str, Any]) -> None:
    """Make the changes of an attempt in a good object."""
    for part in ("metadata", "spec"):
        if part in changes:
            _merge(body.setdefault(part, {}), changes[part])
    _merge(body, changes.get("fields", {}))
    if "replicas" in changes:
        body["spec"]["replicatedJobs"][0]["replicas"] = changes["replicas"]
    wanted = {
        name: changes[name]
        for name in ("template", "jobMetadata", "podMetadata", "pod", "container")
        if name in changes
    }
    if kind == "TrainJob" and wanted:
        generation = changes.get("by", "runtimePatches")
        body["spec"][generation] = [_GENERATIONS[generation](wanted)]
        return
    if not wanted:
        return
    holder = _pod_holder(kind, body)
    if "podMetadata" in wanted:
        _merge(holder.setdefault("metadata", {}), wanted["podMetadata"])
    spec = holder["spec"]
    _merge(spec, wanted.get("pod", {}))
    _merge(spec["containers"][0], wanted.get("container", {}))


def _pod_holder(kind: str, body: Body) -> Body:
    """Return what has metadata and spec of the pods of an object."""
    holder: Body = body
    for step in _PODS[kind]:
        holder = holder[step]
    return holder


def _runtime_patch(wanted: Mapping[str, Any]) -> Body:
    template: Body = copy.deepcopy(wanted.get("template", {}))
    pods: Body = {}
    if "podMetadata" in wanted:
        pods["metadata"] = wanted["podMetadata"]
    if spec := _pod_changes(wanted):
        pods["spec"] = spec
    job: Body = {"spec": {"template": pods}} if pods else {}
    if "jobMetadata" in wanted:
        job["metadata"] = wanted["jobMetadata"]
    if job:
        template["spec"] = {"replicatedJobs": [{"name": "node", "template": job}]}
    return {"manager": "example.com/attempt", "trainingRuntimeSpec": {"template": template}}


def _pod_template_override(wanted: Mapping[str, Any]) -> Body:
    body: Body = {"targetJobs": [{"name": "node"}]}
    if "podMetadata" in wanted:
        body["metadata"] = wanted["podMetadata"]
    if spec := _pod_changes(wanted):
        body["spec"] = spec
    return body


def _pod_spec_override(wanted: Mapping[str, Any]) -> Body:
    return {"targetJobs": [{"name": "node"}], **_pod_changes(wanted)}


def _pod_changes(wanted: Mapping[str, Any]) -> Body:
    spec = copy.deepcopy(dict(wanted.get("pod", {})))
    if "container" in wanted:
        spec["containers"] = [{"name": "node", **wanted["container"]}]
    return spec


_PODS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Pod": (),
    "Job": ("spec", "template"),
    "VolcanoJob": ("spec", "tasks", 0, "template"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "template"),
    "TrainingRuntime": ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template"),
}
"""Steps to what has metadata and spec of the pods."""

_GENERATIONS: Final = {
    "runtimePatches": _runtime_patch,
    "podTemplateOverrides": _pod_template_override,
    "podSpecOverrides": _pod_spec_override,
}


def _merge(body: Body, change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(body.get(key), dict):
            _merge(body[key], value)
        else:
            body[key] = copy.deepcopy(value)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_null(each) for key, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


def _judged(body: Body | None) -> Body | None:
    """Return what an attempt must not have changed: all that nobody else writes meanwhile."""
    if body is None:
        return None
    metadata = {name: value for name, value in body["metadata"].items() if name not in _WRITTEN}
    return {**{name: value for name, value in body.items() if name != "status"}, "metadata": metadata}


_WRITTEN: Final = ("resourceVersion", "managedFields", "generation")
