"""Reading of a live cluster: what a user may not list is read in the job's namespace, and recorded as unread."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import pytest

from tests.explain.recorded_clusters import Cluster
from trainyard.errors import TrainyardError
from trainyard.explain import Kind, State, as_text, explain
from trainyard.explain.cluster_index import kind_of
from trainyard.kube import ApiError, Client, Resource
from trainyard.live.cluster_snapshot import read_cluster, write_snapshot


class Reads:
    """A client that lists recorded objects, and forbids some kinds in all namespaces or entirely."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        narrow: Collection[str] = (),
        forbidden: Collection[str] = (),
        absent: Collection[str] = (),
        broken: str = "",
    ) -> None:
        self.cluster, self.narrow, self.forbidden, self.absent, self.broken = cluster, narrow, forbidden, absent, broken
        self.requests: list[tuple[str, str | None, str | None]] = []

    async def list(self, resource: Resource, *, namespace: str | None = None, field_selector: str | None = None) -> Any:
        self.requests.append((resource.kind, namespace, field_selector))
        if resource.kind in self.absent:
            raise ApiError(404, "NotFound", "not found")
        if resource.kind in self.forbidden or (resource.kind in self.narrow and namespace is None):
            raise ApiError(403, "Forbidden", "forbidden")
        if resource.kind == self.broken:
            raise ApiError(500, "InternalError", "broken")
        kind = kind_of({"apiVersion": resource.api_version, "kind": resource.kind})
        found = [each for each in self.cluster.bodies if kind_of(each) == kind]
        if field_selector and field_selector.startswith("metadata.name="):
            found = [each for each in found if each["metadata"]["name"] == field_selector.partition("=")[2]]
        return [each for each in found if namespace in (None, each["metadata"].get("namespace"))]


def recorded() -> Cluster:
    cluster = Cluster().deployment("volcano-scheduler", "volcano-system").deployment("other", "volcano-system")
    cluster.job("train", queue="reserch")
    cluster.fill("language", cluster.names[:2])
    return cluster


async def test_an_administrator_reads_everything_that_explains_a_job() -> None:
    reads = Reads(recorded(), absent={"Workload"})
    observed = await read_cluster(cast("Client", reads), "vision")
    assert observed.unread == frozenset()
    names = {(each["kind"], each["metadata"]["name"]) for each in observed.objects}
    assert {("Deployment", "volcano-scheduler"), ("Pod", "busy-language-node-0-0"), ("Node", "rack-0-node-0")} <= names
    assert not {("Deployment", "other"), ("TrainJob", "busy-language")} & names
    assert len(names) == len(observed.objects)
    assert explain(observed, "train", "vision").cause == "queue-missing"


async def test_a_tenant_reads_the_own_namespace() -> None:
    reads = Reads(recorded(), narrow={"PodGroup", "Pod"}, forbidden={"Node", "Deployment", "Lease", "Workload"})
    observed = await read_cluster(cast("Client", reads), "vision")
    expected = {Kind.POD_GROUP, Kind.POD, Kind.NODE, Kind.DEPLOYMENT, Kind.LEASE, Kind.WORKLOAD}
    assert observed.unread == expected
    pods = {each["metadata"]["namespace"] for each in observed.objects if each["kind"] == "Pod"}
    assert pods == {"vision"}
    found = explain(observed, "train", "vision")
    assert (found.cause, found.unread) == ("queue-missing", ("Node", "Pod", "PodGroup", "Workload"))


async def test_a_snapshot_has_the_jobs_of_all_namespaces() -> None:
    reads = Reads(recorded(), narrow={"Pod"})
    observed = await read_cluster(cast("Client", reads))
    assert observed.unread == {Kind.POD}
    assert {each["metadata"]["name"] for each in observed.objects if each["kind"] == "TrainJob"} == {
        "train",
        "busy-language",
    }


async def test_other_errors_are_raised() -> None:
    with pytest.raises(ApiError):
        await read_cluster(cast("Client", Reads(recorded(), broken="Queue")), "vision")


ALL_KINDS = {*("TrainJob", "JobSet", "Job", "Pod", "PodGroup", "Node", "Queue", "Event", "Workload"), "HyperNode"}
OTHERS = {*("TrainingRuntime", "ClusterTrainingRuntime", "Platform", "PriorityClass", "Deployment", "Lease")}


async def test_a_job_that_may_not_be_read_is_not_one_that_does_not_exist() -> None:
    cluster = recorded()
    observed = await read_cluster(cast("Client", Reads(cluster, forbidden={"TrainJob", "JobSet"})), "vision")
    with pytest.raises(TrainyardError, match="train may not be read in namespace vision: ") as error:
        explain(observed, "trainjob/train", "vision")
    assert error.value.fix == "ask for list on trainjobs.trainer.kubeflow.org in namespace vision"
    with pytest.raises(TrainyardError, match="absent may not be read in namespace vision: JobSet, TrainJob ") as error:
        explain(observed, "absent", "vision")
    assert "jobsets.jobset.x-k8s.io, trainjobs.trainer.kubeflow.org" in error.value.fix
    read = await read_cluster(cast("Client", Reads(cluster, narrow={"Pod"})), "vision")
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
        observed = await read_cluster(cast("Client", Reads(cluster, forbidden=forbidden)), "vision")
        found = explain(observed, "train", "vision")
        assert found.unread == tuple(sorted(forbidden))
        steps = {link.step: link.state for link in found.chain}
        assert {steps[step] for step in unread} == {"may not be read"}
        assert found.causes == ()
        assert "does not exist" not in as_text(found)


async def test_a_gang_whose_pods_may_not_be_read_runs_by_the_status_of_others() -> None:
    cluster = Cluster()
    cluster.job("train", nodes=cluster.names[:2])
    waiting = cluster.job("other")
    waiting.pod_group["status"]["phase"] = "Inqueue"
    observed = await read_cluster(cast("Client", Reads(cluster, forbidden={"Pod"})), "vision")
    assert (explain(observed, "train", "vision").state, explain(observed, "other", "vision").state) == (
        State.RUNNING,
        State.WAITING,
    )


async def test_an_unread_workload_is_not_a_missing_one() -> None:
    cluster = Cluster()
    train_job = cluster.job("train", suspend=True).train_job
    train_job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "vision"}
    observed = await read_cluster(cast("Client", Reads(cluster, forbidden={"Workload"})), "vision")
    found = explain(observed, "train", "vision")
    assert (found.cause, found.causes[0].numbers["reason"]) == ("suspended-by-kueue", "its Workload may not be read")


def test_a_snapshot_of_nothing_is_an_error(tmp_path: Path) -> None:
    reads = Reads(recorded(), forbidden={*ALL_KINDS, *OTHERS})
    observed = asyncio.run(read_cluster(cast("Client", reads)))
    assert not observed.objects
    with pytest.raises(TrainyardError, match="nothing of the cluster may be read") as error:
        write_snapshot(observed, tmp_path / "f.json")
    assert "ask for list on " in error.value.fix
    assert list(tmp_path.iterdir()) == []
