"""One recorded cluster has the same numbers in `explain`, `queues show`, `usage` and the console."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from tests.explain.recorded_clusters import GPU, Cluster
from tests.kube.kubeconfigs import kubeconfig
from tests.support import in_process
from tests.usage.test_record import body
from tests.usage.test_usage_command import DAY, HOUR, SPAN, usage
from trainyard.cluster_state.observed import Kind
from trainyard.cluster_state.recorded_file import observed_of_text, recorded
from trainyard.controller.usage_objects import facts_of, reduced_pod
from trainyard.insight.console.views.platform_view import PlatformView
from trainyard.insight.console.views.queue_bars import queue_bars
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, UsageGang
from trainyard.insight.usage.record import Head
from trainyard.insight.usage.usage_book import UsageBook

PODS, DEVICES = 3, 7
"""Pods of the running job, and what each occupies: its sidecar and the init container that starts after it."""


def platform() -> Cluster:
    """Return a cluster on which pods that request devices in each of their parts fill a queue.

    The status of the queue is behind, as between two cycles of the scheduler.
    """

    def part(name: str, gpus: int, **fields: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": "2", GPU: str(gpus)}}, **fields}

    cluster = Cluster().queue("vision", "research", deserved=PODS * DEVICES, capability=PODS * DEVICES)
    for each in cluster.bodies:
        if each["kind"] == "Queue":
            each["status"] = {**each.get("status", {}), "allocated": {GPU: "1"}}
    cluster.fill("vision", cluster.names[:PODS], gpus=2, name="wide").everywhere(
        initContainers=[part("agent", 1, restartPolicy="Always"), part("load", DEVICES - 1)],
        overhead={"cpu": "100m"},
        resources={"requests": {"cpu": "40"}},
    )
    cluster.job("waits", pods=1)
    return cluster


def device_hours(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Return the row of vision in `trainyard usage`, of pods that ran for an hour."""
    ledger = Ledger(DAY)
    pods = [each for each in cluster.bodies if each["kind"] == "Pod"]
    for at, ended in ((DAY, False), (DAY + HOUR, True)):
        for pod in pods:
            metadata = {"uid": pod["metadata"]["name"], "resourceVersion": "1", **pod["metadata"]}
            facts = facts_of(reduced_pod({**pod, "metadata": metadata}))
            assert facts is not None
            gang = UsageGang("vision", "TrainJob", facts.job_set, "vision")
            holding = None if ended else Holding(gang, facts.amounts, facts.bound is not None)
            ledger.hold(at, metadata["name"], holding)
    book = UsageBook(DAY)
    book.add(ledger.drain())
    config = str(kubeconfig(folder, "https://127.0.0.1:1", {"token": "secret"}))
    parts = [body(Head(DAY, DAY + 24 * HOUR)), *(body(each, DAY + HOUR) for each in book.changed.values())]
    done = usage(config, *SPAN, "-o", "json", bodies=parts)
    (row,) = json.loads(done.stdout)["rows"]
    return dict(row)


def test_one_recorded_cluster_has_the_same_numbers_everywhere(tmp_path: Path) -> None:
    cluster, file = platform(), tmp_path / "cluster.json"
    file.write_bytes(orjson.dumps(recorded(cluster.observed, "vision")))
    whole = str(PODS * DEVICES)

    live = cluster.explain("waits")
    explained = json.loads(in_process("explain", "waits", "-n", "vision", "--from", str(file), "-o", "json").stdout)
    assert (live.cause, explained["cause"]) == ("queue-capability-full", "queue-capability-full")
    assert live.causes[0].numbers == explained["numbers"]
    assert (explained["numbers"]["used"], explained["numbers"]["requested"]) == (whole, "8")

    shown = json.loads(in_process("queues", "show", "--from", str(file), "-o", "json").stdout)["queues"]
    (queue,) = (each for each in shown if each["queue"] == "vision")
    # Volcano counts the two containers at once, the overhead beside them, and no pod-level resources.
    assert queue["used"] == {"cpu": "18300m", GPU: whole}
    assert queue["waitingFor"] == {"cpu": "4", GPU: "8"}

    for observed in (cluster.observed, observed_of_text(file.read_text(), str(file), cluster.observed.now)):
        view = PlatformView(observed)
        (bar,) = (each for each in queue_bars(view, GPU) if each.usage.queue == "vision")
        assert (bar.used, [each.request for each in bar.waiting]) == (whole, ["8"])
        assert [(each.resource, each.shown(each.used)) for each in view.devices] == [(GPU, whole)]
        assert view.cluster.shares.usage["vision"].as_json() == queue

    hidden = tuple(each for each in cluster.observed.objects if each["kind"] != "Pod")
    view = PlatformView(replace(cluster.observed, objects=hidden, unread=frozenset({Kind.POD})))
    (bar,) = (each for each in queue_bars(view, GPU) if each.usage.queue == "vision")
    assert bar.used == "1 (last count of the scheduler)"

    hours = device_hours(cluster, tmp_path)
    assert (hours["allocated"], hours["waited"]) == (int(whole), 8)
