"""TFJob of the training operator."""

from __future__ import annotations

from typing import Final

from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.operator_roles import Roles
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.run_policy import read_run_policy, succeed_with_role
from trainyard.jobs.convert.variables import note_legacy_hosts

_ROLES: Final = Roles("spec.tfReplicaSpecs", "tensorflow", "Never", "tfjob-controller", ("chief", "master"), leads=True)
_NAMES: Final = ("Chief", "Master", "Worker", "PS", "Evaluator")
_COORDINATORS: Final = ("chief", "master")


def convert(draft: Draft) -> None:
    """Convert a TFJob to a draft."""
    source = draft.source
    for role in _NAMES:
        _ROLES.read(draft, role, role.lower())
    if not draft.parts:
        raise source.malformed(_ROLES.path, f"has none of {', '.join(_NAMES)} with pods")
    name_roles(draft)
    _read_success_policy(draft)
    if source.flag("spec.enableDynamicWorker"):
        message = "TF_CONFIG names all workers: they cannot come and go"
        source.lost("spec.enableDynamicWorker", message, "use a fixed number of workers")
    else:
        source.same("spec.enableDynamicWorker", "TF_CONFIG names all workers")
    for part in draft.parts:
        old = [f"{draft.source.peek('metadata.name')}-{role.lower()}-" for role in _NAMES]
        note_legacy_hosts(source, part, old, draft.parts[0].first_host(draft.name))
    read_run_policy(draft)


def name_roles(draft: Draft) -> None:
    """Order the containers, and mark the workers as configured by the TrainJob's trainer."""
    draft.framework, draft.policy = "tensorflow", {"tensorflow": {}}
    by_name = {part.name: part for part in draft.parts}
    trainer = next((by_name[name] for name in ("worker", *_COORDINATORS) if name in by_name), draft.parts[0])
    draft.nodes = trainer.pods
    for part in draft.parts:
        _put_first(part)
    draft.train(trainer)


def _put_first(part: Part) -> None:
    """Move the main container first: in roles other than the trainer, the framework configures the first container."""
    containers = part.pod["containers"]
    containers.sort(key=lambda container: container["name"] != part.main)


def _read_success_policy(draft: Draft) -> None:
    path = "spec.successPolicy"
    policy = draft.source.text(path) or ""
    workers = draft.part("worker")
    coordinator = next((part for part in draft.parts if part.name in _COORDINATORS), None)
    if policy not in ("", "AllWorkers"):
        raise draft.source.malformed(path, f'must be "" or AllWorkers, but is {policy!r}')
    if coordinator is not None:
        draft.source.same(path, f"without effect: the job ends with its {coordinator.name}")
        if len(draft.parts) > 1:
            succeed_with_role(draft, coordinator)
        return
    draft.source.same(path, "successPolicy of the JobSet and its Jobs")
    if workers is not None:
        if len(draft.parts) > 1:
            succeed_with_role(draft, workers)
        if policy == "AllWorkers":
            return
        if workers.pods > 1:
            workers.job["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}


CONVERTERS: Final = {("kubeflow.org/v1", "TFJob"): convert}
