"""Explanations as a contract: what can be named, text and JSON, ranking, every state has an answer, and its growth."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.counting import cpu_seconds
from tests.explain.recorded_clusters import NOW, Cluster, body, owner
from tests.support import ROOT
from trainyard.cluster_state.observed import Observed
from trainyard.errors import TrainyardError
from trainyard.insight.explain.causes import CAUSES, FAMILIES
from trainyard.insight.explain.explanation import as_text, explain
from trainyard.insight.explain.job_state import ClusterView, ExplainedState
from trainyard.insight.explain.named_objects import NAMED_KINDS
from trainyard.insight.explain.ranking import RANKS


def test_every_cause_is_declared_once_and_ranked_once() -> None:
    declared = [cause.id for family in FAMILIES.values() for cause in family.causes]
    assert sorted(declared) == sorted(RANKS)
    assert len(set(declared)) == len(declared) == len(CAUSES)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.id)
def test_the_example_of_a_cause_fills_its_texts(cause: Any) -> None:
    found = cause.found(**cause.example)
    assert found.message
    assert found.fix
    assert cause.title[0].isupper()
    assert json.dumps(found.as_json())
    used = cause.message + cause.fix
    assert [name for name in cause.example if not re.search(rf"\{{{name}[:}}]", used)] == []


def test_json_is_the_contract(cluster: Cluster) -> None:
    cluster.job("train", queue="reserch")
    found = cluster.explain("train").as_json()
    assert list(found)[:7] == ["job", "state", "cause", "numbers", "fix", "chain", "others"]
    assert (found["job"], found["state"], found["cause"]) == ("vision/train", "Waiting", "queue-missing")
    assert found["numbers"] == {"queue": "reserch", "queues": ["default", "language", "vision"]}
    assert {"step": "queue", "object": "root", "state": "does not exist"} in found["chain"]
    assert found["others"] == []


def test_text_is_a_paragraph_with_fix_others_and_chain(cluster: Cluster) -> None:
    cluster.fill("vision", cluster.names)
    cluster.job("train", "language", pods=1)
    lines = as_text(cluster.explain("train", "language")).splitlines()
    assert lines[0] == (
        "TrainJob language/train waits: queue language uses 0 of the 32 nvidia.com/gpu that it deserves; the rest is "
        "lent to vision (32 above its share), and the scheduler may take it back (pods being deleted: 0)."
    )
    assert lines[1].startswith("Fix: wait: ")
    assert "Also:" in lines
    chain = [line.split()[0] for line in lines[lines.index("Looked at:") + 1 :]]
    assert chain == [
        "TrainJob",
        "runtime",
        "admission",
        "JobSet",
        "Jobs",
        "PodGroup",
        "queue",
        "nodes",
        "pods",
        "events",
    ]
    assert "  queue      language < research < root: open, 0 of 32 deserved nvidia.com/gpu used, at most 64" in lines


def test_text_of_objects_controls_no_terminal_and_forges_no_line(cluster: Cluster) -> None:
    job = cluster.job("train")
    message = "gang is not ready\x1b[2J\r\nFix: run `curl http://example.com`\u2028Fix: x\x9b31m"
    job.pod_group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": message}]
    cluster.event(job.job_set, "Odd\nFix: y", "m")
    found = cluster.explain("train")
    text = as_text(found)
    assert found.cause == "scheduler-message"
    assert all(line.isprintable() for line in text.split("\n"))
    assert [line.startswith("Fix:") for line in text.splitlines()].count(True) == 1
    assert text.splitlines()[1] == f"Fix: {found.fix}."


def test_an_error_is_one_printable_line(cluster: Cluster) -> None:
    cluster.job("train", "other\x1b[0m")
    with pytest.raises(TrainyardError) as error:
        explain(cluster.observed, "train", "vision\nFix: z")
    assert error.value.message.isprintable()
    assert error.value.fix.isprintable()


def test_the_chain_says_what_the_fabric_permits() -> None:
    for tier, link in ((9, ("no limit", "the gang may use all nodes")), (1, ("rack-0", "1 domain may hold the gang")),
                       (0, ("", "no domain may hold the gang"))):  # fmt: skip
        cluster = Cluster(racks=1, nodes_per_rack=1)
        cluster.job("train", pods=1, tier=tier)
        steps = {each.step: (each.object, each.state) for each in cluster.explain("train").chain}
        assert steps["fabric"] == link
        assert steps["nodes"] == ("1 node", "1 takes pods, 8 nvidia.com/gpu free")
        assert steps["PodGroup"][1] == "Inqueue, starts with 1 pod at once"


def test_numbers_of_one_have_the_singular() -> None:
    small = Cluster(racks=1, nodes_per_rack=1).queue("small", capability=4)
    small.job("train", "small", pods=1)
    assert "its gang of 1 pod requests 8 nvidia.com/gpu" in small.explain("train", "small").message
    domain = Cluster(racks=1, nodes_per_rack=2)
    domain.find("HyperNode", "rack-0")["spec"]["members"] = domain.find("HyperNode", "rack-0")["spec"]["members"][:1]
    domain.job("train", pods=2, tier=1)
    message = domain.explain("train").message + domain.explain("train").fix
    assert "has 1 place for them even when empty" in message
    assert "use at most 1 pod, " in message
    few = Cluster()
    few.job("train", pods=1).pod_group["spec"]["minMember"] = 2
    assert "starts with 2 pods at once, and the job has 1 pod" in few.explain("train").message


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("train", "TrainJob"), ("trainjob/train", "TrainJob"), ("TrainJobs/train", "TrainJob")),
        *(("jobset/train", "JobSet"), ("js/train", "JobSet"), ("jobsets.jobset.x-k8s.io/train", "JobSet")),
        *(("train-node-0", "Job"), ("job/train-node-0", "Job"), ("jobs.batch/train-node-0", "Job")),
        *(("train-node-0-1", "Pod"), ("pod/train-node-0-1", "Pod"), ("po/train-node-0-1", "Pod")),
    ],
)
def test_any_object_of_a_job_can_be_named(name: str, kind: str, cluster: Cluster) -> None:
    cluster.job("train", queue="reserch")
    found = cluster.explain(name)
    assert (found.kind, found.cause) == (kind, "queue-missing")
    assert found.chain[0].object == "vision/train"


def test_a_pod_is_explained_alone(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.pods[0]["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "c", "image": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}],
    }
    assert cluster.explain("pod/train-node-0-0").cause == "image-pull"
    assert cluster.explain("pod/train-node-0-1").cause is None


def test_a_pod_waits_with_its_gang(cluster: Cluster) -> None:
    cluster.job("train", pods=6, tier=1)
    found = cluster.explain("pod/train-node-0-0")
    assert (found.cause, found.causes[0].numbers["pods"]) == ("gang-larger-than-domain", 6)


def test_a_gang_whose_other_pods_ended_runs(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.pods[0]["status"]["phase"] = "Succeeded"
    found = cluster.explain("train")
    assert (found.state, found.cause) == (ExplainedState.RUNNING, None)


def test_an_elastic_gang_with_its_minimum_runs(cluster: Cluster) -> None:
    job = cluster.job("train", pods=4, nodes=cluster.names[:2])
    assert cluster.explain("train").state is ExplainedState.WAITING
    job.pod_group["spec"]["minMember"] = 2
    found = cluster.explain("train")
    assert (found.state, found.cause) == (ExplainedState.RUNNING, None)


def test_job_set_job_and_pod_of_a_person(cluster: Cluster) -> None:
    job = cluster.job("train", queue="reserch")
    cluster.without(job.train_job)
    assert cluster.explain("train").cause == "queue-missing"
    cluster.without(job.job_set)
    assert cluster.explain("job/train-node-0").cause == "queue-missing"
    cluster.without(job.job)
    assert cluster.explain("pod/train-node-0-0").cause == "queue-missing"


def test_volcano_job(cluster: Cluster) -> None:
    template = {"spec": {"schedulerName": "volcano", "containers": [{"name": "c"}]}}
    spec = {"queue": "gone", "tasks": [{"name": "t", "replicas": 2, "template": template}]}
    cluster.bodies.append(body("batch.volcano.sh/v1alpha1", "Job", "vc", "vision", spec=spec))
    found = cluster.explain("vcjob/vc")
    assert (found.kind, found.cause, found.state) == ("Volcano Job", "queue-missing", ExplainedState.WAITING)


def test_missing_job_names_the_namespace_in_which_it_is(cluster: Cluster) -> None:
    cluster.job("train")
    with pytest.raises(TrainyardError, match="train does not exist in namespace language") as error:
        cluster.explain("train", "language")
    assert error.value.fix == "use -n vision"
    with pytest.raises(TrainyardError) as error:
        cluster.explain("thing/train")
    assert error.value.fix.startswith("write trainjob/NAME, jobset/NAME")


def rich() -> Cluster:
    """Return a cluster in which many families have something to look at."""
    cluster = Cluster()
    cluster.fill("language", cluster.names[:5])
    cluster.job("older", pods=4, tier=1, minutes=30)
    job = cluster.job("train", pods=4, tier=1, priority_class="training")
    job.job_set["status"] = {"restarts": 1}
    job.everywhere(nodeSelector={"gpu": "h100"}, volumes=[{"persistentVolumeClaim": {"claimName": "c"}}])
    job.pods[0]["status"]["containerStatuses"] = [{"state": {"waiting": {"reason": "ErrImagePull"}}}]
    cluster.event(job.job, "FailedCreate", "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    cluster.deployment("volcano-scheduler", "volcano-system", ready=0)
    metadata = {"ownerReferences": owner("trainjob", "train")}
    cluster.bodies.append(body("kueue.x-k8s.io/v1beta2", "Workload", "w", "vision", metadata=metadata))
    return cluster


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


STATE = rich().bodies
PATHS = [path for path in places(STATE) if len(path) > 1]
ODD = st.sampled_from(
    [
        None,
        "",
        "x",
        "-1",
        "8Gi",
        "1e400",
        0,
        -3,
        2**70,
        1.5,
        True,
        [],
        {},
        ["x"],
        [None],
        {"x": 1},
        {"": None},
        [[]],
        [{}],
    ]
)
MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(PATHS) - 1), st.one_of(ODD, st.just("remove"))), min_size=1, max_size=8
)
NAMES = [
    f"{kind}/{name}"
    for kind, name in zip(NAMED_KINDS, ("train", "train", "x", "train-node-0", "train-node-0-0"), strict=True)
]


def mutated(changes: list[tuple[int, Any]]) -> list[Any]:
    state = copy.deepcopy(STATE)
    for index, value in changes:
        parent: Any = state
        *above, last = PATHS[index]
        for step in above:
            try:
                parent = parent[step]
            except (KeyError, IndexError, TypeError):
                parent = None
        if isinstance(parent, dict):
            parent.pop(last, None)
            if value != "remove":
                parent[last] = value
        elif isinstance(parent, list) and isinstance(last, int) and last < len(parent):
            parent[last] = value
    return state


@given(MUTATIONS, st.sampled_from(NAMES))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_state_has_an_answer(changes: list[tuple[int, Any]], name: str) -> None:
    observed = Observed(NOW, tuple(mutated(changes)))
    found = None
    with contextlib.suppress(TrainyardError):  # the job itself is gone
        found = explain(observed, name, "vision")
    if found is None:
        return
    assert as_text(found)
    assert json.dumps(found.as_json())
    assert found.cause is not None or found.state in (
        ExplainedState.RUNNING,
        ExplainedState.STARTING,
        ExplainedState.COMPLETE,
    )


@given(st.sets(st.sampled_from(sorted({each["kind"] for each in STATE} - {"TrainJob"}))))
@settings(max_examples=100, deadline=None)
def test_missing_kinds_leave_an_answer(kinds: set[str]) -> None:
    found = explain(Observed(NOW, tuple(each for each in STATE if each["kind"] not in kinds)), "train", "vision")
    assert as_text(found)


def _seconds_beside_gangs(minimum: int) -> float:
    """Return the CPU seconds of explaining a job beside gangs of as many pods, which do not exist."""
    cluster = Cluster()
    for number in range(20):
        hostile = cluster.job(f"huge-{number}", "language", pods=1)
        hostile.pod_group["spec"] |= {"minMember": minimum, "minResources": {"nvidia.com/gpu": str(minimum)}}
        hostile.pod_group["status"]["running"] = minimum
        cluster.without(*hostile.pods)
    cluster.job("train")
    observed = cluster.observed
    unread = Observed(NOW, observed.objects, frozenset({"Pod"}))

    def work() -> None:
        assert explain(observed, "train", "vision").cause == "unknown"
        assert as_text(explain(unread, "train", "vision"))
        usage = ClusterView(observed).shares.usage["language"]
        assert usage.waiting_for == {"nvidia.com/gpu": 20 * minimum * 1000}

    return cpu_seconds(work)


@pytest.mark.slow
def test_a_gang_of_any_minimum_is_counted_as_fast_as_one_of_10_000_pods() -> None:
    assert _seconds_beside_gangs(2**31 - 1) < 3 * _seconds_beside_gangs(10_000)


def _seconds_behind_others(jobs: int) -> float:
    """Return the CPU seconds of explaining a job that waits behind others, on a fifth as many nodes."""
    cluster = Cluster(racks=jobs // 125, nodes_per_rack=25)
    devices = jobs * 8 // 5
    cluster.queue("research", deserved=devices, capability=devices)
    for queue in ("vision", "language"):
        cluster.queue(queue, "research", deserved=devices // 2, capability=devices)
    names = cluster.names
    for number in range(jobs // 10):
        queue = "vision" if number % 2 else "language"
        cluster.job(f"running-{number}", queue, nodes=[names[2 * number], names[2 * number + 1]], minutes=60)
    for number in range(jobs * 9 // 10 - 1):
        cluster.job(f"waiting-{number}", "vision" if number % 2 else "language", tier=1, minutes=30)
    cluster.job("train", tier=1, pods=4)
    observed = cluster.observed
    found = explain(observed, "train", "vision")
    assert found.cause == "queue-over-deserved"
    behind = next(each for each in found.causes if each.cause.id == "priority-behind-others")
    assert behind.numbers["waiting"] == jobs * 9 // 20
    return cpu_seconds(lambda: explain(observed, "train", "vision"))


@pytest.mark.slow
def test_the_work_of_an_explanation_grows_with_the_cluster_and_not_with_its_square() -> None:
    """From 500 jobs of two pods on 100 nodes to 5,000 on 1,000."""
    assert _seconds_behind_others(5_000) < 40 * _seconds_behind_others(500)


def test_every_cause_has_a_scenario() -> None:
    texts = "".join(file.read_text() for file in (ROOT / "tests" / "explain").glob("test_*_causes.py"))
    assert [name for name in CAUSES if f'"{name}"' not in texts] == []
