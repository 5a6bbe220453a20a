"""Fit of a job to a catalog runtime: whether a TrainJob and a patch can express the difference.

A TrainJob sets image, command, arguments, variables and resources, and a patch adds volumes, placement and identity.
All other fields of a pod template require a runtime of the job's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import ANCESTOR_LABEL, CONTAINER_NODE, TRAINER
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.emit import train_job
from trainyard.jobs.convert.restarts import ON_FAILURE
from trainyard.jobs.render.frameworks import FRAMEWORKS, PLAIN
from trainyard.jobs.render.frameworks.plain import PLAIN_LABEL

Catalog = Mapping[str, Body]
"""Cluster runtimes by name."""

_RUNTIMES: Final = {name: each.catalog_runtime for name, each in FRAMEWORKS.items()}
_RUNTIMES[PLAIN_LABEL] = _RUNTIMES.pop(PLAIN)
_GANG: Final = "-gang"
_LOWEST_TIER: Final = {"mode": "hard", "highestTierAllowed": 1}
_TRAINER_FIELDS: Final = ("image", "command", "args", "env", "resources")
_PATCHED_CONTAINER: Final = ("volumeMounts", "securityContext")
_PATCHED_POD: Final = (
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "volumes",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
)
_PORTS: Final = ("pytorchjob-port", "tfjob-port", "xgboostjob-port", "jaxjob-port", "master")
_SHARED_MEMORY: Final = "shared-memory"


def catalog_runtime(draft: Draft, catalog: Catalog) -> str | None:
    """Return the name of the runtime that fits a job exactly, or None."""
    name = _RUNTIMES.get(draft.framework)
    if name is None or len(draft.parts) != 1 or unexpressed(draft):
        return None
    volcano = draft.gang.get("volcano")
    if volcano is None:
        return None
    if volcano.keys() - {"networkTopology"}:
        return None
    topology = volcano.get("networkTopology")
    if topology is not None:
        if topology != _LOWEST_TIER:
            return None
        name += _GANG
    return name if name in catalog else None


def unexpressed(draft: Draft) -> list[str]:
    """Return the fields that neither a TrainJob nor a patch can set, as paths of the JobSet's spec."""
    found = list(draft.job_set)
    found += [f"replicatedJobs[{part.name}]" for part in draft.parts if not part.trains]
    policy = draft.policy.get(draft.framework, {})
    found += [f"mlPolicy.{draft.framework}.{key}" for key, value in policy.items() if value != "auto"]
    part = draft.trainer
    prefix = f"replicatedJobs[{part.name}].template.spec"
    found += [f"{prefix}.{name}" for name in part.job]
    pod = part.pod
    for name, value in pod.items():
        kept = name in (*_PATCHED_POD, "containers") or (name == "restartPolicy" and value == ON_FAILURE)
        if not kept:
            found.append(f"{prefix}.template.spec.{name}")
    found += [
        f"{prefix}.template.spec.containers[{each['name']}]" for each in pod["containers"] if each["name"] != part.main
    ]
    for name, value in part.container.items():
        if name in ("name", *_TRAINER_FIELDS, *_PATCHED_CONTAINER):
            continue
        if name != "ports" or not _framework_ports(value):
            found.append(f"{prefix}.template.spec.containers[{part.main}].{name}")
    mounts = [mount["name"] for mount in part.container.get("volumeMounts", ())]
    if len(set(mounts)) < len(mounts) or any(volume["name"] == _SHARED_MEMORY for volume in pod.get("volumes", ())):
        found.append(f"{prefix}.template.spec.containers[{part.main}].volumeMounts")
    return found


def on_runtime(draft: Draft, name: str, runtime: Body) -> Body:
    """Return the TrainJob on a catalog runtime, with all fields that it can set."""
    part = draft.trainer
    container = part.container
    draft.source.changed(f"{part.path}.spec.containers[0].ports", "the framework declares its own port")
    if draft.source.peek(f"{part.path}.spec.restartPolicy") == ON_FAILURE:
        draft.source.same(f"{part.path}.spec.restartPolicy", "the default of JobSet")
    trainer: Body = {key: container[key] for key in _TRAINER_FIELDS if key in container}
    if "resources" in trainer:
        trainer["resourcesPerNode"] = trainer.pop("resources")
    return train_job(draft, runtime=name, trainer=trainer, pods=_pod_patch(draft, runtime))


def trainer_job(runtime: Body) -> str:
    """Return the name of the replicatedJob configured by a TrainJob's trainer."""
    jobs: Any = (runtime.get("spec") or {}).get("template", {}).get("spec", {}).get("replicatedJobs", [])
    for job in jobs:
        if job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL) == TRAINER:
            return str(job["name"])
    return CONTAINER_NODE


def _pod_patch(draft: Draft, runtime: Body) -> Body | None:
    part = draft.trainer
    pod: Body = {key: part.pod[key] for key in _PATCHED_POD if key in part.pod}
    container = {key: part.container[key] for key in _PATCHED_CONTAINER if key in part.container}
    if container:
        pod["containers"] = [{"name": CONTAINER_NODE, **container}]
    template: Body = {}
    metadata = {key: value for key, value in part.template.get("metadata", {}).items() if key != "finalizers"}
    if metadata:
        template["metadata"] = metadata
    if pod:
        template["spec"] = pod
    return {"name": trainer_job(runtime), "template": {"spec": {"template": template}}} if template else None


def _framework_ports(ports: Any) -> bool:
    """Return whether ports are those of the legacy operator, which the framework replaces."""
    return all(port.get("name") in _PORTS and set(port) <= {"name", "containerPort", "protocol"} for port in ports)
