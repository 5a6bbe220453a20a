"""What a TrainJob's trainer and initializer put over the runtime; it is applied last and wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.api import Body, Initializer
from trainyard.api.constants import (
    ANCESTOR_CONTAINERS,
    ANCESTOR_LABEL,
    CONTAINER_NODE,
    DATASET_INITIALIZER,
    INITIALIZER_VOLUME,
    MODEL_INITIALIZER,
    STORAGE_URI_ENV,
    TRAINER,
)
from trainyard.api.train_job import InitializerSource
from trainyard.problem import Problem
from trainyard.render.bodies import upsert_env
from trainyard.render.plan import Plan

__all__ = ["apply_overrides", "check_initializers", "override_warnings"]

_CONFIGS = {DATASET_INITIALIZER: "datasetConfig", MODEL_INITIALIZER: "modelConfig"}


def apply_overrides(plan: Plan) -> None:
    """Apply spec.trainer and spec.initializer to the containers that take them."""
    sources = dict(_sources(plan.spec.initializer))
    for pod_set in plan.pod_sets:
        ancestor = pod_set.ancestor
        if ancestor not in ANCESTOR_CONTAINERS:
            continue
        container = pod_set.container(ANCESTOR_CONTAINERS[ancestor])
        if container is None:
            continue
        if ancestor == TRAINER:
            _apply_trainer(plan, container)
        elif ancestor in sources:
            _apply_initializer(sources[ancestor], container)


def check_initializers(plan: Plan) -> Iterator[Problem]:
    """Yield initializers that the runtime has no step for."""
    for step, _ in _sources(plan.spec.initializer):
        pod_set = plan.pod_set(step)
        if pod_set is None:
            yield Problem(
                "spec.runtimeRef",
                f"must have {step} job when trainJob is configured with input {_CONFIGS[step]}",
                f"use a runtime with a replicatedJob {step}, or remove spec.initializer.{_field(step)}",
            )
        elif pod_set.container(step, init=True) is None:
            yield Problem(
                "spec.runtimeRef",
                f"must have container with name - {step} in the {step} job",
                f"add the container to replicatedJob {step} of the runtime",
            )


def override_warnings(plan: Plan) -> Iterator[Problem]:
    """Yield what the TrainJob says without effect, or with an effect that is easy to miss."""
    trainer = plan.spec.trainer
    if (
        trainer is not None
        and trainer.model_fields_set
        and (plan.trainer is None or plan.trainer.container(CONTAINER_NODE) is None)
    ):
        yield Problem(
            "spec.trainer",
            "has no effect: the runtime has no training container",
            f"label a Job template of the runtime {ANCESTOR_LABEL}={TRAINER} and name its container {CONTAINER_NODE}",
        )
    yield from _two_sources("spec.trainer.env", (trainer.env if trainer else None) or ())
    for step, source in _sources(plan.spec.initializer):
        yield from _two_sources(f"spec.initializer.{_field(step)}.env", source.env or ())
        yield from _initializer_warnings(plan, step)


def _initializer_warnings(plan: Plan, step: str) -> Iterator[Problem]:
    pod_set = plan.pod_set(step)
    container = pod_set.container(step) if pod_set else None
    if pod_set is not None and container is not None:
        if pod_set.ancestor != step:
            yield Problem(
                f"spec.initializer.{_field(step)}",
                f"has no effect: the Job template of replicatedJob {step} is not labelled as its step",
                f"label it {ANCESTOR_LABEL}={step} in the runtime",
            )
        if not any(mount.get("name") == INITIALIZER_VOLUME for mount in container.get("volumeMounts", ())):
            yield Problem(
                "spec.runtimeRef",
                f"must have volumeMount with name - {INITIALIZER_VOLUME} in container {step} of the {step} job",
                f"mount volume {INITIALIZER_VOLUME} there to share the data, unless it travels another way",
            )


def _two_sources(path: str, variables: Iterable[Body]) -> Iterator[Problem]:
    for index, variable in enumerate(variables):
        if variable.get("value") and variable.get("valueFrom"):
            yield Problem(f"{path}[{index}].value", "is ignored because valueFrom is set too", "remove one of them")


def _sources(initializer: Initializer | None) -> Iterator[tuple[str, InitializerSource]]:
    if initializer and initializer.dataset:
        yield DATASET_INITIALIZER, initializer.dataset
    if initializer and initializer.model:
        yield MODEL_INITIALIZER, initializer.model


def _field(step: str) -> str:
    return step.removesuffix("-initializer")


def _apply_trainer(plan: Plan, container: Body) -> None:
    trainer = plan.spec.trainer
    if trainer is None:
        return
    if trainer.image is not None:
        container["image"] = trainer.image
    if trainer.command is not None:
        container["command"] = list(trainer.command)
    if trainer.args is not None:
        container["args"] = list(trainer.args)
    upsert_env(container, trainer.env or ())


def _apply_initializer(source: InitializerSource, container: Body) -> None:
    if source.storage_uri is not None:
        upsert_env(container, [{"name": STORAGE_URI_ENV, "value": source.storage_uri}])
    upsert_env(container, source.env or ())
    if source.secret_ref is not None:
        container.setdefault("envFrom", []).append({"secretRef": {"name": source.secret_ref.name}})
