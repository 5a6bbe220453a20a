"""Timeline of a job: when it waited, ran, and waited for what was taken back, as a drawing with its text."""

from __future__ import annotations

import datetime

from tests.explain.recorded_clusters import NOW, Cluster, Job, ended, minutes_ago
from trainyard.insight.console.views.job_timeline import WIDTH, JobTimeline, StateChange, job_timeline
from trainyard.insight.console.views.platform_view import PlatformView
from trainyard.insight.explain.job_state import ExplainedState, JobState


def placed(job: Job, minutes: int, *pods: int) -> None:
    """Let the scheduler have placed some pods some minutes ago."""
    for index in pods:
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": minutes_ago(minutes)}
        job.pods[index]["status"]["conditions"] = [condition]


def timeline(cluster: Cluster, *changes: tuple[int, ExplainedState], name: str = "train") -> JobTimeline:
    view = PlatformView(cluster.observed)
    seen = [StateChange(NOW - datetime.timedelta(minutes=minutes), state) for minutes, state in changes]
    return job_timeline(JobState(view.cluster, view.roots[f"trainjob/vision/{name}"]), NOW, seen)


def phases(found: JobTimeline) -> list[tuple[str, int, int]]:
    """Return kind, start and end of each phase, in minutes ago."""
    return [
        (each.kind, *(round((NOW - instant).total_seconds() / 60) for instant in (each.start, each.end)))
        for each in found.phases
    ]


def test_a_job_waits_from_its_creation_until_its_last_pod_is_placed() -> None:
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:2], minutes=60)
    placed(job, 50, 0)
    placed(job, 40, 1)
    found = timeline(cluster)
    assert phases(found) == [("waiting", 60, 40), ("running", 40, 0)]
    assert found.label == "waiting 20 min, running 40 min, until now"
    assert [(each.left, each.width, each.style) for each in found.drawn] == [(0, 333, "waiting"), (333, 667, "running")]
    assert (found.start, found.end) == ("2026-11-24 11:00:00", "now")


def test_what_was_taken_back_is_waited_for() -> None:
    cluster = Cluster()
    job = cluster.job("train", minutes=60)
    cluster.event(job.pod_group, "Evict", "because of reclaim")
    cluster.bodies[-1]["lastTimestamp"] = minutes_ago(20)
    seen = timeline(cluster, (50, ExplainedState.RUNNING), (19, ExplainedState.WAITING))
    assert phases(seen) == [("waiting", 60, 50), ("running", 50, 20), ("taken back", 20, 0)]
    assert phases(timeline(cluster)) == [("waiting", 60, 20), ("taken back", 20, 0)], "nobody saw it run"
    placed(job, 5, 0, 1)
    for pod, node in zip(job.pods, cluster.names, strict=False):
        pod["spec"]["nodeName"] = node
        pod["status"]["phase"] = "Running"
    again = timeline(cluster, (50, ExplainedState.RUNNING), (19, ExplainedState.WAITING), (5, ExplainedState.RUNNING))
    assert phases(again) == [("waiting", 60, 50), ("running", 50, 20), ("taken back", 20, 5), ("running", 5, 0)]


def test_a_restart_without_an_eviction_is_not_taken_back() -> None:
    cluster = Cluster()
    cluster.job("train", minutes=60)
    found = timeline(cluster, (50, ExplainedState.RUNNING), (20, ExplainedState.WAITING))
    assert phases(found) == [("waiting", 60, 50), ("running", 50, 20), ("waiting", 20, 0)]


def test_an_elastic_gang_that_lost_a_pod_runs_on() -> None:
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:1], pods=2, minutes=60)
    job.pod_group["spec"]["minMember"] = 1
    placed(job, 50, 0)
    cluster.event(job.pod_group, "Evict", "because of reclaim")
    assert [kind for kind, *_ in phases(timeline(cluster))][-1] == "running"


def test_a_suspended_job_waits_from_when_it_is_resumed() -> None:
    cluster = Cluster()
    job = cluster.job("train", minutes=60)
    resumed = {"type": "Suspended", "status": "False", "reason": "Resumed", "lastTransitionTime": minutes_ago(30)}
    job.train_job["status"]["conditions"] = [resumed]
    assert phases(timeline(cluster)) == [("suspended", 60, 30), ("waiting", 30, 0)]
    other = Cluster()
    other.job("train", minutes=60, suspend=True)
    assert phases(timeline(other)) == [("suspended", 60, 0)]


def test_the_timeline_of_an_ended_job_ends_with_it() -> None:
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:2], minutes=60)
    placed(job, 40, 0, 1)
    job.train_job["status"] = ended("Complete", "AllJobsCompleted")
    found = timeline(cluster)
    assert phases(found) == [("waiting", 60, 40), ("running", 40, 5)]
    assert found.label == "waiting 20 min, running 35 min, ended"
    assert found.end == "2026-11-24 11:55:00"


def test_of_very_many_changes_the_newest_are_drawn_inside_the_drawing() -> None:
    cluster = Cluster()
    cluster.job("train", minutes=5_000)
    states = (ExplainedState.RUNNING, ExplainedState.WAITING)
    found = timeline(cluster, *((4_900 - number, states[number % 2]) for number in range(4_800)))
    assert len(found.phases) == 200
    assert all(each.width >= 1 and each.left >= 0 and each.left + each.width <= WIDTH for each in found.drawn)


def test_a_job_without_a_time_of_creation_has_no_timeline() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    del job.train_job["metadata"]["creationTimestamp"]
    found = timeline(cluster)
    assert (found.phases, found.drawn, found.label) == ((), (), "nothing is known")
