"""Cases of Deployments as cases of kinds that a stack lists: the same pods at other places."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard.data import data_folder
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.cases import Case
from trainyard.settings.platform import PodControllerSettings

ROLLOUT: Final = PodControllerSettings(group="argoproj.io", version="v1alpha1", kind="Rollout", resource="rollouts")
CLUSTER: Final = PodControllerSettings.model_validate(
    {
        "group": "ray.io",
        "version": "v1",
        "kind": "RayCluster",
        "resource": "rayclusters",
        "templates": [
            {"path": "spec.headGroupSpec.template", "replicas": None},
            {"path": "spec.workerGroupSpecs[].template"},
        ],
    }
)
FLOW: Final = PodControllerSettings.model_validate(
    {
        "group": "flow.example",
        "version": "v1",
        "kind": "Flow",
        "resource": "flows",
        "templates": [{"path": "spec.tasks[].template"}],
    }
)
"""A kind whose fields have names of fields of Volcano, JobSet and the trainer."""
LISTED: Final = (ROLLOUT, CLUSTER, FLOW)
_HEAD: Final = {
    "spec": {"automountServiceAccountToken": False, "containers": [{"name": "head", "image": "a.example/b:1"}]}
}
_OF_STRATEGIES: Final = "surge"
"""Part of the names of cases about pods that an update adds, which the strategy of a listed kind does not tell."""
_OF_VOLCANO: Final = "annotations[scheduling.volcano.sh/group-min-member]"
"""Volcano reads the annotation of kinds of Kubernetes only."""


def listed_rules() -> list[AdmissionRule]:
    """Return the shipped rules with the listed kinds."""
    return with_listed_controllers(load_rules(), LISTED)


def listed_cases() -> list[Case]:
    """Return the cases of Deployments for each listed kind."""
    return [case for each in load_cases(data_folder("policies"), listed_rules()) for case in _of_listed_kinds(each)]


def _of_listed_kinds(case: Case) -> Iterator[Case]:
    content = case.content
    subject = content.object or content.old_object or {}
    if _OF_STRATEGIES in case.name:
        return
    continued = content.user.name.startswith("system:") or any("kube-system" in group for group in content.user.groups)
    if subject.get("kind") != "Deployment" or continued or any(_OF_VOLCANO in path for path in content.paths):
        return
    for kind, convert, place in _CONVERTED:
        names = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind}
        objects = {
            field: {**convert(body), **names}
            for field in ("object", "old_object")
            if (body := getattr(content, field)) is not None
        }
        paths = tuple(_moved(path, {"spec.replicas": "spec", **place}) for path in content.paths)
        changed = content.model_copy(update={**copy.deepcopy(objects), "paths": paths})
        yield dataclasses.replace(case, name=f"{case.name}-{kind.resource}", content=changed)


def _of_cluster(body: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(body["spec"])
    group = {name: spec.pop(name) for name in ("template", "replicas") if name in spec}
    return {**body, "spec": {**spec, "headGroupSpec": {"template": _HEAD}, "workerGroupSpecs": [group]}}


def _of_flow(body: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(body["spec"])
    task = {name: spec.pop(name) for name in ("template", "replicas") if name in spec}
    other = {
        "suspend": True,
        "replicatedJobs": 2,
        "podTemplateOverrides": "none",
        "runtimePatches": True,
        "podSpecOverrides": 1,
    }
    return {**body, "spec": {**spec, **other, "tasks": [task]}}


_CONVERTED: Final = (
    (ROLLOUT, dict, {}),
    (CLUSTER, _of_cluster, {"spec.template": "spec.workerGroupSpecs[0].template"}),
    (FLOW, _of_flow, {"spec.template": "spec.tasks[0].template"}),
)


def _moved(path: str, places: Mapping[str, str]) -> str:
    for before, after in places.items():
        if path == before or path.startswith(f"{before}."):
            return after + path.removeprefix(before)
    return path
