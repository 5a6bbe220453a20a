"""Jobs that run, start, wait and are evicted under a queue tree: the scheduler's rules on totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.forecast import ForecastState, JobForecast, forecast
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.queued_gangs import GangPod, QueuedJob, read_jobs, requires_domain
from trainyard.scheduling.queues.scheduling import Scheduling, SharePlugin
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState

GPU = "nvidia.com/gpu"


def gpus(count: int) -> dict[str, str]:
    return {GPU: str(count)}


def job(name: str, queue: str, count: int, *, running: bool = False, priority: int = 0) -> QueuedJob:
    return QueuedJob(name, queue, units(gpus(count)), running, priority, name)


def outcomes(tree: Mapping[str, Queue], jobs: list[QueuedJob], capacity: int = 64) -> dict[str, str]:
    found = forecast(QueueTree(tree), jobs, units(gpus(capacity))).jobs
    return {name: each.state.value for name, each in found.items()}


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
    assert found["small"].state is ForecastState.STARTS


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
    tree = {"a": Queue(), "b": Queue(priority=1)}
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


def test_every_job_of_a_queue_above_its_share_is_reclaimable() -> None:
    running = [job("old", "a", 32, running=True), job("young", "a", 8, running=True), job("b", "b", 8, running=True)]
    found = forecast(QueueTree(SHARED), running, units(gpus(64))).jobs
    assert [found[each.name].reclaimable for each in running] == [True, True, False]


def gang(name: str, queue: str, pods: int, placed: int = 0, **fields: Any) -> QueuedJob:
    """Return a gang of pods that fill a node of eight GPUs each."""
    each = units(gpus(8))
    members = tuple(GangPod(each, index < placed) for index in range(pods))
    fields.setdefault("created", name)
    fields.setdefault("min_member", pods)
    request = units(gpus(8 * (placed or pods)))
    return QueuedJob(name, queue, request, placed >= fields["min_member"], pods=members, **fields)


def on_nodes(
    tree: Mapping[str, Queue], jobs: list[QueuedJob], nodes: int = 8, scheduling: Scheduling | None = None
) -> Mapping[str, JobForecast]:
    capacity, node = units(gpus(8 * nodes)), units(gpus(8))
    return forecast(QueueTree(tree), jobs, capacity, node=node, scheduling=scheduling).jobs


def test_a_priority_class_that_never_preempts_reclaims_nothing() -> None:
    found = on_nodes(SHARED, [gang("old", "a", 8, 8), gang("mine", "b", 4, preempts=False)])
    assert (found["old"].state, found["mine"].state) == (ForecastState.RUNS, ForecastState.WAITS)


def test_pods_that_are_not_evictable_are_kept() -> None:
    kept = QueuedJob("old", "a", units(gpus(64)), True, pods=tuple([GangPod(units(gpus(8)), True, False)] * 8))
    assert on_nodes(SHARED, [kept, gang("mine", "b", 4)])["mine"].state is ForecastState.WAITS


def test_an_elastic_gang_loses_only_the_pods_above_the_share() -> None:
    found = on_nodes(SHARED, [gang("old", "a", 8, 8, min_member=1), gang("mine", "b", 4)])
    assert (found["old"].state, found["old"].lost) == (ForecastState.SHRINKS, 4)
    assert found["old"].estimate == found["mine"].estimate == ""


def test_a_gang_that_loses_a_pod_restarts_as_a_whole() -> None:
    found = on_nodes(SHARED, [gang("old", "a", 8, 8), gang("mine", "b", 1)])
    assert (found["old"].state, found["old"].lost) == (ForecastState.EVICTED, 8)


def test_which_of_several_jobs_is_evicted_is_an_estimate() -> None:
    found = on_nodes(SHARED, [gang("one", "a", 4, 4), gang("two", "a", 4, 4), gang("mine", "b", 4)])
    assert found["mine"].state is ForecastState.STARTS
    assert "the node that it looks at first" in found["one"].estimate
    assert "the node that it looks at first" in found["two"].estimate


def test_free_nodes_do_not_count_for_a_gang_that_reclaims() -> None:
    found = on_nodes(SHARED, [gang("old", "a", 5, 5, min_member=1), gang("mine", "b", 4)])
    assert (found["old"].state, found["mine"].state) == (ForecastState.RUNS, ForecastState.WAITS)
    assert "does not count free nodes" in found["mine"].reason


def test_without_action_reclaim_nothing_is_evicted() -> None:
    found = on_nodes(SHARED, [gang("old", "a", 8, 8), gang("mine", "b", 4)], scheduling=Scheduling(reclaim=False))
    assert (found["old"].state, found["old"].reclaimable) == (ForecastState.RUNS, False)


def test_a_closed_queue_starts_nothing() -> None:
    found = on_nodes({"a": Queue(state=QueueState.CLOSED)}, [gang("mine", "a", 1)])
    assert (found["mine"].state, found["mine"].reason) == (ForecastState.WAITS, "queue a is closed")


def test_in_the_tree_the_limit_does_not_lower_a_share() -> None:
    tree = {"a": Queue(deserved=gpus(32)), "b": Queue(deserved=gpus(48), guarantee=gpus(48))}
    tree["c"] = Queue(reclaimable=False)
    running = [gang("old", "a", 4, 4), gang("kept", "c", 4, 4), gang("mine", "b", 2)]
    assert on_nodes(tree, running)["old"].state is ForecastState.RUNS
    flat = Scheduling(plugins=frozenset({SharePlugin.CAPACITY}))
    assert on_nodes(tree, running, scheduling=flat)["old"].state is ForecastState.EVICTED


def test_starts_on_parts_of_nodes_are_estimates() -> None:
    found = forecast(QueueTree(SHARED), [job("one", "a", 4)], units(gpus(64)), node=units(gpus(8))).jobs["one"]
    assert (found.state, found.estimate) == (ForecastState.STARTS, "totals are compared, not nodes")


def test_preemption_within_a_queue_makes_an_estimate() -> None:
    jobs = [gang("low", "a", 8, 8), gang("urgent", "a", 8, priority=5)]
    assert on_nodes(SHARED, jobs)["low"].estimate == ""
    found = on_nodes(SHARED, jobs, scheduling=Scheduling(preempt=True))
    assert found["low"].estimate == found["urgent"].estimate != ""


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
    two, one = read_jobs(bodies)
    assert (two.name, two.queue, two.request, two.running, two.counted) == ("default/two", "default", {}, False, False)
    assert (one.name, one.queue, one.request, one.running) == ("vision/one", "a", {"cpu": 2000, GPU: 8000}, True)
    assert (one.priority, one.created, one.counted) == (7, "2026-01-02T00:00:00Z", False)


def pod(name: str, group: str, count: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "node", "resources": {"requests": gpus(count)}}
    metadata = {"name": name, "annotations": {"scheduling.k8s.io/group-name": group}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}, "status": {}}


def test_amounts_are_those_of_the_pods() -> None:
    elastic = {"metadata": {"name": "elastic"}, "spec": {"minMember": 1, "minResources": gpus(8)}}
    patient = {"metadata": {"name": "patient"}, "spec": {"minMember": 2}}
    exempt = pod("exempt", "elastic", 8, nodeName="n3")
    exempt["metadata"]["labels"] = {"volcano.sh/preemptable": "false"}
    bodies = [
        {"kind": "PodGroup", **elastic, "status": {"phase": "Running"}},
        {"kind": "PodGroup", **patient},
        pod("a", "elastic", 8, nodeName="n1"),
        pod("b", "elastic", 8, nodeName="n2", priorityClassName="system-node-critical"),
        exempt,
        pod("c", "elastic", 8),
        pod("d", "patient", 4, preemptionPolicy="Never"),
        pod("e", "patient", 4, preemptionPolicy="Never", schedulingGates=[{"name": "wait"}]),
        {**pod("f", "patient", 4), "status": {"phase": "Succeeded"}},
    ]
    found = {each.name: each for each in read_jobs(bodies)}
    elastic_job, patient_job = found["default/elastic"], found["default/patient"]
    assert (elastic_job.request, elastic_job.needed, elastic_job.running) == (units(gpus(24)), 1, True)
    assert [each.evictable for each in elastic_job.pods] == [True, False, True, False]
    assert (len(patient_job.pods), patient_job.preempts, patient_job.counted) == (1, False, True)
    waits = forecast(QueueTree({}), [patient_job], units(gpus(64))).jobs["default/patient"]
    assert waits.reason == "it has 1 of the 2 pods that must run together"


def test_a_global_default_priority_and_its_policy_count() -> None:
    bodies = [
        {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 3, "globalDefault": True},
        {"kind": "PriorityClass", "metadata": {"name": "patient"}, "value": 1, "preemptionPolicy": "Never"},
        {"kind": "PodGroup", "metadata": {"name": "one"}, "spec": {}},
        {"kind": "PodGroup", "metadata": {"name": "two"}, "spec": {"priorityClassName": "patient"}},
    ]
    assert [(each.priority, each.preempts) for each in read_jobs(bodies)] == [(3, True), (1, False)]


def test_recorded_gangs_without_pods_are_estimates() -> None:
    group = {"metadata": {"name": "one"}, "spec": {"minMember": 2, "minResources": gpus(16)}}
    (found,) = read_jobs([{"kind": "PodGroup", **group, "status": {"phase": "Running", "running": 3}}])
    assert (found.request, len(found.pods)) == (units(gpus(24)), 3)
    (waiting,) = read_jobs([{"kind": "PodGroup", **group}])
    assert "minResources" in on_nodes({}, [waiting])["default/one"].estimate


@st.composite
def scenes(draw: st.DrawFn) -> tuple[dict[str, Queue], list[QueuedJob]]:
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


@pytest.mark.slow
@given(scenes())
def test_no_start_exceeds_a_limit_and_no_job_within_the_share_is_evicted(
    scene: tuple[dict[str, Queue], list[QueuedJob]],
) -> None:
    tree, jobs = scene
    found = forecast(QueueTree(tree), jobs, units(gpus(64)))
    started = {each.name for each in jobs if found.jobs[each.name].state is ForecastState.STARTS}
    there = [each for each in jobs if found.jobs[each.name].state in (ForecastState.STARTS, ForecastState.RUNS)]
    for name in tree:
        inside = [each for each in there if name in (each.queue, *QueueTree(tree).ancestors(each.queue))]
        if any(each.name in started for each in inside):
            assert sum(each.request[GPU] for each in inside) <= found.limits[name][GPU]
    if started:
        assert sum(each.request[GPU] for each in there) <= 64000
    for each in jobs:
        if found.jobs[each.name].state is ForecastState.EVICTED:
            own = sum(
                other.request[GPU]
                for other in jobs
                if other.queue == each.queue and (other.running or other.name in started)
            )
            assert tree[each.queue].reclaimable
            assert own > units(tree[each.queue].deserved)[GPU] or found.limits[each.queue][GPU] < own


def test_parts_of_nodes_make_estimates_of_whole_nodes_too() -> None:
    small = QueuedJob("small", "a", units(gpus(8)), True, pods=tuple([GangPod(units(gpus(1)), True)] * 8), min_member=1)
    found = on_nodes(SHARED, [small, gang("mine", "b", 7)])
    assert (found["mine"].state, found["mine"].estimate) == (ForecastState.STARTS, "totals are compared, not nodes")


def test_what_is_reclaimed_goes_to_the_job_that_is_next() -> None:
    lent = [gang(f"lent-{number}", "a", 1, 1) for number in range(8)]
    found = on_nodes(SHARED, [*lent, gang("patient", "b", 4, created="1", preempts=False), gang("young", "b", 4)])
    assert (found["patient"].state, found["young"].state) == (ForecastState.STARTS, ForecastState.WAITS)


@pytest.mark.parametrize(
    ("spec", "required"),
    [
        ({}, False),
        ({"networkTopology": {"mode": "soft", "highestTierAllowed": 1}}, False),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, True),
        ({"subGroupPolicy": [{"name": "a"}, {"name": "b", "networkTopology": {"mode": "hard"}}]}, True),
    ],
)
def test_a_gang_requires_a_domain_also_for_its_subgroups(spec: dict[str, Any], required: bool) -> None:
    group = {"metadata": {"name": "g", "namespace": "n"}, "spec": {"queue": "a", "minMember": 1, **spec}}
    assert requires_domain(spec) == required
    assert [found.topology for found in read_jobs([{"kind": "PodGroup", **group}])] == [required]


def test_pods_that_reclaim_may_evict_are_estimates_where_nodes_decide_whether_it_does() -> None:
    """A gang needs two nodes: one may be free, and one with a pod above the share; totals do not tell."""
    tree = {"a": Queue(deserved=gpus(16)), "b": Queue(deserved=gpus(16))}
    small = QueuedJob("small", "a", units(gpus(4)), True, pods=(GangPod(units(gpus(2)), True),) * 2, min_member=1)
    found = on_nodes(tree, [small, gang("old", "a", 2, 2, min_member=1), gang("mine", "b", 2)], nodes=4)
    assert found["mine"].estimate != ""
    assert found["old"].estimate == found["small"].estimate == found["mine"].estimate


def test_a_pod_that_fills_a_node_gets_the_free_cpu_of_the_node_it_reclaims() -> None:
    """The pods that it evicts request less cpu; the rest of their nodes' cpu was free."""

    def running(pods: int, cpu: str, placed: int) -> tuple[GangPod, ...]:
        request = units({**gpus(8), "cpu": cpu})
        return tuple(GangPod(request, index < placed) for index in range(pods))

    def of(name: str, queue: str, pods: tuple[GangPod, ...]) -> QueuedJob:
        return QueuedJob(name, queue, {}, pods[0].placed, created=name, pods=pods)

    tree = {"a": Queue(deserved=gpus(16)), "b": Queue(deserved=gpus(16))}
    jobs = [of("old", "a", running(4, "8", 4)), of("owner", "b", running(2, "48", 0))]
    capacity, node = units({**gpus(32), "cpu": "384"}), units({**gpus(8), "cpu": "96"})
    found = forecast(QueueTree(tree), jobs, capacity, node=node).jobs
    assert {name: (each.state, each.estimate) for name, each in found.items()} == {
        "old": (ForecastState.EVICTED, ""),
        "owner": (ForecastState.STARTS, ""),
    }
