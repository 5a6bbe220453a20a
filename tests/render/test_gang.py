"""Volcano: who is in the gang, how many, and what they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    GROUP,
    QUEUE,
    container,
    initializer,
    objects,
    only,
    patch,
    pods,
    replicated_job,
    runtime,
    torch,
    train_job,
    trainer,
    verdict,
)


def depends(name: str, status: str) -> list[dict[str, str]]:
    return [{"name": name, "status": status}]


def gang(*jobs: Any, num_nodes: int | None = None, **fields: Any) -> Any:
    job = train_job(trainer={"numNodes": num_nodes} if num_nodes else {})
    return objects(job, torch(*jobs, volcano={}, **fields))["PodGroup"]["spec"]


def members(*jobs: Any, **fields: Any) -> set[str]:
    templates = pods(train_job(), torch(*jobs, volcano={}, **fields))
    return {
        name for name, template in templates.items() if GROUP in template.get("metadata", {}).get("annotations", {})
    }


def test_an_initializer_that_must_complete_is_no_member() -> None:
    jobs = initializer(), trainer(dependsOn=depends("dataset-initializer", "Complete"))
    assert members(*jobs) == {"node"}
    assert gang(*jobs, num_nodes=4)["minMember"] == 4


def test_initializers_in_a_row_are_no_members() -> None:
    jobs = (
        initializer(),
        initializer("model", dependsOn=depends("dataset-initializer", "Complete")),
        trainer(dependsOn=depends("model-initializer", "Complete")),
    )
    assert members(*jobs) == {"node"}


def test_an_initializer_without_dependents_is_a_member() -> None:
    assert members(initializer(), trainer()) == {"dataset-initializer", "node"}
    assert gang(initializer(), trainer(), num_nodes=2)["minMember"] == 3


def test_members_that_wait_for_a_member_to_be_ready_are_not_counted() -> None:
    jobs = trainer(), replicated_job("launcher", dependsOn=depends("node", "Ready"))
    assert members(*jobs) == {"node", "launcher"}
    assert gang(*jobs, num_nodes=3)["minMember"] == 3


def test_waiting_is_followed_through_steps_outside_the_gang() -> None:
    jobs = (
        replicated_job("server"),
        initializer(dependsOn=depends("server", "Ready")),
        trainer(dependsOn=depends("dataset-initializer", "Complete")),
    )
    assert members(*jobs) == {"server", "node"}
    assert gang(*jobs, num_nodes=3)["minMember"] == 1


def test_startup_in_order_counts_the_first_job_only() -> None:
    jobset = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    assert gang(replicated_job("launcher"), trainer(), num_nodes=4, jobset=jobset)["minMember"] == 1


def test_waiting_for_a_non_member_to_be_ready_counts() -> None:
    jobs = (
        initializer(),
        trainer(dependsOn=depends("dataset-initializer", "Complete")),
        replicated_job("log", dependsOn=depends("dataset-initializer", "Ready")),
    )
    assert gang(*jobs, num_nodes=2)["minMember"] == 3


def test_replicas_multiply() -> None:
    worker = replicated_job(
        "worker", replicas=3, job={"parallelism": 2}, containers=[container(resources={"limits": {"cpu": "1"}})]
    )
    spec = gang(worker, trainer())
    assert spec["minMember"] == 7
    assert spec["minResources"] == {"cpu": "6"}


def test_resources_count_members_only_and_limits_where_requests_are_absent() -> None:
    wait = depends("dataset-initializer", "Complete")
    resources = {"limits": {"nvidia.com/gpu": 8, "cpu": "4"}, "requests": {"cpu": "1500m", "memory": "1.5Gi"}}
    heavy = initializer()
    heavy["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
    spec = gang(heavy, trainer(dependsOn=wait, containers=[container(resources=resources)]), num_nodes=3)
    assert spec["minResources"] == {"cpu": "4500m", "memory": "4608Mi", "nvidia.com/gpu": "24"}


def test_pod_requests_count_sidecars_steps_and_overhead() -> None:
    def cpu(name: str, amount: str, **fields: Any) -> dict[str, Any]:
        return container(name, resources={"requests": {"cpu": amount}}, **fields)

    pod = {
        "initContainers": [cpu("sidecar", "1", restartPolicy="Always"), cpu("step", "10")],
        "overhead": {"cpu": "500m"},
    }
    assert gang(trainer(containers=[cpu("node", "2")], pod=pod))["minResources"] == {"cpu": "11500m"}


def test_pod_level_requests_replace_the_sum_and_pod_level_limits_only_what_is_unset() -> None:
    pod = {"resources": {"requests": {"memory": "4Gi"}, "limits": {"cpu": "9", "memory": "8Gi"}}}
    requests = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}
    job = trainer(containers=[container(resources={"requests": requests})], pod=pod)
    assert gang(job)["minResources"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert gang(trainer(pod=pod))["minResources"] == {"cpu": "9", "memory": "4Gi"}


def test_every_pod_goes_to_volcano_and_only_members_name_the_group() -> None:
    jobs = initializer(), trainer(dependsOn=depends("dataset-initializer", "Complete"))
    templates = pods(train_job(), torch(*jobs, volcano={}), default_queue="leaf")
    assert {name: template["spec"]["schedulerName"] for name, template in templates.items()} == {
        "dataset-initializer": "volcano",
        "node": "volcano",
    }
    assert templates["dataset-initializer"]["metadata"]["annotations"] == {QUEUE: "leaf"}
    names = {GROUP: "job", "scheduling.volcano.sh/group-name": "job"}
    assert templates["node"]["metadata"]["annotations"] == {QUEUE: "leaf", **names}


def test_a_group_name_in_the_runtime_does_not_make_a_member() -> None:
    stray = replicated_job("stray", pod_metadata={"annotations": {GROUP: "else"}})
    job = trainer(dependsOn=depends("stray", "Complete"))
    assert GROUP not in pods(train_job(), torch(stray, job, volcano={}))["stray"]["metadata"]["annotations"]


def test_a_scheduler_named_in_the_runtime_stays_and_is_warned_about() -> None:
    of = torch(trainer(pod={"schedulerName": "other"}), volcano={})
    assert pods(train_job(), of)["node"]["spec"]["schedulerName"] == "other"
    assert "other" in verdict(train_job(), of).warnings[0].message


@pytest.mark.parametrize(
    ("template", "patched", "default", "queue"),
    [
        (None, None, None, None),
        (None, None, "tenant", "tenant"),
        ("runtime", None, "tenant", "runtime"),
        ("runtime", "patch", "tenant", "patch"),
    ],
)
def test_the_queue_is_the_patchs_then_the_runtimes_then_the_tenants(
    template: str | None, patched: str | None, default: str | None, queue: str | None
) -> None:
    of = torch(volcano={}, template={"metadata": {"annotations": {QUEUE: template}}} if template else {})
    patches = [patch(metadata={"annotations": {QUEUE: patched}})] if patched else []
    rendered = objects(train_job(runtimePatches=patches), of, default_queue=default)
    assert rendered["PodGroup"]["spec"].get("queue") == queue
    assert rendered["JobSet"]["metadata"].get("annotations", {}).get(QUEUE) == queue


def test_pods_that_volcano_places_one_by_one_get_the_queue_too() -> None:
    of = runtime(trainer(pod={"schedulerName": "volcano"}))
    assert pods(train_job(), of, default_queue="leaf")["node"]["metadata"]["annotations"] == {QUEUE: "leaf"}
    assert "PodGroup" not in objects(train_job(), of, default_queue="leaf")
    plain = runtime(trainer())
    assert "metadata" not in pods(train_job(), plain, default_queue="leaf")["node"]


def test_topology_and_priority_go_into_the_pod_group() -> None:
    of = torch(trainer(pod={"priorityClassName": "high"}), volcano={"networkTopology": {"mode": "soft"}})
    spec = objects(train_job(), of)["PodGroup"]["spec"]
    assert spec["networkTopology"] == {"mode": "soft", "highestTierAllowed": 1}
    assert spec["priorityClassName"] == "high"


def test_the_last_priority_class_of_the_gang_counts_and_others_are_warned_about() -> None:
    jobs = (
        initializer(pod={"priorityClassName": "of-no-member"}),
        trainer(pod={"priorityClassName": "high"}, dependsOn=depends("dataset-initializer", "Complete")),
        replicated_job("log", pod={"priorityClassName": "low"}),
    )
    of = torch(*jobs, volcano={})
    assert objects(train_job(), of)["PodGroup"]["spec"]["priorityClassName"] == "low"
    warning = only(verdict(train_job(), of).warnings)
    assert "high, low" in warning.message


def test_every_missing_priority_class_is_an_error_also_beside_a_system_class() -> None:
    classes = ("system-node-critical", "no-1", "known", "no-2")
    jobs = [replicated_job(f"job-{index}", pod={"priorityClassName": name}) for index, name in enumerate(classes)]
    errors = verdict(train_job(), torch(*jobs, volcano={}), priority_classes=frozenset({"known"})).errors
    assert [error.message for error in errors] == [f'PriorityClass "no-{n}" doesn\'t exist' for n in (1, 2)]


def test_an_elastic_job_needs_its_least_pods_only() -> None:
    elastic = {"elasticPolicy": {"minNodes": 2, "maxNodes": 8}}
    job = trainer(containers=[container(resources={"limits": {"nvidia.com/gpu": 8}})])
    of = runtime(job, mlPolicy={"torch": elastic}, podGroupPolicy={"volcano": {}})
    spec = objects(train_job(), of)["PodGroup"]["spec"]
    assert (spec["minMember"], spec["minResources"]) == (2, {"nvidia.com/gpu": "16"})
