"""Reading of a live cluster: what a user may not list is read in the job's namespace, and recorded as unread."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.explain.recorded_clusters import NOW, Cluster
from tests.explain.recorded_reads import Reads
from trainyard.cluster_state.cluster_snapshot import read_cluster, write_snapshot
from trainyard.cluster_state.job_snapshot import read_job
from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.explain.explanation import as_text, explain
from trainyard.insight.explain.job_state import ExplainedState
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client


def recorded() -> Cluster:
    cluster = Cluster().deployment("volcano-scheduler", "volcano-system").deployment("other", "volcano-system")
    cluster.job("train", queue="reserch")
    cluster.fill("language", cluster.names[:2])
    return cluster


async def test_an_administrator_reads_everything_that_explains_a_job() -> None:
    reads = Reads(recorded().bodies, absent={"Workload"})
    observed = await read_cluster(cast("Client", reads), "vision")
    assert observed.unread == frozenset()
    names = {(each["kind"], each["metadata"]["name"]) for each in observed.objects}
    assert {("Deployment", "volcano-scheduler"), ("Pod", "busy-language-node-0-0"), ("Node", "rack-0-node-0")} <= names
    assert not {("Deployment", "other"), ("TrainJob", "busy-language")} & names
    assert len(names) == len(observed.objects)
    assert explain(observed, "train", "vision").cause == "queue-missing"


async def test_a_tenant_reads_the_own_namespace() -> None:
    reads = Reads(recorded().bodies, narrow={"PodGroup", "Pod"}, forbidden={"Node", "Deployment", "Lease", "Workload"})
    observed = await read_cluster(cast("Client", reads), "vision")
    expected = {Kind.POD_GROUP, Kind.POD, Kind.NODE, Kind.DEPLOYMENT, Kind.LEASE, Kind.WORKLOAD}
    assert observed.unread == expected
    pods = {each["metadata"]["namespace"] for each in observed.objects if each["kind"] == "Pod"}
    assert pods == {"vision"}
    found = explain(observed, "train", "vision")
    assert (found.cause, found.unread) == ("queue-missing", ("Node", "Pod", "PodGroup", "Workload"))


async def test_a_snapshot_has_the_jobs_of_all_namespaces() -> None:
    reads = Reads(recorded().bodies, narrow={"Pod"})
    observed = await read_cluster(cast("Client", reads))
    assert observed.unread == {Kind.POD}
    assert {each["metadata"]["name"] for each in observed.objects if each["kind"] == "TrainJob"} == {
        "train",
        "busy-language",
    }


async def test_other_errors_are_raised() -> None:
    with pytest.raises(ApiError):
        await read_cluster(cast("Client", Reads(recorded().bodies, broken="Queue")), "vision")


ALL_KINDS = {*("TrainJob", "JobSet", "Job", "Pod", "PodGroup", "Node", "Queue", "Event", "Workload"), "HyperNode"}
OTHERS = {*("TrainingRuntime", "ClusterTrainingRuntime", "Platform", "PriorityClass", "Deployment", "Lease")}


async def test_a_job_that_may_not_be_read_is_not_one_that_does_not_exist() -> None:
    cluster = recorded()
    observed = await read_cluster(cast("Client", Reads(cluster.bodies, forbidden={"TrainJob", "JobSet"})), "vision")
    with pytest.raises(TrainyardError, match="train may not be read in namespace vision: ") as error:
        explain(observed, "trainjob/train", "vision")
    assert error.value.fix == "ask for list on trainjobs.trainer.kubeflow.org in namespace vision"
    with pytest.raises(TrainyardError, match="absent may not be read in namespace vision: JobSet, TrainJob ") as error:
        explain(observed, "absent", "vision")
    assert "jobsets.jobset.x-k8s.io, trainjobs.trainer.kubeflow.org" in error.value.fix
    read = await read_cluster(cast("Client", Reads(cluster.bodies, narrow={"Pod"})), "vision")
    with pytest.raises(TrainyardError, match="pod/absent does not exist in namespace vision"):
        explain(read, "pod/absent", "vision")
    with pytest.raises(TrainyardError, match="absent does not exist in namespace vision"):
        explain(read, "absent", "vision")


async def test_objects_below_a_job_that_may_not_be_read_are_not_missing() -> None:
    cluster = Cluster().deployment("kubeflow-trainer-controller-manager", "trainyard-system", ready=0)
    cluster.deployment("jobset-controller-manager", "jobset-system", ready=0)
    job = cluster.job("train", nodes=cluster.names[:2])
    cluster.event(job.train_job, "TrainJobResourcesCreationFailed", "an earlier fault")
    cluster.event(job.job_set, "FailedCreate", "an earlier fault")
    for forbidden, unread in (({"JobSet"}, {"JobSet"}), ({"Job"}, {"Jobs"}), ({"Pod"}, {"pods"})):
        observed = await read_cluster(cast("Client", Reads(cluster.bodies, forbidden=forbidden)), "vision")
        found = explain(observed, "train", "vision")
        assert found.unread == tuple(sorted(forbidden))
        steps = {link.step: link.state for link in found.chain}
        assert {steps[step] for step in unread} == {"may not be read"}
        assert found.causes == ()
        assert "does not exist" not in as_text(found)


async def test_a_gang_whose_pods_may_not_be_read_runs_by_the_status_of_others(cluster: Cluster) -> None:
    cluster.job("train", nodes=cluster.names[:2])
    waiting = cluster.job("other")
    waiting.pod_group["status"]["phase"] = "Inqueue"
    observed = await read_cluster(cast("Client", Reads(cluster.bodies, forbidden={"Pod"})), "vision")
    assert (explain(observed, "train", "vision").state, explain(observed, "other", "vision").state) == (
        ExplainedState.RUNNING,
        ExplainedState.WAITING,
    )


async def test_an_unread_workload_is_not_a_missing_one(cluster: Cluster) -> None:
    train_job = cluster.job("train", suspend=True).train_job
    train_job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "vision"}
    observed = await read_cluster(cast("Client", Reads(cluster.bodies, forbidden={"Workload"})), "vision")
    found = explain(observed, "train", "vision")
    assert (found.cause, found.causes[0].numbers["reason"]) == ("suspended-by-kueue", "its Workload may not be read")


def test_a_snapshot_of_nothing_is_an_error(tmp_path: Path) -> None:
    reads = Reads(recorded().bodies, forbidden={*ALL_KINDS, *OTHERS})
    observed = asyncio.run(read_cluster(cast("Client", reads)))
    assert not observed.objects
    with pytest.raises(TrainyardError, match="nothing of the cluster may be read") as error:
        write_snapshot(observed, tmp_path / "f.json")
    assert "ask for list on " in error.value.fix
    assert list(tmp_path.iterdir()) == []


async def test_of_other_jobs_only_those_of_waiting_gangs_are_read(cluster: Cluster) -> None:
    cluster.job("train", minutes=5)
    cluster.job("ahead", minutes=50)
    cluster.fill("vision", cluster.names[:2], name="running")
    reads = Reads(cluster.bodies)
    observed = await read_job(cast("Client", reads), "train", "vision")
    jobs = {each["metadata"]["name"] for each in observed.objects if each["kind"] == "JobSet"}
    assert jobs == {"train", "ahead"}
    selectors = {selector for kind, _, selector in reads.requests if kind in ("TrainJob", "JobSet", "Job")}
    assert None not in selectors
    assert explain(replace(observed, now=NOW), "train", "vision") == explain(cluster.observed, "train", "vision")


async def test_jobs_behind_many_waiting_gangs_are_explained_alike(cluster: Cluster) -> None:
    for number in range(70):
        cluster.job(f"ahead-{number}", minutes=100, pods=1)
    cluster.job("train", minutes=5)
    reads = Reads(cluster.bodies)
    observed = await read_job(cast("Client", reads), "train", "vision")
    found = explain(replace(observed, now=NOW), "train", "vision")
    assert found == explain(cluster.observed, "train", "vision")
    assert "priority-behind-others" in {each.cause.id for each in found.causes}
    assert len(reads.requests) < 70


@pytest.mark.parametrize("name", ["a,b)", "Train", "x" * 300, "", "pod/a b"])
async def test_a_name_that_no_object_can_have_is_not_sent(name: str) -> None:
    reads = Reads(Cluster().bodies)
    observed = await read_job(cast("Client", reads), name, "vision")
    assert all(kind not in ("TrainJob", "JobSet") for kind, _, selector in reads.requests if selector)
    with pytest.raises(TrainyardError, match="does not exist in namespace vision"):
        explain(observed, name, "vision")


async def test_the_owner_of_a_pod_is_read_by_name(cluster: Cluster) -> None:
    cluster.job("train")
    observed = await read_job(cast("Client", Reads(cluster.bodies)), "pod/train-node-0-1", "vision")
    found = explain(replace(observed, now=NOW), "pod/train-node-0-1", "vision")
    assert found == explain(cluster.observed, "pod/train-node-0-1", "vision")
    assert found.chain[0].step == "TrainJob"
