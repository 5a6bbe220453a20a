"""Kinds and versions that no API server serves are errors of `trainyard check`."""

from __future__ import annotations

import pytest

from trainyard.manifests.documents import Source
from trainyard.policy.check.kind_names import KindNames
from trainyard.policy.check.sources import Manifest

KNOWN = (("", "Pod"), ("batch", "Job"), ("batch.volcano.sh", "Job"))
TRAINER = "trainer.kubeflow.org/v1alpha1"


def found(version: str, kind: str) -> list[tuple[str, str]]:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}
    manifest = Manifest(Source("a.yaml", ""), 0, (), body)
    return [(each.path, each.fix) for each in KindNames(KNOWN).findings(manifest)]


@pytest.mark.parametrize(
    ("version", "kind", "path", "fix"),
    [
        (TRAINER, "trainjob", "kind", "write TrainJob"),
        (TRAINER, "TRAINJOB", "kind", "write TrainJob"),
        ("v1", "pod", "kind", "write Pod"),
        ("batch.volcano.sh/v1alpha1", "job", "kind", "write Job"),
        (TRAINER, "TrainJob ", "kind", "write it with letters and digits"),
        (TRAINER, "\u0422rainJob", "kind", "write it with letters and digits"),
        (TRAINER, "TrainJobs", "kind", "write one of ClusterTrainingRuntime, TrainJob, TrainingRuntime"),
        ("trainer.kubeflow.org/v2alpha1", "TrainJob", "apiVersion", f"write {TRAINER}"),
        ("Trainer.kubeflow.org/v1alpha1", "TrainJob", "apiVersion", "write group/version, in lower case"),
        ("trainer.kubeflow.org/v1alpha1/", "TrainJob", "apiVersion", "write group/version, in lower case"),
        (" v1", "Pod", "apiVersion", "write group/version, in lower case"),
        ("/v1", "Pod", "apiVersion", "write group/version, in lower case"),
        ("a/b/v1", "Pod", "apiVersion", "write group/version, in lower case"),
    ],
)
def test_a_kind_that_is_written_wrong_is_an_error(version: str, kind: str, path: str, fix: str) -> None:
    assert found(version, kind) == [(path, fix)]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (TRAINER, "TrainJob"),
        ("v1", "Pod"),
        ("batch/v1", "Job"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("apps/v1", "Deployment"),
    ],
)
def test_other_kinds_pass(version: str, kind: str) -> None:
    assert found(version, kind) == []
