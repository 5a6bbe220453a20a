"""Gang schedulers beside Volcano's, and what the Platform object changes."""

from __future__ import annotations

from typing import Any

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    COSCHEDULING_POD_GROUPS,
    JOB_SETS,
    PLATFORMS,
    POD_GROUPS,
    TRAIN_JOBS,
    Body,
    change,
    controller,
    reconciled,
    runtime,
    settled,
    train_job,
)
from tests.controller.test_recreation import report_suspended
from tests.kube.fake_api import FakeApi, eventually
from trainyard.controller.application import Controller
from trainyard.controller.configuration import Configuration


def gang_runtime(**policy: Any) -> Body:
    body = runtime(gang=False)
    body["spec"]["podGroupPolicy"] = policy
    return body


def platform(*features: str) -> Body:
    spec = {"schedulerFeatures": ["gang", *features], "tiers": [{"name": "rack", "tier": 1}]}
    return {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "Platform",
        "metadata": {"name": "platform"},
        "spec": spec,
    }


def groups(api: FakeApi, path: str = COSCHEDULING_POD_GROUPS) -> list[Body]:
    return [body for (place, _, _), body in api.objects.items() if place == path]


async def test_a_coscheduling_gang_gets_its_pod_group_once(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, gang_runtime(coscheduling={"scheduleTimeoutSeconds": 30}))
    api.put(TRAIN_JOBS, train_job())
    await reconciled(api)
    (group,) = groups(api)
    assert group["spec"]["minMember"] == 2
    assert group["metadata"]["ownerReferences"][0]["name"] == "job"
    assert len(api.writes) == 4


async def test_a_lost_pod_group_of_a_running_coscheduling_gang_is_recreated(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, gang_runtime(coscheduling={"scheduleTimeoutSeconds": 30}))
    api.put(TRAIN_JOBS, train_job())
    async with settled(api) as process:
        api.remove(COSCHEDULING_POD_GROUPS, "team", "job")
        await process.settle()
    assert groups(api)


async def test_a_suspended_coscheduling_gang_follows_its_job(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, gang_runtime(coscheduling={"scheduleTimeoutSeconds": 30}))
    api.put(TRAIN_JOBS, train_job(suspend=True))
    async with settled(api) as process:
        assert groups(api)[0]["spec"]["minMember"] == 2
        report_suspended(api)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "trainer": {"numNodes": 3}})
        await process.settle()
    assert groups(api)[0]["spec"]["minMember"] == 3


async def test_the_groups_of_a_resumed_job_are_those_that_it_requests_now(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, gang_runtime(volcano={}))
    size = "trainyard.dev/subgroup-size"
    api.put(TRAIN_JOBS, train_job(suspend=True, annotations={size: "2"}, trainer={"numNodes": 2}))
    async with settled(api) as process:
        assert [each["subGroupSize"] for each in groups(api, POD_GROUPS)[0]["spec"]["subGroupPolicy"]] == [2]
        report_suspended(api)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False, "annotations": None})
        await process.settle()
    assert not groups(api, POD_GROUPS)[0]["spec"].get("subGroupPolicy")


async def test_a_pod_group_that_is_not_served_is_reported_and_retried(api: FakeApi) -> None:
    api.unserved.add("podgroups")
    api.put(CLUSTER_RUNTIMES, gang_runtime(coscheduling={"scheduleTimeoutSeconds": 30}))
    api.put(TRAIN_JOBS, train_job())
    async with controller(api):
        await eventually(lambda: api.of("events"))
        assert "scheduling.x-k8s.io/v1alpha1 is not served" in api.of("events")[0]["message"]
        assert not [path for path, _, _ in api.objects if path == JOB_SETS]
        api.unserved.clear()
        await eventually(lambda: api.find("jobsets", "job", "team"))
    assert groups(api)


async def test_a_kai_gang_has_no_pod_group(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, gang_runtime(kai={"queue": "research"}))
    api.put(TRAIN_JOBS, train_job())
    await reconciled(api)
    assert api.find("jobsets", "job", "team")
    assert not api.of("podgroups")


async def test_a_topology_that_the_scheduler_ignores_is_rejected_until_it_is_on(api: FakeApi) -> None:
    api.put(PLATFORMS, platform())
    api.put(CLUSTER_RUNTIMES, gang_runtime(volcano={"networkTopology": {"mode": "hard"}}))
    api.put(TRAIN_JOBS, train_job())
    async with settled(api):
        assert "network-topology-aware is disabled" in api.of("events")[0]["message"]
        assert not api.of("jobsets")
        api.put(PLATFORMS, platform("network-topology-aware"))
        await eventually(lambda: api.find("jobsets", "job", "team"))


async def test_a_platform_that_fits_no_schema_is_passed_over(api: FakeApi) -> None:
    api.put(PLATFORMS, {**platform(), "spec": {"tiers": "none"}})
    api.put(CLUSTER_RUNTIMES, gang_runtime(volcano={"networkTopology": {"mode": "hard"}}))
    api.put(TRAIN_JOBS, train_job())
    await reconciled(api)
    assert api.find("jobsets", "job", "team")


async def test_the_configured_schedulers_are_what_contexts_say(api: FakeApi) -> None:
    configuration = Configuration(coscheduling_scheduler="default-scheduler", volcano_version="1.13.2")
    context = Controller(configuration, api.connection)._cache.context(train_job())
    assert (context.coscheduling_scheduler, context.volcano_version) == ("default-scheduler", "1.13.2")
