"""A number in a TrainJob or a runtime does not take the memory of who renders it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import only, replicated_job, runtime, train_job, trainer, verdict
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.data import data_folder
from trainyard.jobs.render.hosts import MOST_PODS
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import Rejected, RenderContext, Rendered
from trainyard.jobs.runtimes.catalog_loader import load_catalog


def answer(runtime: str, *, nodes: int | None = None, policy: int | None = None) -> Rendered | Rejected:
    (found,) = load_catalog(data_folder("runtimes"), (runtime,)).runtimes
    body: Any = found.objects()[-1]
    if policy is not None:
        body["spec"]["mlPolicy"]["numNodes"] = policy
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {} if nodes is None else {"numNodes": nodes}},
    }
    return render(parse(TrainJob, job), parse(ClusterTrainingRuntime, body), RenderContext())


@pytest.mark.parametrize("runtime", ["mpi-openmpi", "horovod", "paddle", "tensorflow", "ray", "plain"])
@pytest.mark.parametrize(
    ("nodes", "policy", "path"),
    [(2**31 - 1, None, "spec.trainer.numNodes"), (None, 2**31 - 1, "spec.runtimeRef")],
)
def test_more_pods_than_kubernetes_runs_are_refused_before_they_are_named(
    runtime: str, nodes: int | None, policy: int | None, path: str
) -> None:
    found = answer(runtime, nodes=nodes, policy=policy)
    assert isinstance(found, Rejected)
    assert [error.path for error in found.errors] == [path]
    assert f"at most {MOST_PODS}" in found.errors[0].message


def test_the_largest_job_is_rendered() -> None:
    assert isinstance(answer("plain", nodes=MOST_PODS), Rendered)


@pytest.mark.parametrize(
    ("framework", "jobs", "nodes", "what"),
    [
        ("tensorflow", (trainer(), replicated_job("ps")), 5_000, "TF_CONFIG"),
        ("mpi", (replicated_job("launcher", ancestor="trainer"), replicated_job("node")), 40_000, "host file"),
    ],
)
def test_host_names_fit_into_their_variable_or_file(framework: str, jobs: Any, nodes: int, what: str) -> None:
    of = runtime(*jobs, mlPolicy={framework: {}})
    assert verdict(train_job(trainer={"numNodes": 1_000}), of).allowed
    error = only(verdict(train_job(trainer={"numNodes": nodes}), of).errors)
    assert error.path == "spec.trainer.numNodes"
    assert what in error.message
