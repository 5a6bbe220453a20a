"""A number in a TrainJob or a runtime does not take the memory of who renders it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import initializer, only, replicated_job, runtime, torch, train_job, trainer, verdict
from tests.render.launched import launched, launcher, node
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


@pytest.mark.parametrize(
    ("pod", "nodes", "warned"),
    [
        ({"hostNetwork": True}, 2, True),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, 2, True),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, 2, True),
        ({"dnsPolicy": "Default"}, 2, True),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, 2, False),
        ({"hostNetwork": True, "dnsPolicy": "None"}, 2, False),
        ({"hostNetwork": True}, 1, False),
        ({"hostNetwork": False}, 2, False),
        ({}, 2, False),
    ],
)
def test_pods_that_do_not_resolve_names_of_the_cluster_are_warned_about(
    pod: dict[str, Any], nodes: int, warned: bool
) -> None:
    found = verdict(train_job(trainer={"numNodes": nodes}), torch(initializer(), trainer(pod=pod))).warnings
    named = [finding for finding in found if "ClusterFirstWithHostNet" in finding.fix]
    assert [finding.path for finding in named] == (["spec.runtimeRef"] if warned else [])


def test_every_role_on_the_network_of_its_machine_is_named_once() -> None:
    pod = {"hostNetwork": True}
    of = launched(node(pod=pod), launcher(pod=pod))
    finding = only(verdict(train_job(), of).warnings)
    assert "replicatedJobs launcher, node" in finding.message


@pytest.mark.parametrize(
    ("framework", "of", "nodes", "warned"),
    [
        ("torch", {"jobset": {"network": {"enableDNSHostnames": False}}}, 2, "enableDNSHostnames"),
        ("jax", {"jobset": {"network": {"enableDNSHostnames": False}}}, 2, "enableDNSHostnames"),
        ("torch", {"jobset": {"network": {"enableDNSHostnames": False}}}, 1, ""),
        ("torch", {"jobset": {"network": {"enableDNSHostnames": True}}}, 2, ""),
        (None, {"jobset": {"network": {"enableDNSHostnames": False}}}, 2, ""),
        ("torch", {"job": {"completionMode": "NonIndexed"}}, 2, "completionMode"),
        ("xgboost", {"job": {"completionMode": "NonIndexed"}}, 2, "completionMode"),
        ("torch", {"job": {"completionMode": "NonIndexed"}}, 1, "completionMode"),  # PET_NODE_RANK is its index
        ("torch", {"job": {"completionMode": "Indexed"}}, 2, ""),
        (None, {"job": {"completionMode": "NonIndexed"}}, 2, ""),
    ],
)
def test_pods_without_the_names_that_their_framework_uses_are_warned_about(
    framework: str | None, of: dict[str, Any], nodes: int, warned: str
) -> None:
    """JobSet gives only pods of indexed Jobs names that others know, and none without its Service (jobset#138)."""
    policy = {"mlPolicy": {framework: {}}} if framework else {}
    made = runtime(
        initializer(job=of.get("job", {})), trainer(job=of.get("job", {})), **policy, jobset=of.get("jobset", {})
    )
    found = verdict(train_job(trainer={"numNodes": nodes}), made)
    assert not found.errors
    named = [
        each for each in found.warnings if "enableDNSHostnames" in each.message or "completionMode" in each.message
    ]
    assert [each.path for each in named] == (["spec.runtimeRef"] if warned else [])
    assert all(warned in each.message for each in named)


def test_a_launcher_needs_no_name() -> None:
    batch = {"completionMode": "NonIndexed"}
    assert not verdict(train_job(), launched(node(), launcher(job=batch))).warnings
    assert "replicatedJob node" in only(verdict(train_job(), launched(node(job=batch), launcher())).warnings).message
