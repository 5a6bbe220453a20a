"""Cases from the ledger: each attack and each legitimate value of an entry, at every level where its type occurs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.policy.surface_places import DENIED, places
from tools.reference.surface_ledger import ABSENT, BELOW, Entry, SurfaceLedger
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.testing.cases import Case, CaseContent, CaseDecision, CaseWorld

Body = dict[str, Any]

WORLD_CHANGES: Final[dict[str, Body]] = {
    "platform": {
        "leafQueues": ["default", "red", "vision"],
        "tiers": [{"name": "rack", "tier": 1}, {"name": "spine", "tier": 2}],
        "schedulerFeatures": ["gang", "network-topology-aware"],
    },
    "tenantPolicy": {"queues": ["red"], "defaultQueue": "red", "priorityClasses": ["training"]},
}
"""The tenant of the ledger's values: the one of tests/cluster/bypass.py."""

_GPU: Final = {"nvidia.com/gpu": "1"}
_POD: Final[Body] = {
    "restartPolicy": "Never",
    "schedulerName": "volcano",
    "containers": [{"name": "node", "image": "example.com/train:1.2.3", "resources": {"limits": _GPU}}],
}
_SERVED: Final = {name: value for name, value in _POD.items() if name != "restartPolicy"}
_QUEUE: Final = {"annotations": {"scheduling.volcano.sh/queue-name": "red"}}
_STEP: Final = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
_JOBS: Final = [{"name": "node", "template": {"metadata": _STEP, "spec": {"template": {"spec": _POD}}}}]
_LABELS: Final = {"trainer.kubeflow.org/framework": "torch"}
_VOLCANO_JOB: Final = {"queue": "red", "schedulerName": "volcano", "minAvailable": 1}
_TASK_POD: Final = {name: value for name, value in _POD.items() if name != "schedulerName"}
_TASKS: Final = [{"name": "node", "replicas": 1, "minAvailable": 1, "template": {"spec": _TASK_POD}}]
_OWN_JOB: Final = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "own",
    "uid": "00000000-0000-0000-0000-000000000000",
}

_OBJECTS: Final[dict[str, tuple[str, Body]]] = {
    "Pod": ("v1", {"metadata": _QUEUE, "spec": _POD}),
    "Job": ("batch/v1", {"metadata": _QUEUE, "spec": {"template": {"spec": _POD}}}),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", {"metadata": _QUEUE, "spec": {"replicatedJobs": _JOBS}}),
    "VolcanoJob": ("batch.volcano.sh/v1alpha1", {"metadata": {}, "spec": {**_VOLCANO_JOB, "tasks": _TASKS}}),
    "TrainingRuntime": (
        "trainer.kubeflow.org/v1alpha1",
        {
            "metadata": {"labels": _LABELS},
            "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": _JOBS}}},
        },
    ),
    "TrainJob": (
        "trainer.kubeflow.org/v1alpha1",
        {
            "metadata": {},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"resourcesPerNode": {"limits": _GPU}}},
        },
    ),
    **{
        kind: (
            "v1" if kind == "ReplicationController" else "apps/v1",
            {"metadata": {}, "spec": {"template": {"spec": _SERVED}}},
        )
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
    },
    "CronJob": ("batch/v1", {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": {"spec": _POD}}}}}),
    "PersistentVolumeClaim": ("v1", {"metadata": {}, "spec": {}}),
    "PodDisruptionBudget": ("policy/v1", {"metadata": {}, "spec": {"selector": {"matchLabels": {"app": "train"}}}}),
    "PodGroup": ("scheduling.volcano.sh/v1beta1", {"metadata": {}, "spec": {"queue": "red", "minMember": 1}}),
    "Service": ("v1", {"metadata": {}, "spec": {"selector": {"app": "train"}, "ports": [{"port": 80}]}}),
    "Command": ("bus.volcano.sh/v1alpha1", {"metadata": {}, "action": "AbortJob", "target": _OWN_JOB}),
    "Namespace": ("v1", {"metadata": {}}),
}
_FRAMEWORKS: Final = {"JAX_COORDINATOR_ADDRESS": "jax", "DMLC_TRACKER_URI": "xgboost", "OMPI_MCA_orte_NAME": "mpi"}
"""Frameworks of variables, where they are not those of torch."""


def in_the_world(world: CaseWorld) -> CaseWorld:
    """Return the world of the rules' cases with the tenant of the ledger's values."""
    changes = {"platform": WORLD_CHANGES["platform"], "tenant_policy": WORLD_CHANGES["tenantPolicy"]}
    return world.model_copy(update={name: {**getattr(world, name), **change} for name, change in changes.items()})


@dataclass(frozen=True)
class SurfaceCase:
    """One value of an entry at one level.

    Parameters
    ----------
    type_name, entry
        The entry and its type.
    field
        The field of the entry that has the value.
    place
        Steps to the field in the object.
    cases
        One case per rule of the entry that evaluates the kind.
    """

    type_name: str
    entry: Entry
    field: str
    place: tuple[str | int, ...]
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return self.cases[0].name

    @property
    def verdict(self) -> CaseDecision:
        return self.cases[0].verdict

    @property
    def body(self) -> Body:
        return dict(self.cases[0].content.object or {})

    @property
    def level(self) -> tuple[str, str]:
        """Group and kind, and the part of a TrainJob: what reaches an API server in a different way."""
        part = (
            self.place[1] if self.body["kind"] == "TrainJob" else self.place[0] if self.place[0] == "metadata" else ""
        )
        return f"{self.body['apiVersion']} {self.body['kind']}", str(part)


def surface_cases(ledger: SurfaceLedger, rules: Mapping[str, AdmissionRule]) -> Iterator[SurfaceCase]:
    """Yield each value of each entry that rules evaluate, at each level.

    Raises
    ------
    ValueError
        A value has no kind and level at which a rule of its entry evaluates it.
    """
    runtime = {"apiVersion": _OBJECTS["TrainingRuntime"][0], "kind": "ClusterTrainingRuntime"}
    runtime |= {"metadata": {"name": "torch-distributed"}, "spec": _OBJECTS["TrainingRuntime"][1]["spec"]}
    for type_name, entry in ledger.all():
        values = {CaseDecision.DENY: entry.attacks, CaseDecision.ALLOW: entry.legitimate}
        for verdict, value in values.items():
            if not entry.rules or value is None or value == ABSENT:
                continue
            if entry.fields == ("containers",):  # a runtime requires the container of its trainer
                value = [{**value[0], "name": "node"}, *value[1:]]
            for field in entry.fields:
                used = False
                for kind, place in places(type_name, field.removesuffix(BELOW), ledger):
                    if (entry.kinds and kind not in entry.kinds) or (kind == DENIED and verdict is CaseDecision.ALLOW):
                        continue
                    if entry.depth and entry.depth != (
                        "object" if place[0] == "metadata" and kind != "Pod" else "pods"
                    ):
                        continue
                    body: Body = {"apiVersion": _OBJECTS[kind][0], "kind": kind.removeprefix("Volcano")}
                    body |= copy.deepcopy(_OBJECTS[kind][1])
                    if field.startswith("spec.mlPolicy."):
                        body["spec"]["mlPolicy"] = {}
                    if kind == "TrainingRuntime" and field in _FRAMEWORKS:
                        body["spec"]["mlPolicy"] = {_FRAMEWORKS[field]: {}}
                    _put(body, place, {"name": field, "value": value} if type_name == "Variables" else value)
                    _complete(body)
                    _complete_object(body)
                    name = f"{type_name} {field} in {kind} at {'.'.join(map(str, place))}: {value!r:.200}"
                    cases = tuple(
                        Case(rules[each], name, verdict, _content(name, body, runtime), Path("surface"))
                        for each in entry.rules
                        if _evaluates(rules[each], body)
                    )
                    if cases:
                        used = True
                        yield SurfaceCase(type_name, entry, field, place, cases)
                if not used:
                    raise ValueError(f"{type_name} {field}: no rule of {entry.rules} evaluates {value!r}")


def levels_without_rules(
    ledger: SurfaceLedger, rules: Mapping[str, AdmissionRule]
) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield type, field and kind of each level for which a value is meant and that no rule of the entry evaluates."""
    for type_name, entry in ledger.all():
        for field in entry.fields if entry.rules and entry.attack is not None else ():
            for kind in {kind for kind, _ in places(type_name, field.removesuffix(BELOW), ledger)}:
                body = {"apiVersion": _OBJECTS[kind][0], "kind": kind.removeprefix("Volcano")}
                wanted = not entry.kinds or kind in entry.kinds
                if wanted and not any(_evaluates(rules[each], body) for each in entry.rules):
                    yield type_name, field, kind, entry.rules


def _content(name: str, body: Body, runtime: Body) -> CaseContent:
    return CaseContent(about=name, object=body, runtime=runtime if body["kind"] == "TrainJob" else None)


def _put(body: Any, place: tuple[str | int, ...], value: Any) -> None:
    for step, following in itertools.pairwise(place):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            body += [empty] if len(body) == step else []
            body = body[step]
        else:
            body = body.setdefault(step, empty)
    last = place[-1]
    if isinstance(last, int):
        body.insert(last, value)
    elif isinstance(value, dict) and isinstance(body.get(last), dict):
        body[last] = {**body[last], **value}
    else:
        body[last] = value


_NAMES: Final[dict[str, Body]] = {
    "containers": {"name": "node"},
    "volumes": {"name": "data"},
    "volumeMounts": {"name": "data", "mountPath": "/data"},
    "ports": {"containerPort": 8080},
    "env": {"name": "NVIDIA_VISIBLE_DEVICES"},
    "envFrom": {"configMapRef": {"name": "settings"}},
    "tolerations": {"operator": "Exists"},
    "runtimePatches": {"manager": "team.example.com/tuning"},
    "podTemplateOverrides": {"targetJobs": [{"name": "node"}]},
    "podSpecOverrides": {"targetJobs": [{"name": "node"}]},
    "replicatedJobs": {"name": "node"},
    "dependsOn": {"name": "later", "status": "Complete"},
    "subGroupPolicy": {"name": "group", "subGroupSize": 1},
}
"""What the schema requires in the items of a list beside the value."""

_IN_PLACE_RESTARTS: Final = 2147483647
"""backoffLimit that restarts in place require."""

_CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_FIELDS: Final[dict[str, Body]] = {
    "httpGet": {"port": 8080},
    "tcpSocket": {"port": 8080},
    "serviceAccountToken": {"path": "token"},
    "volumeClaim": _CLAIM,
    "partitionPolicy": {"totalPartitions": 1, "partitionSize": 1, "minPartitions": 1},
}
"""What it requires in a field."""


def _complete(node: Any, within: str = "") -> None:
    """Add what the schema requires beside the value, so that the API server evaluates the rules."""
    for name, below in node.items() if isinstance(node, dict) else ():
        for item in below if isinstance(below, list) else (below,):
            _complete(item, name)
            if isinstance(item, dict) and not {"volumeClaim", "port"} & item.keys():
                item.update({**(_NAMES if isinstance(below, list) else _FIELDS).get(name, {}), **item})
    if not isinstance(node, dict):
        return
    if node.get("podReplacementPolicy") == "TerminatingOrFailed":
        node["backoffLimit"] = _IN_PLACE_RESTARTS
    if "backoffLimitPerIndex" in node:
        node.update({"completionMode": "Indexed", "completions": 1})
    if within == "livenessProbe" and not {"exec", "httpGet", "tcpSocket"} & node.keys():
        node["exec"] = {"command": ["check"]}
    if within in ("volumeClaimTemplate", "volumeClaimTemplates", "templates") or (
        node.get("kind") == "PersistentVolumeClaim" and "metadata" in node
    ):
        node["spec"] = {**_CLAIM, **node.get("spec", {})}
    if within == "failurePolicy":
        for index, rule in enumerate(node.get("rules", ())):
            rule.setdefault("name", f"rule{index}")
    if within in ("volumeClaimTemplates", "templates"):
        node.setdefault("metadata", {"name": "data"})
    if within == "volumes" and "volumeClaim" in node:
        node["mountPath"] = "/data"
    if any("volumeMounts" in each for each in node.get("containers", ())):
        node.setdefault("volumes", [{"name": "data", "emptyDir": {}}])


def _complete_object(body: Body) -> None:
    """Add what Kubernetes, JobSet or a gang scheduler requires elsewhere in the object beside the value."""
    spec = body.get("spec", {})
    job_set = spec["template"]["spec"] if body["kind"] == "TrainingRuntime" else spec
    if any(_job(each).get("backoffLimit") == _IN_PLACE_RESTARTS for each in job_set.get("replicatedJobs", ())):
        job_set["failurePolicy"] = {"restartStrategy": "InPlaceRestart"}
    template = spec.get("template", {}) if body["kind"] == "TrainingRuntime" else body
    for pod in _pod_specs(body):
        contexts = [pod, *pod.get("containers", ())]
        security = [each.get("securityContext", {}) for each in contexts]
        if any(each.get("procMount") == "Unmasked" for each in security):
            pod["hostUsers"] = False
        if any(each.get("windowsOptions", {}).get("hostProcess") for each in security):
            pod["hostNetwork"] = True
        if template.get("spec", {}).get("volumeClaimPolicies"):
            pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        if "kai" in spec.get("podGroupPolicy", {}):
            pod.pop("schedulerName", None)
            pod["containers"][0].pop("resources", None)


def _job(replicated: Body) -> Body:
    return dict(replicated.get("template", {}).get("spec", {}))


def _pod_specs(node: Any) -> Iterator[Body]:
    """Yield the specifications of pods, which are not patches."""
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(below, dict) and "containers" in below and {"restartPolicy", "schedulerName"} & below.keys():
            yield below
        else:
            yield from _pod_specs(below)


def _evaluates(rule: AdmissionRule, body: Body) -> bool:
    group = body["apiVersion"].rpartition("/")[0]
    return any(
        (each.group, each.kind) == (group, body["kind"]) and "CREATE" in each.operations for each in rule.matches
    )
