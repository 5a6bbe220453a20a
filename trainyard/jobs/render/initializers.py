"""Initializers: download datasets and models before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trainyard.api import Body, TrainJobSpec
from trainyard.api.constants import (
    ANCESTOR_LABEL,
    DATASET_INITIALIZER,
    INITIALIZER_VOLUME,
    MODEL_INITIALIZER,
    STORAGE_URI_ENV,
)
from trainyard.api.train_job import InitializerSource
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import upsert_env
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.trainer import env_source_conflicts

_SCHEMES: Final = {
    "kubeflow/trainer/dataset-initializer": ("hf", "s3", "cache"),
    "kubeflow/trainer/model-initializer": ("hf", "s3"),
}
"""URI schemes that upstream's images support, by image repository; see pkg/initializers of kubeflow/trainer."""

_CONFIGS: Final = {DATASET_INITIALIZER: "datasetConfig", MODEL_INITIALIZER: "modelConfig"}


def initializer_sources(spec: TrainJobSpec) -> Mapping[str, InitializerSource]:
    """Return the sources by initializer step."""
    given = spec.initializer
    if given is None:
        return {}
    sources = {DATASET_INITIALIZER: given.dataset, MODEL_INITIALIZER: given.model}
    return {step: source for step, source in sources.items() if source is not None}


def initializer_path(step: str) -> str:
    """Return the path of an initializer step in a TrainJob."""
    return f"spec.initializer.{step.removesuffix('-initializer')}"


def apply_initializers(builder: JobSetBuilder) -> None:
    """Set storage URI, variables and Secret in the containers of the steps."""
    sources = initializer_sources(builder.spec)
    if not sources:
        return
    for pod_set in builder.pod_sets:
        source = sources.get(pod_set.ancestor or "")
        container = pod_set.main_container
        if source is not None and container is not None:
            _apply(source, container)


def check_initializers(job: ResolvedJob) -> Iterator[Finding]:
    """Yield initializers without a step in the runtime, and storage URIs that the image does not support."""
    for step, source in initializer_sources(job.spec).items():
        pod_set = job.pod_set(step)
        if pod_set is None:
            yield Finding(
                "spec.runtimeRef",
                f"must have {step} job when trainJob is configured with input {_CONFIGS[step]}",
                f"use a runtime with a replicatedJob {step}, or remove {initializer_path(step)}",
            )
        elif pod_set.container(step, init=True) is None:
            yield Finding(
                "spec.runtimeRef",
                f"must have container with name - {step} in the {step} job",
                f"add the container to replicatedJob {step} of the runtime",
            )
        else:
            yield from _unknown_scheme(step, source, pod_set.container(step, init=True) or {})


def initializer_warnings(job: ResolvedJob) -> Iterator[Finding]:
    """Yield settings without effect, and steps that do not mount the shared volume."""
    for step, source in initializer_sources(job.spec).items():
        yield from env_source_conflicts(f"{initializer_path(step)}.env", source.env or ())
        pod_set = job.pod_set(step)
        if pod_set is None or pod_set.container(step, init=True) is None:
            continue
        container = pod_set.container(step)
        if container is None:
            yield Finding.warning(
                initializer_path(step),
                f"has no effect: {step} is an init container of replicatedJob {step}",
                "make it a container of the runtime",
            )
        elif pod_set.ancestor != step:
            yield Finding.warning(
                initializer_path(step),
                f"has no effect: the Job template of replicatedJob {step} is not labeled as its step",
                f"label it {ANCESTOR_LABEL}={step} in the runtime",
            )
        if not any(mount.get("name") == INITIALIZER_VOLUME for mount in (container or {}).get("volumeMounts", ())):
            yield Finding.warning(
                "spec.runtimeRef",
                f"must have volumeMount with name - {INITIALIZER_VOLUME} in container {step} of the {step} job",
                f"mount volume {INITIALIZER_VOLUME} there to share the data, unless it is shared in another way",
            )


def _unknown_scheme(step: str, source: InitializerSource, container: Body) -> Iterator[Finding]:
    image = str(container.get("image", ""))
    repository = image.partition("@")[0].rpartition("/")
    name = "/".join(repository[0].split("/")[-2:]) + "/" + repository[2].partition(":")[0]
    scheme, separator, _ = (source.storage_uri or "").partition("://")
    known = _SCHEMES.get(name)
    if known and separator and scheme.lower() not in known:
        yield Finding(
            f"{initializer_path(step)}.storageUri",
            f"image {image} does not fetch {scheme}://, but {', '.join(known)}",
            "use one of them, a runtime whose step supports it, or a volume with the data",
        )


def _apply(source: InitializerSource, container: Body) -> None:
    if source.storage_uri is not None:
        upsert_env(container, [{"name": STORAGE_URI_ENV, "value": source.storage_uri}])
    upsert_env(container, source.env or ())
    if source.secret_ref is not None:
        container.setdefault("envFrom", []).append({"secretRef": {"name": source.secret_ref.name}})
