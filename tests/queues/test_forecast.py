"""Jobs that run, start, wait and are evicted under a queue tree: the scheduler's rules on totals."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.queues.amounts import units
from trainyard.queues.forecast import Outcome, forecast
from trainyard.queues.queue import Queue
from trainyard.queues.queued_gangs import Job, read_jobs
from trainyard.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState

GPU = "nvidia.com/gpu"


def gpus(count: int) -> dict[str, str]:
    return {GPU: str(count)}


def job(name: str, queue: str, count: int, *, running: bool = False, priority: int = 0) -> Job:
    return Job(name, queue, units(gpus(count)), running, priority, name)


def outcomes(tree: Mapping[str, Queue], jobs: list[Job], capacity: int = 64) -> dict[str, str]:
    found = forecast(QueueTree(tree), jobs, units(gpus(capacity))).jobs
    return {name: each.outcome.value for name, each in found.items()}


SHARED = {"a": Queue(deserved=gpus(32)), "b": Queue(deserved=gpus(32))}


def test_what_fits_starts() -> None:
    assert outcomes(SHARED, [job("one", "a", 32), job("two", "b", 32)]) == {"one": "starts", "two": "starts"}


def test_a_queue_borrows_what_others_leave() -> None:
    assert outcomes(SHARED, [job("one", "a", 32), job("two", "a", 32)]) == {"one": "starts", "two": "starts"}


def test_the_owner_reclaims_borrowed_resources_from_the_youngest_first() -> None:
    running = [job("old", "a", 32, running=True), job("young", "a", 32, running=True)]
    assert outcomes(SHARED, [*running, job("mine", "b", 32)]) == {"old": "runs", "young": "taken", "mine": "starts"}


def test_the_lowest_priority_is_evicted_before_the_youngest() -> None:
    running = [job("low", "a", 32, running=True), job("urgent", "a", 32, running=True, priority=5)]
    assert outcomes(SHARED, [*running, job("mine", "b", 32)])["low"] == "taken"


def test_nothing_is_reclaimed_from_a_queue_that_is_not_reclaimable() -> None:
    tree = {"a": Queue(deserved=gpus(32), reclaimable=False), "b": Queue(deserved=gpus(32))}
    running = [job("old", "a", 64, running=True)]
    assert outcomes(tree, [*running, job("mine", "b", 32)]) == {"old": "runs", "mine": "waits"}


def test_a_queue_without_a_share_reclaims_nothing() -> None:
    tree = {"a": Queue(deserved=gpus(32)), "b": Queue()}
    assert outcomes(tree, [job("old", "a", 64, running=True), job("mine", "b", 8)])["mine"] == "waits"


def test_a_closed_queue_reclaims_nothing() -> None:
    tree = {"a": Queue(deserved=gpus(32)), "b": Queue(deserved=gpus(32), state=QueueState.CLOSED)}
    assert outcomes(tree, [job("old", "a", 64, running=True), job("mine", "b", 8)])["mine"] == "waits"


def test_no_job_is_evicted_in_vain() -> None:
    tree = {**SHARED, "c": Queue(guarantee=gpus(8), deserved=gpus(8))}
    running = [job("old", "a", 60, running=True)]
    assert outcomes(tree, [*running, job("mine", "c", 65)])["old"] == "runs"


def test_a_guarantee_is_kept() -> None:
    tree = {"a": Queue(deserved=gpus(16), guarantee=gpus(16)), "b": Queue(deserved=gpus(48))}
    running = [job("one", "a", 48, running=True)]
    assert outcomes(tree, [*running, job("mine", "b", 48)]) == {"one": "runs", "mine": "waits"}


def test_a_job_above_the_limit_of_any_ancestor_waits_with_its_name() -> None:
    tree = QueueTree({"team": Queue(capability=gpus(16)), "a": Queue("team", deserved=gpus(8))})
    found = forecast(tree, [job("large", "a", 24), job("small", "a", 8)], units(gpus(64))).jobs
    assert found["large"].reason == f"the limit of team is 16 {GPU}, of which 16 are free"
    assert found["small"].outcome is Outcome.STARTS


def test_a_full_cluster_reports_what_is_missing() -> None:
    found = forecast(QueueTree(SHARED), [job("large", "a", 65)], units(gpus(64))).jobs["large"]
    assert found.reason == f"the limit of a is 64 {GPU}, of which 64 are free"
    running = [job("one", "a", 32, running=True), job("two", "b", 32, running=True)]
    found = forecast(QueueTree(SHARED), [*running, job("late", "b", 8)], units(gpus(64))).jobs["late"]
    assert found.reason == f"the cluster is full: 8 {GPU} short"


def test_the_queue_that_used_least_of_its_share_is_served_first() -> None:
    tree = {"a": Queue(deserved=gpus(48)), "b": Queue(deserved=gpus(16))}
    running = [job("a0", "a", 24, running=True), job("b0", "b", 16, running=True)]
    assert outcomes(tree, [*running, job("b1", "b", 24), job("a1", "a", 24)]) == {
        "a0": "runs", "b0": "runs", "b1": "waits", "a1": "starts"
    }  # fmt: skip


def test_a_queue_of_higher_priority_is_served_before_all_others() -> None:
    tree = {"a": Queue(deserved=gpus(64)), "b": Queue(priority=1)}
    assert outcomes(tree, [job("a1", "a", 64), job("b1", "b", 64)])["b1"] == "starts"


def test_shares_are_compared_level_by_level() -> None:
    tree = {
        "left": Queue(deserved=gpus(48)),
        "right": Queue(deserved=gpus(16)),
        "l": Queue("left", deserved=gpus(8)),
        "r": Queue("right", deserved=gpus(16)),
    }
    running = [job("l0", "l", 16, running=True), job("r0", "r", 8, running=True)]
    assert outcomes(tree, [*running, job("r1", "r", 40), job("l1", "l", 40)])["l1"] == "starts"


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ("gone", "queue gone does not exist"),
        ("team", "queue team has child queues: this stops scheduling for every tenant"),
    ],
)
def test_a_job_in_no_leaf_waits(queue: str, reason: str) -> None:
    tree = QueueTree({"team": Queue(), "a": Queue("team")})
    assert forecast(tree, [job("lost", queue, 1)], None).jobs["lost"].reason == reason


def test_jobs_above_the_share_are_reclaimable() -> None:
    running = [job("old", "a", 32, running=True), job("young", "a", 8, running=True)]
    found = forecast(QueueTree(SHARED), running, units(gpus(64))).jobs
    assert (found["old"].reclaimable, found["young"].reclaimable) == (False, True)


def test_jobs_are_read_from_pod_groups() -> None:
    bodies = [
        {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7},
        {
            "kind": "PodGroup",
            "metadata": {"namespace": "vision", "name": "one", "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"queue": "a", "minResources": {"cpu": 2, GPU: "8"}, "priorityClassName": "urgent"},
            "status": {"phase": "Running"},
        },
        {"kind": "PodGroup", "metadata": {"name": "two"}, "spec": {}},
        {"kind": "PodGroup", "metadata": {"name": "over"}, "spec": {}, "status": {"phase": "Completed"}},
        {"kind": "Pod", "metadata": {"name": "none"}},
    ]
    assert read_jobs(bodies) == [
        Job("default/two", "default", {}, running=False),
        Job("vision/one", "a", {"cpu": 2000, GPU: 8000}, True, 7, "2026-01-02T00:00:00Z"),
    ]


@st.composite
def scenes(draw: st.DrawFn) -> tuple[dict[str, Queue], list[Job]]:
    amounts = st.integers(0, 40)
    tree: dict[str, Queue] = {}
    for name in "abcde":
        parent = draw(st.sampled_from(["root", *tree]))
        tree[name] = Queue(
            parent,
            deserved=gpus(draw(amounts)),
            capability=draw(st.sampled_from([{}, gpus(draw(amounts))])),
            reclaimable=draw(st.booleans()),
            priority=draw(st.integers(0, 1)),
        )
    leaves = QueueTree(tree).leaves
    jobs = [
        job(f"{number:02}", draw(st.sampled_from(leaves)), draw(st.integers(1, 16)), running=draw(st.booleans()))
        for number in range(draw(st.integers(0, 12)))
    ]
    return tree, jobs


@given(scenes())
def test_no_start_exceeds_a_limit_and_no_job_within_the_share_is_evicted(
    scene: tuple[dict[str, Queue], list[Job]],
) -> None:
    tree, jobs = scene
    found = forecast(QueueTree(tree), jobs, units(gpus(64)))
    started = {each.name for each in jobs if found.jobs[each.name].outcome is Outcome.STARTS}
    there = [each for each in jobs if found.jobs[each.name].outcome in (Outcome.STARTS, Outcome.RUNS)]
    for name in tree:
        inside = [each for each in there if name in (each.queue, *QueueTree(tree).ancestors(each.queue))]
        if any(each.name in started for each in inside):
            assert sum(each.request[GPU] for each in inside) <= found.limits[name][GPU]
    if started:
        assert sum(each.request[GPU] for each in there) <= 64000
    for each in jobs:
        if found.jobs[each.name].outcome is Outcome.TAKEN:
            own = sum(
                other.request[GPU]
                for other in jobs
                if other.queue == each.queue and (other.running or other.name in started)
            )
            assert tree[each.queue].reclaimable
            assert own > units(tree[each.queue].deserved)[GPU] or found.limits[each.queue][GPU] < own
