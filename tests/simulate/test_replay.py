"""The clock jumps from one instant at which something is due to the next, and what happened is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.fake_world import Fifo, scenario
from trainyard.local.simulate.replay import Replay, replay
from trainyard.local.simulate.timeline import Ending, JobPhase


def played(folder: Path, **sections: Any) -> Replay:
    loaded = scenario(folder, **sections)
    return asyncio.run(replay(loaded, Fifo(loaded)))


def test_a_job_that_does_not_fit_starts_when_another_ends(tmp_path: Path) -> None:
    done = played(tmp_path, jobs={"first": {"pods": 6, "for": "1h"}, "second": {"at": "10m", "pods": 4, "for": "30m"}})
    seen = done.timeline
    assert (seen.started("first"), seen.started("second"), seen.now) == (0, 3600, 5400)
    assert [(wait.job, wait.began, wait.ended) for wait in seen.waits if wait.ended] == [("second", 600, 3600)]
    assert {run.ending for run in seen.runs} == {Ending.FINISHED}
    assert seen.state("second") is JobPhase.FINISHED


def test_a_job_that_loses_a_node_starts_over_and_runs_its_whole_time(tmp_path: Path) -> None:
    done = played(
        tmp_path,
        jobs={"gang": {"pods": 8, "for": "1h"}},
        events=[{"at": "20m", "fail": "rack-a-node-0"}, {"at": "50m", "repair": "rack-a"}],
        expect=[
            {"at": "20m", "job": "gang", "state": "waiting", "pods": 0, "restarts": 1, "lost": 8},
            {"at": "50m", "job": "gang", "state": "running"},
        ],
    )
    assert done.holds
    assert done.timeline.now == 50 * 60 + 3600
    assert [run.ending for run in done.timeline.runs].count(Ending.LOST) == 8
    assert done.timeline.marks == [(1200, "fail rack-a-node-0"), (3000, "repair rack-a")]


def test_a_job_without_a_duration_runs_to_the_end(tmp_path: Path) -> None:
    jobs = {"endless": {"pods": 2}, "short": {"pods": 1, "for": "5m"}}
    done = played(tmp_path, jobs=jobs, expect=[{"job": "endless", "state": "running"}])
    assert done.holds
    assert done.timeline.now == 300


def test_copies_arrive_one_after_the_other_and_can_be_deleted_by_pattern(tmp_path: Path) -> None:
    jobs = {"worker": {"copies": 3, "every": "10m", "pods": 1}}
    expect = [
        {"at": "10m", "job": "worker-*", "state": "running", "count": 2},
        {"at": "10m", "job": "worker-2", "state": "absent"},
        {"at": "30m", "job": "worker-*", "state": "deleted"},
        {"at": "30m", "freeNodes": 8},
    ]
    assert played(tmp_path, jobs=jobs, events=[{"at": "30m", "delete": "worker-*"}], expect=expect).holds


def test_cordoned_nodes_take_nothing_and_restarted_jobs_move(tmp_path: Path) -> None:
    done = played(
        tmp_path,
        jobs={"gang": {"pods": 4}},
        events=[{"at": 60, "cordon": "rack-a"}, {"at": 120, "restart": "gang"}, {"at": 180, "uncordon": "rack-a"}],
        expect=[
            {"at": 60, "job": "gang", "onlyOn": "rack-a", "within": "rack"},
            {"at": 120, "job": "gang", "onlyOn": "rack-b", "restarts": 1},
        ],
    )
    assert done.holds


def test_a_changed_queue_keeps_what_the_change_does_not_name(tmp_path: Path) -> None:
    loaded = scenario(
        tmp_path,
        queues={"team": {"priority": 3, "capability": {"nvidia.com/gpu": "8"}}},
        jobs={"job": {"queue": "team"}},
        events=[{"at": "5m", "queue": "team", "change": {"capability": {"nvidia.com/gpu": "16"}}}],
    )
    world = Fifo(loaded)
    asyncio.run(replay(loaded, world))
    (body,) = world.queues
    assert body["spec"]["priority"] == 3
    assert body["spec"]["capability"] == {"nvidia.com/gpu": "16"}


def test_volcanos_default_queue_can_be_changed_as_far_as_the_scenario_says_something_about_it(tmp_path: Path) -> None:
    loaded = scenario(
        tmp_path,
        queues={"default": {"capability": {"nvidia.com/gpu": "8"}}, "root": {"capability": {"nvidia.com/gpu": "32"}}},
        events=[{"at": "5m", "queue": "default", "change": {"capability": {}}}, {"at": "6m", "kill": "scheduler"}],
    )
    world = Fifo(loaded)
    assert asyncio.run(replay(loaded, world)).timeline.marks == [
        (300, "queue default changes"),
        (360, "kill scheduler"),
    ]
    assert world.queues == [{"metadata": {"name": "default"}, "spec": {}}]
    assert world.killed == ("scheduler",)


def test_what_a_queue_uses_counts_for_its_parent_too(tmp_path: Path) -> None:
    done = played(
        tmp_path,
        queues={"research": {}, "vision": {"parent": "research"}, "language": {"parent": "research"}},
        jobs={"a": {"queue": "vision", "pods": 2}, "b": {"queue": "language", "pods": 1}},
        expect=[
            {"at": 0, "queue": "research", "uses": {"nvidia.com/gpu": "24"}},
            {"at": 0, "queue": "vision", "usesAtMost": {"nvidia.com/gpu": "16"}},
            {"at": 0, "queue": "language", "usesAtLeast": {"nvidia.com/gpu": "8"}},
        ],
    )
    assert done.holds


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ({"job": "gang", "state": "waiting"}, "expected job gang waiting, observed running on rack-a-node-0"),
        ({"job": "gang", "pods": 2}, "expected 2 pods of gang placed, observed 6 on"),
        ({"job": "gang", "within": "rack"}, "in 1 domain of tier rack, observed 2 (rack-a, rack-b)"),
        ({"job": "gang", "domains": {"spine": 2}}, "in 2 domains of tier spine, observed 1 (spine)"),
        ({"job": "gang", "onlyOn": "rack-a"}, "only on rack-a, observed also on rack-b-node-0, rack-b-node-1"),
        ({"job": "gang", "nodes": 3}, "on 3 nodes, observed 6 on"),
        ({"job": "gang", "restarts": 1}, "restarted 1 times, observed 0 times"),
        ({"job": "gang", "lost": 1}, "job gang lost 1 pods, observed 0 pods"),
        ({"job": "late", "started": "1m"}, "first running at 1m, observed never"),
        ({"job": "*", "state": "running", "count": 2}, "expected 2 of * running, observed 1 (gang)"),
        ({"queue": "default", "uses": {"nvidia.com/gpu": "8"}}, "queue default using 8 nvidia.com/gpu, observed 48"),
        ({"queue": "default", "usesAtMost": {"cpu": "0"}, "usesAtLeast": {"cpu": "1"}}, "at least 1 cpu, observed 0"),
        ({"freeNodes": 8}, "expected 8 free nodes, observed 2 free nodes"),
    ],
)
def test_an_expectation_that_does_not_hold_says_what_was_seen(
    tmp_path: Path, expectation: dict[str, Any], message: str
) -> None:
    jobs = {"gang": {"pods": 6}, "late": {"at": "1m", "pods": 4}}
    done = played(tmp_path, jobs=jobs, expect=[{"at": "1m", **expectation}])
    (failed,) = [verdict for verdict in done.results if not verdict.holds]
    assert not done.holds
    assert str(failed).startswith("expect[0] at 1m: expected ")
    assert message in str(failed)
