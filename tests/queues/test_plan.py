"""Plan of a queue tree change, as text, Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.golden import assert_golden
from tests.queues.test_forecast import gpus, job
from trainyard.cli.app import build
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.plan import Plan, PlannedEffect, plan
from trainyard.scheduling.queues.plan_report import as_json, as_markdown, as_text
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.queued_gangs import GangPod, QueuedJob, read_jobs
from trainyard.scheduling.queues.snapshot import Snapshot, snapshot_of_cluster, snapshot_of_file
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.usage import draw_usage, drawn_resources, queue_usage
from trainyard.settings.tenancy import QueueState

GOLDEN = Path(__file__).parent / "golden"
BEFORE = {"a": Queue(deserved=gpus(32)), "b": Queue(deserved=gpus(32), capability=gpus(48)), "old": Queue()}
AFTER = {"a": Queue(deserved=gpus(16), priority=2), "b": Queue(deserved=gpus(48)), "new": Queue(deserved=gpus(0))}
JOBS = [
    job("vision/0", "a", 24, running=True),
    job("vision/1", "a", 8, running=True),
    job("language/0", "b", 16, running=True),
    job("language/1", "b", 32),
    job("lost/0", "old", 8),
]
TENANTS = {"vision": ["a"], "language": ["b", "new"]}


def changed() -> Plan:
    return plan(QueueTree(BEFORE), QueueTree(AFTER), jobs=JOBS, capacity=units(gpus(64)), tenants=TENANTS)


def test_a_plan_as_text() -> None:
    assert_golden(GOLDEN / "plan.txt", as_text(changed()) + "\n")


def test_a_plan_as_markdown() -> None:
    assert_golden(GOLDEN / "plan.md", as_markdown(changed()) + "\n")


def test_a_plan_as_json() -> None:
    assert_golden(GOLDEN / "plan.json", json.dumps(as_json(changed()), indent=2) + "\n")


def test_an_evicted_job_names_the_job_that_reclaims() -> None:
    effects = {change.job.name: change for change in changed().jobs}
    assert effects["vision/1"].effect is PlannedEffect.EVICTED
    assert effects["vision/0"].reason == "by language/1 of b"
    assert effects["vision/1"].reason == "by language/1 of b, and may start again"
    assert effects["language/1"].effect is PlannedEffect.STARTS
    assert effects["lost/0"].reason == "queue old does not exist"


def test_no_change_has_no_effects() -> None:
    found = plan(QueueTree(BEFORE), QueueTree(BEFORE), jobs=JOBS, capacity=units(gpus(64)))
    assert (found.queues, found.jobs) == ((), ())
    assert as_text(found) == as_markdown(found) == "No queue changes."


def test_the_queue_that_volcano_makes_is_neither_added_nor_removed() -> None:
    with_it = {**BEFORE, "default": Queue()}
    assert plan(QueueTree(with_it), QueueTree(BEFORE)).queues == ()
    assert plan(QueueTree(BEFORE), QueueTree(with_it)).queues == ()


def test_the_effective_limit_below_an_ancestor_is_a_change() -> None:
    tree = {"team": Queue(capability=gpus(32)), "a": Queue("team", deserved=gpus(8))}
    smaller = {**tree, "team": Queue(capability=gpus(16))}
    found = plan(QueueTree(tree), QueueTree(smaller), capacity=units(gpus(64)))
    (inner,) = (each for each in found.queues if each.queue == "a")
    assert [str(share) for share in inner.shares] == ["limit nvidia.com/gpu 32 → 16"]


def test_many_jobs_of_an_effect_are_counted() -> None:
    jobs = [job(f"vision/{number:03}", "a", 1) for number in range(60)]
    closed = {"a": Queue(capability=gpus(0))}
    found = plan(QueueTree({"a": Queue()}), QueueTree(closed), jobs=jobs, capacity=units(gpus(64)))
    assert "and 10 more: waits" in as_text(found)
    assert "| 10 more | | | waits |" in as_markdown(found)


def test_table_cells_are_escaped() -> None:
    found = plan(QueueTree({}), QueueTree({"a": Queue()}), tenants={"x|y": ["a"]})
    assert "x\\|y" in as_markdown(found)


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parent": "root", **spec},
    }


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([manifest("a", parent="b"), manifest("b", parent="a")], "queues form a cycle: a → b → a"),
        ([manifest("a", parent="gone")], "the parent 'gone' of queue 'a' does not exist"),
    ],
)
def test_an_invalid_tree_has_no_plan(queues: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(TrainyardError, match=words):
        snapshot_of_file(yaml.safe_dump_all(queues), "queues.yaml")


def test_the_capacity_of_a_cluster_is_that_of_its_schedulable_nodes() -> None:
    nodes = [
        {"status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}}},
        {"status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}}, "spec": {"unschedulable": True}},
    ]
    written_by_the_scheduler = manifest("root", deserved={"cpu": "16"})
    snapshot = snapshot_of_cluster([written_by_the_scheduler, manifest("a", deserved={"cpu": "4"})], nodes)
    assert snapshot.capacity == {"cpu": 8000, "nvidia.com/gpu": 8000}
    assert sorted(snapshot.tree.queues) == ["a"]


def test_usage_of_queues_is_drawn() -> None:
    tree = {
        "team": Queue(deserved=gpus(48)),
        "a": Queue("team", deserved=gpus(16), guarantee=gpus(8), capability=gpus(48)),
        "b": Queue("team", deserved=gpus(32)),
    }
    jobs = [job("one", "a", 24, running=True), job("two", "b", 16), job("three", "default", 4, running=True)]
    found = queue_usage(Snapshot(QueueTree(tree), units(gpus(64))), jobs, {"b": "Closing"})
    assert drawn_resources(found) == ["nvidia.com/gpu"]
    assert_golden(GOLDEN / "usage.txt", draw_usage(found, "nvidia.com/gpu") + "\n")
    assert json.loads(json.dumps([each.as_json() for each in found]))[0]["used"] == {"nvidia.com/gpu": "28"}


def test_the_command_compares_files_with_recorded_jobs(tmp_path: Path) -> None:
    old, new, recorded = tmp_path / "old.yaml", tmp_path / "new.yaml", tmp_path / "jobs.yaml"
    old.write_text(yaml.safe_dump(manifest("a", deserved=gpus(8))))
    new.write_text(yaml.safe_dump(manifest("a", deserved=gpus(8), capability=gpus(8))))
    gang = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "large"}}
    recorded.write_text(yaml.safe_dump({**gang, "spec": {"queue": "a", "minResources": gpus(16)}}))
    result = CliRunner().invoke(build(), ["queues", "plan", str(old), str(new), "--jobs", str(recorded), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["jobs"] == [
        {
            "job": "default/large",
            "queue": "a",
            "effect": "waits",
            "reason": "the limit of a is 8 nvidia.com/gpu, of which 8 are free",
            "lost": 0,
            "estimate": "amounts are from minResources, not from pods",
        }
    ]


@pytest.mark.parametrize(
    ("command", "exit_code"), [(("plan", "old", "new"), 1), (("plan", "new", "old"), 0), (("show", "new"), 1)]
)
def test_a_queue_name_of_more_than_63_characters_is_found_in_every_command(
    tmp_path: Path, command: tuple[str, ...], exit_code: int
) -> None:
    (tmp_path / "old").write_text(yaml.safe_dump(manifest("a")))
    (tmp_path / "new").write_text(yaml.safe_dump_all([manifest("a" * 64), manifest("b", parent="a" * 64)]))
    files = [str(tmp_path / name) for name in command[1:]]
    result = CliRunner().invoke(build(), ["queues", command[0], *files])
    assert (result.exception is not None) == bool(exit_code)
    if exit_code:
        assert isinstance(result.exception, TrainyardError)
        assert "has a name of 64 characters" in str(result.exception)


def test_a_job_that_keeps_enough_pods_shrinks() -> None:
    each = units(gpus(8))
    elastic = QueuedJob(
        "vision/elastic", "a", units(gpus(64)), True, pods=tuple([GangPod(each, True)] * 8), min_member=1
    )
    waits = QueuedJob("language/gang", "b", units(gpus(32)), False, pods=tuple([GangPod(each)] * 4))
    trees = ({"a": Queue(deserved=gpus(32)), "b": Queue()}, {"a": Queue(deserved=gpus(32)), "b": BEFORE["b"]})
    found = plan(*map(QueueTree, trees), jobs=[elastic, waits], capacity=units(gpus(64)), node=each)
    assert [(change.effect, change.lost, change.estimate) for change in found.jobs] == [
        (PlannedEffect.SHRINKS, 4, ""),
        (PlannedEffect.STARTS, 0, ""),
    ]
    assert "loses pods and continues with the others: by language/gang of b; 4 of its pods" in as_text(found)
    assert "estimates" not in as_text(found)


def test_estimates_are_counted_and_marked() -> None:
    assert "estimate: " in as_text(changed())
    assert "forecasts are estimates" in as_text(changed())
    assert "forecasts are estimates" in as_markdown(changed())
    assert all(each["estimate"] is None or isinstance(each["estimate"], str) for each in as_json(changed())["jobs"])


def test_a_closed_queue_of_a_cluster_is_closed() -> None:
    closing = {**manifest("a"), "status": {"state": "Closing"}}
    assert snapshot_of_cluster([closing], []).tree.queues["a"].state is QueueState.CLOSED


def test_used_amounts_are_those_of_the_scheduler_or_of_pods() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "one"}, "spec": {"queue": "a", "minResources": gpus(64)}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "one-0", "annotations": {"scheduling.k8s.io/group-name": "one"}},
        "spec": {"nodeName": "n", "containers": [{"name": "node", "resources": {"requests": gpus(4)}}]},
    }
    snapshot, jobs = snapshot_of_cluster([manifest("a")], []), read_jobs([group, pod])
    assert [each.request for each in jobs] == [units(gpus(4))]
    seen = {each.queue: each for each in queue_usage(snapshot, jobs, {}, {"a": units(gpus(6))})}
    assert (seen["a"].used, seen["a"].source) == (units(gpus(6)), "Queue.status.allocated")
    assert (seen["root"].used, seen["root"].source) == (units(gpus(4)), "pods")
    hidden = read_jobs([{**group, "status": {"phase": "Running"}}], pods=False)
    (_, usage) = queue_usage(snapshot, hidden, {})[:2]
    assert (usage.used, usage.source, usage.as_json()["usedFrom"]) == (units(gpus(64)), *["minResources"] * 2)
    assert "64 used (estimate)" in draw_usage([usage], "nvidia.com/gpu")


def test_reclaimable_amounts_are_those_of_evictable_pods_above_the_share() -> None:
    each = units(gpus(8))
    pods = (GangPod(each, True), GangPod(each, True), GangPod(each, True, False))
    tree = {"a": Queue(deserved=gpus(4)), "b": Queue(deserved=gpus(8), reclaimable=False)}
    jobs = [QueuedJob("x", "a", units(gpus(24)), True, pods=pods), QueuedJob("y", "b", units(gpus(16)), True)]
    found = {each.queue: each for each in queue_usage(Snapshot(QueueTree(tree)), jobs, {})}
    assert (found["a"].reclaimable, found["b"].reclaimable) == (units(gpus(16)), {})
    assert found["a"].as_json()["reclaimable"] == gpus(16)
    assert "not reclaimable" in draw_usage(list(found.values()), "nvidia.com/gpu")


def test_the_command_draws_the_queues_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump(manifest("a", deserved=gpus(8))))
    result = CliRunner().invoke(build(), ["queues", "show", str(file)])
    assert result.exit_code == 0, result.output
    assert "8 deserved" in result.stdout
