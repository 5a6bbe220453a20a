"""An address that an initializer is known not to fetch is refused; of other images nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.data import data_folder
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import Rejected, RenderContext, Rendered
from trainyard.jobs.runtimes.catalog_loader import load_catalog

OWN, MIRROR = "docker.io/library/fetch:1.0", "mirror.example.com:5000/hub/kubeflow/trainer/dataset-initializer:v2"
DIGEST = "ghcr.io/kubeflow/trainer/dataset-initializer@sha256:" + "0" * 64


def rendered(runtime: str, kind: str, uri: str | None, image: str | None = None) -> Rendered | Rejected:
    (found,) = load_catalog(data_folder("runtimes"), (runtime,)).runtimes
    body: Any = found.objects()[-1]
    if image is not None:
        step = body["spec"]["template"]["spec"]["replicatedJobs"][0]
        step["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"runtimeRef": {"name": runtime}, "initializer": {kind: {} if uri is None else {"storageUri": uri}}},
    }
    return render(parse(TrainJob, job), parse(ClusterTrainingRuntime, body), RenderContext())


@pytest.mark.parametrize(
    ("runtime", "kind", "uri", "image"),
    [
        ("torch-with-dataset", "dataset", "hf://a/b", None),
        ("torch-with-dataset", "dataset", "S3://a/b", None),
        ("torch-with-dataset", "dataset", "cache://a/b", MIRROR),
        ("torch-with-dataset", "dataset", "", None),
        ("torch-with-dataset", "dataset", None, None),
        ("torch-with-dataset", "dataset", "gs://a/b", OWN),
        ("torch-with-dataset-gs", "dataset", "gs://a/b", None),
        ("torch-with-model", "model", "s3://a/b", None),
    ],
)
def test_an_address_that_the_image_may_fetch_is_accepted(
    runtime: str, kind: str, uri: str | None, image: str | None
) -> None:
    assert isinstance(rendered(runtime, kind, uri, image), Rendered)


@pytest.mark.parametrize(
    ("runtime", "kind", "uri", "image", "known"),
    [
        ("torch-with-dataset", "dataset", "gs://a/b", None, "hf, s3, cache"),
        ("torch-with-dataset", "dataset", "pvc://a", MIRROR, "hf, s3, cache"),
        ("torch-with-dataset", "dataset", "gs://a/b", DIGEST, "hf, s3, cache"),
        ("torch-with-model", "model", "cache://a/b", None, "hf, s3"),
    ],
)
def test_an_address_that_the_image_does_not_fetch_is_refused(
    runtime: str, kind: str, uri: str, image: str | None, known: str
) -> None:
    outcome = rendered(runtime, kind, uri, image)
    assert isinstance(outcome, Rejected)
    (error,) = outcome.errors
    assert error.path == f"spec.initializer.{kind}.storageUri"
    assert error.message.endswith(f"does not fetch {uri.partition(':')[0]}://, but {known}")
