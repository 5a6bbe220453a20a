"""Reading of a live cluster: what a user may not list is read in the job's namespace, and recorded as unread."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from tests.explain.recorded_clusters import Cluster
from trainyard.explain import Kind, explain
from trainyard.explain.cluster_index import kind_of
from trainyard.kube import ApiError, Client, Resource
from trainyard.live.cluster_snapshot import read_cluster


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
    assert (found.cause, found.unread) == ("queue-missing", ("Node", "Pod", "PodGroup"))


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
