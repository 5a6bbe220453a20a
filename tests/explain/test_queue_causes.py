"""Causes in the queue tree and in shares, each beside a near miss."""

from __future__ import annotations

import pytest

from tests.explain.recorded_clusters import GPU, NOT_READ, Cluster, check, minutes_ago
from trainyard.insight.explain.explanation import as_text
from trainyard.insight.explain.job_state import ExplainedState


def full(cluster: Cluster, *, vision: int = 4, language: int = 4) -> Cluster:
    """Fill nodes with jobs of two queues."""
    names = cluster.names
    if vision:
        cluster.fill("vision", names[:vision])
    if language:
        cluster.fill("language", names[vision : vision + language])
    return cluster


def test_a_job_that_runs_needs_no_cause(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names[:2])
    found = cluster.explain("busy-vision")
    assert (found.state, found.cause, found.fix, found.causes) == (ExplainedState.RUNNING, None, "", ())
    assert found.message == "TrainJob vision/busy-vision runs."


def test_missing_queue(cluster: Cluster) -> None:
    cluster.job("train", queue="reserch")
    check(cluster.explain("train"), "queue-missing", "use one of default, language, vision", queue="reserch")


def test_a_queue_that_exists_is_not_missing(cluster: Cluster) -> None:
    cluster.job("train", queue="vision")
    assert "queue-missing" not in cluster.causes("train")


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_closed_queue(state: str) -> None:
    cluster = Cluster().queue("vision", "research", deserved=32, state=state)
    cluster.job("train")
    check(cluster.explain("train"), "queue-closed", "ask the platform team to open vision", state=state.lower())


def test_a_running_job_of_a_closed_queue_has_no_cause() -> None:
    cluster = Cluster().queue("vision", "research", deserved=32, state="Closing")
    cluster.fill("vision", cluster.names[:1])
    assert cluster.causes("busy-vision") == []


REFUSED = 'admission webhook "validatepodgroup.volcano.sh" denied the request: '
SUBMIT = "can only submit PodGroup to queue with state `Open`, queue `vision` status is `Closed`. "


@pytest.mark.parametrize(
    ("message", "cause", "queue"),
    [(SUBMIT, "queue-closed", "vision"),
     ('unable to find queue: queues.scheduling.volcano.sh "gone" not found', "queue-missing", "gone")],
)  # fmt: skip
def test_queue_for_which_volcano_rejects_the_pod_group(message: str, cause: str, queue: str) -> None:
    cluster = Cluster().queue("vision", "research", deserved=32, state="Closed")
    job = cluster.job("train")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    cluster.event(job.train_job, "TrainJobResourcesCreationFailed", REFUSED + message)
    found = cluster.explain("train")
    check(found, cause, queue, queue=queue)
    assert [each.cause.id for each in found.causes] == [cause, "webhook-rejected"]
    cluster.queue("vision", "research").queue("gone")
    assert cluster.causes("train") == ["webhook-rejected"]  # until the controller tries again


def test_queue_with_child_queues(cluster: Cluster) -> None:
    cluster.job("train", queue="research")
    found = cluster.explain("train")
    check(found, "queue-not-leaf", "submit it to one of language, vision", children=["language", "vision"])


def test_an_inner_queue_is_fine_without_the_tree(cluster: Cluster) -> None:
    cluster.platform["spec"]["schedulerFeatures"] = ["allocate", "proportion", "gang"]
    cluster.job("train", queue="research")
    assert "queue-not-leaf" not in cluster.causes("train")


def test_scheduling_is_stopped_by_a_job_of_another_tenant(cluster: Cluster) -> None:
    cluster.job("probe", "language", queue="research")
    cluster.job("train")
    check(cluster.explain("train"), "queue-tree-stopped", "delete PodGroup language/probe")


@pytest.mark.parametrize("features", [None, []])
def test_no_job_is_deleted_on_an_assumption(features: list[str] | None, cluster: Cluster) -> None:
    """Without features (an empty list is the default), it is unknown whether the scheduler reads the tree."""
    if features is None:
        cluster.without(cluster.platform)
    else:
        cluster.platform["spec"]["schedulerFeatures"] = features
    cluster.job("probe", "language", queue="research")
    cluster.job("train")
    for name, namespace in (("train", "vision"), ("probe", "language")):
        found = cluster.explain(name, namespace)
        assert "delete" not in as_text(found)
        assert not {"queue-tree-stopped", "queue-not-leaf"} & {each.cause.id for each in found.causes[:1]}
    tree = next(each for each in cluster.explain("train").causes if each.cause.id == "queue-tree-unknown")
    assert "PodGroup language/probe is in queue research, which has child queues" in tree.message
    assert "if the scheduler reads" in tree.message
    own = cluster.explain("probe", "language")
    check(own, "queue-tree-unknown", "one of language, vision", queue="research")


def test_a_job_in_another_leaf_stops_nothing(cluster: Cluster) -> None:
    cluster.job("probe", "language")
    cluster.job("train")
    assert "queue-tree-stopped" not in cluster.causes("train")


def test_scheduling_is_stopped_by_a_queue_without_parent_and_by_a_cycle() -> None:
    for parent, text in (("gone", "does not exist"), ("lost", "cycle")):
        cluster = Cluster().queue("lost", parent)
        cluster.job("train")
        found = cluster.explain("train")
        check(found, "queue-tree-stopped", "trainyard queues check")
        assert text in found.message


def test_gang_larger_than_the_capability_of_its_queue() -> None:
    cluster = Cluster().queue("small", capability=8)
    cluster.job("train", queue="small", pods=2)
    numbers = {"limited_by": "small", "limit": "8", "requested": "16", "pods": 2, "resource": GPU}
    check(cluster.explain("train"), "queue-over-capability", "request at most 8 nvidia.com/gpu", **numbers)


def test_gang_larger_than_the_capability_of_a_queue_above() -> None:
    cluster = Cluster().queue("research", capability=24)
    cluster.job("train", pods=4)
    check(
        cluster.explain("train"), "queue-over-capability", "capability of research", limited_by="research", limit="24"
    )


def test_a_queue_whose_capability_has_none_of_a_resource() -> None:
    cluster = Cluster().queue("small", "research", capability=0)
    cluster.job("train", queue="small")
    found = cluster.explain("train")
    check(found, "queue-over-capability", "submit it to another queue", limit="0", limited_by="small")
    assert "request at most 0" not in found.fix


def test_gang_of_exactly_the_capability_is_not_too_large() -> None:
    cluster = Cluster().queue("small", capability=16)
    cluster.job("train", queue="small", pods=2)
    assert cluster.causes("train") == []


def test_queue_at_its_capability() -> None:
    cluster = Cluster().queue("small", capability=16)
    cluster.job("first", "small", pods=2, nodes=cluster.names[:2])
    cluster.job("train", "small", pods=1)
    found = cluster.explain("train", "small")
    check(found, "queue-capability-full", "small/first", used="16", limit="16", requested="8", queue="small")


def test_queue_below_its_capability() -> None:
    cluster = Cluster().queue("small", capability=24)
    cluster.job("first", "small", pods=2, nodes=cluster.names[:2])
    cluster.job("train", "small", pods=1)
    assert cluster.causes("train", "small") == []


def test_queue_above_it_at_its_limit() -> None:
    cluster = Cluster().queue("research", capability=32)
    cluster.fill("language", cluster.names[:4])
    cluster.job("train", pods=1)
    found = cluster.explain("train")
    check(
        found,
        "queue-ancestor-full",
        "language/busy-language",
        ancestor="research",
        used="32",
        limit="32",
        requested="8",
    )


def test_a_full_ancestor_whose_borrower_gives_back_is_a_lent_share() -> None:
    cluster = Cluster().queue("research", capability=40)
    cluster.fill("language", cluster.names[:5])
    cluster.job("train", pods=1)
    assert cluster.causes("train") == []  # four nodes are free, and language gives one of its five back


def test_capability_is_known_without_the_right_to_read_nodes() -> None:
    cluster = Cluster(unread=NOT_READ | {"PodGroup.scheduling.volcano.sh", "Pod"}).queue("small", capability=8)
    cluster.find("Queue", "small")["status"]["allocated"] = {GPU: "8"}
    job = cluster.job("train", "small", pods=1)
    job.pod_group["spec"]["minResources"] = {GPU: "8"}
    check(cluster.explain("train", "small"), "queue-capability-full", "capability", used="8", limit="8")


def test_guarantees_of_others() -> None:
    cluster = (
        Cluster().queue("vision", "research", deserved=48, guarantee=48).queue("language", "research", deserved=16)
    )
    cluster.fill("language", cluster.names[:2])
    cluster.job("train", "language", pods=1)
    found = cluster.explain("train", "language")
    check(found, "queue-guarantees-of-others", "lower guarantees of vision", holders=["vision"], limit="16", used="16")


def test_guarantees_that_leave_enough() -> None:
    cluster = (
        Cluster().queue("vision", "research", deserved=48, guarantee=40).queue("language", "research", deserved=16)
    )
    cluster.fill("language", cluster.names[:2])
    cluster.job("train", "language", pods=1)
    assert "queue-guarantees-of-others" not in cluster.causes("train", "language")


def test_share_that_is_lent_out_is_taken_back(cluster: Cluster) -> None:
    busy = cluster.fill("vision", cluster.names)
    for pod in busy.pods[:3]:
        pod["metadata"]["deletionTimestamp"] = minutes_ago(2)
    cluster.job("train", "language", pods=2)
    found = cluster.explain("train", "language")
    numbers = {"queue": "language", "used": "0", "deserved": "32", "leaving": 3}
    numbers["progress"] = f"takes it back since {minutes_ago(2)}"
    check(found, "share-lent-out", "grace period", **numbers)
    assert "cluster-full" in [each.cause.id for each in found.causes]


def test_share_of_which_nothing_leaves_may_be_taken_back(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=2)
    numbers = {"lenders": ["vision (32 above its share)"], "progress": "may take it back", "leaving": 0}
    found = cluster.explain("train", "language")
    check(found, "share-lent-out", "wait", **numbers)
    assert "since" not in found.message


def test_a_gang_larger_than_the_share_takes_nothing_back(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=5)
    numbers = {"used": "0", "deserved": "32", "requested": "40", "free": "0"}
    check(cluster.explain("train", "language"), "queue-over-deserved", "request fewer", **numbers)
    assert "share-lent-out" not in cluster.causes("train", "language")


def test_a_gang_of_exactly_the_share_takes_it_back(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=4)
    assert cluster.causes("train", "language")[0] == "share-lent-out"


def test_lenders_are_queues_whose_pods_hold_the_resource() -> None:
    cluster = full(Cluster(), vision=4, language=3)
    cluster.queue("third", "research", deserved=8, capability=64)
    cluster.job("web", "default", pods=4, gpus=0, nodes=cluster.names[:4])  # no share: it gives back all it has
    cluster.fill("vision", cluster.names[7:], name="more")
    cluster.find("Node", cluster.names[7])["spec"]["unschedulable"] = True
    cluster.queue("vision", "research", deserved=64, capability=64)
    cluster.job("train", "third", pods=1)
    causes = cluster.causes("train", "third")
    assert "share-lent-out" not in causes
    assert causes[0] == "cluster-full"


def test_a_queue_above_its_share_of_one_resource_gives_back_the_others() -> None:
    """Volcano evicts a pod of a queue that is above its share in any resource that the pod requests."""
    cluster = Cluster().queue("vision", "research", deserved=64, capability=64)
    cluster.find("Queue", "vision")["spec"]["deserved"]["cpu"] = "24"
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=2)
    lenders = ["vision (above its share of cpu)"]
    check(cluster.explain("train", "language"), "share-lent-out", "wait", lenders=lenders)
    cluster.job("large", "language", pods=3)
    assert "share-lent-out" not in cluster.causes("large", "language")


def test_lenders_that_hold_too_little_are_no_lent_share() -> None:
    cluster = Cluster().queue("vision", "research", deserved=48, capability=64)
    cluster.fill("vision", cluster.names[:7])
    cluster.queue("third", "research", deserved=8, capability=64)
    cluster.fill("third", cluster.names[7:])
    cluster.job("train", "language", pods=2)
    causes = cluster.causes("train", "language")
    assert "share-lent-out" not in causes
    assert causes[0] == "cluster-full"


@pytest.mark.parametrize(
    ("enqueue", "phase", "least", "lent"),
    [(True, "Pending", True, False), (True, "Inqueue", True, True), (True, "Pending", False, True),
     (False, "Pending", True, True)],
)  # fmt: skip
def test_a_gang_that_is_not_enqueued_takes_nothing_back(
    enqueue: bool, phase: str, least: bool, lent: bool, cluster: Cluster
) -> None:
    if enqueue:
        cluster.platform["spec"]["schedulerFeatures"].append("enqueue")
    cluster.fill("vision", cluster.names)
    group = cluster.job("train", "language", pods=2).pod_group
    group["status"]["phase"] = phase
    if least:
        group["spec"]["minResources"] = {GPU: "16"}
    assert ("share-lent-out" in cluster.causes("train", "language")) == lent


def test_nothing_is_lent_where_every_queue_is_within_its_share() -> None:
    cluster = full(Cluster(), vision=4, language=4)
    cluster.job("train", "language", pods=1)
    found = cluster.causes("train", "language")
    assert "share-lent-out" not in found
    assert found[0] == "queue-over-deserved"


def test_job_that_takes_nothing_back(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.find("PriorityClass", "training")["preemptionPolicy"] = "Never"
    job = cluster.job("train", "language", pods=1, priority_class="training")
    for pod in job.pods:
        pod["spec"]["preemptionPolicy"] = "Never"
    found = cluster.explain("train", "language")
    check(found, "share-not-claimed", "use a priority class that preempts", priority_class="training")
    assert "share-lent-out" not in [each.cause.id for each in found.causes]


@pytest.mark.parametrize("what", ["queue", "action"])
def test_borrower_that_gives_nothing_back(what: str, cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=1)
    if what == "queue":
        cluster.find("Queue", "vision")["spec"]["reclaimable"] = False
    else:
        cluster.platform["spec"]["schedulerFeatures"].remove("reclaim")
    fix = "reclaimable: true for vision" if what == "queue" else "action reclaim"
    check(cluster.explain("train", "language"), "share-not-reclaimable", fix, borrowers=["vision"])


def test_queue_beyond_its_share_in_a_full_cluster() -> None:
    cluster = full(Cluster(), vision=4, language=4)
    cluster.job("train", pods=1)
    numbers = {"queue": "vision", "used": "32", "deserved": "32", "requested": "8", "capacity": "64", "free": "0"}
    check(cluster.explain("train"), "queue-over-deserved", "larger share", **numbers)


def test_queue_beyond_its_share_borrows_what_is_free() -> None:
    cluster = full(Cluster(), vision=4, language=3)
    cluster.job("train", pods=1)
    assert cluster.causes("train") == []


def test_full_cluster(cluster: Cluster) -> None:
    cluster.queue("vision", "research", deserved=64)
    cluster.fill("language", cluster.names[:7])
    cluster.queue("language", "research", deserved=64)
    cluster.job("train", pods=2)
    numbers = {"requested": "16", "capacity": "64", "free": "8", "users": ["language (56)"]}
    check(cluster.explain("train"), "cluster-full", "wait until other jobs end", **numbers)


def test_a_cluster_with_room_is_not_full(cluster: Cluster) -> None:
    cluster.queue("vision", "research", deserved=64)
    cluster.fill("language", cluster.names[:6])
    cluster.job("train", pods=2)
    assert cluster.causes("train") == []


def broken(gpus: int) -> Cluster:
    """Return a cluster in which half of the nodes are full, and one of them has lost devices under its pod."""
    cluster = Cluster()
    cluster.fill("vision", cluster.names[:4])
    cluster.find("Node", cluster.names[0])["status"]["allocatable"][GPU] = str(8 - gpus)
    return cluster


def test_devices_that_broke_under_a_pod_count_against_free_nodes() -> None:
    """Queues are limited by what the nodes offer, and count what pods hold (volcano#5911)."""
    cluster = broken(1)
    cluster.job("train", "language", pods=4)
    numbers = {"used": "32", "requested": "32", "capacity": "63", "nodes": ["rack-0-node-0"]}
    check(cluster.explain("train", "language"), "nodes-overcommitted", "repair these nodes or to drain", **numbers)


@pytest.mark.parametrize(("gpus", "pods"), [(0, 4), (1, 3)])
def test_a_gang_within_what_the_nodes_offer_starts(gpus: int, pods: int) -> None:
    cluster = broken(gpus)
    cluster.job("train", "language", pods=pods)
    assert cluster.causes("train", "language") == []


def test_free_nodes_do_not_help_a_gang_that_takes_its_share_back() -> None:
    """Action reclaim places nothing on a node without a pod to evict."""
    cluster = Cluster().queue("small", capability=8)
    cluster.fill("vision", cluster.names[:5])
    cluster.fill("small", cluster.names[5:6])
    cluster.job("train", "language", pods=3)
    check(cluster.explain("train", "language"), "cluster-full", "wait until other jobs end", requested="24", free="16")
    cluster.fill("vision", cluster.names[6:], name="more")
    check(cluster.explain("train", "language"), "share-lent-out", "wait", used="0", deserved="32")
