"""Tenants are never rejected for want of what an API server has not learned yet, and changes take effect at once.

``TRAINYARD_RESTARTS`` is the number of restarts, 2 unless set; ``make admission-restarts`` makes ten.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cluster.jobs import lasting, train_job
from tests.support import LiveCluster, awaited, require
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import TransportError
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.response import Response
from trainyard.policy.engines.vap.facts import platform_facts, policy_facts_in, tenant_facts

pytestmark = pytest.mark.cluster

RESTARTS = int(os.environ.get("TRAINYARD_RESTARTS", "2"))
TENANT = "small"
JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{TENANT}/trainjobs"
POLICY = f"/apis/trainyard.dev/v1alpha1/namespaces/{TENANT}/tenantpolicies/tenant"
PLATFORM = "/apis/trainyard.dev/v1alpha1/platforms/platform"
NOT_READY = (429, 503, 504)
STARTING = "not yet ready to handle request"
"""Answers of a server that is not ready, whatever is installed; who asks a load balancer never gets them."""
UNSERVED = "connect: connection refused"
"""A controller that could not renew its lease for 10 s ends; with one only, no process serves its webhooks."""
SECOND = 1.0
ROUNDS = 3
"""Changes there and back; the median counts, for a machine under test may be busy with something else."""
OURS = 30.0
"""Seconds for the controller's own part of a job: it may lose its Lease, which lasts 15 s, when the server is away."""
REFLECTORS = 60.0
"""Longest pause of a reflector of client-go: 30 s, doubled by jitter (``defaultBackoffMax``, ``defaultBackoffJitter``).

It resets after two minutes without a failure only, so outages in a row reach it. JobSet's manager, the controllers of
Kubernetes and Volcano's programs see no change until the pauses of their watches have ended, all from the outage on.
"""
USUAL = 30.0
"""Seconds of a job that no outage delays."""
RECOVERY = 2 * (REFLECTORS + USUAL)
"""Patience; what is asserted is shorter."""


@pytest.fixture
def session(platform: LiveCluster) -> Iterator[BlockingSession]:
    with BlockingSession(platform.kubeconfig) as session:
        yield session


@dataclass
class Stream:
    """One TrainJob a second, each sent until the server answers."""

    kubeconfig: Path
    controllers: int
    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    not_ready: Counter[str] = field(default_factory=Counter)
    """Answers after which a TrainJob was sent again."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def answered(self) -> int:
        """TrainJobs that were accepted or rejected so far."""
        return len(self.accepted) + len(self.rejected)

    def reached(self, wanted: int) -> bool:
        return self.answered >= wanted

    def __enter__(self) -> Stream:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with BlockingSession(self.kubeconfig) as session:
            due, number = time.monotonic(), 0
            # A TrainJob whose creation was not answered exists when it is sent again.
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                name = f"stream-{self.run}-{number}"
                answer = self._sent(session, name)
                if answer.ok or answer.status == 409:
                    self.accepted.append(name)
                else:
                    self.rejected.append(f"{name}: {answer.status} {answer.message}")
                due, number = max(due + SECOND, time.monotonic()), number + 1

    def _away(self, answer: Response) -> bool:
        alone = self.controllers < 2 and UNSERVED in answer.message
        return answer.status in NOT_READY or STARTING in answer.message or alone

    def _sent(self, session: BlockingSession, name: str) -> Response:
        patches = [lasting("1s")]
        body = train_job(name, TENANT, "torch-distributed", nodes=1, accelerators=1, runtimePatches=patches)
        while True:
            try:
                answer = session.request("POST", JOBS, body)
                if not self._away(answer):
                    return answer
                self.not_ready[f"{answer.status} {answer.message}"] += 1
            except TransportError:
                self.not_ready["no answer"] += 1
            time.sleep(0.02)


@dataclass(frozen=True)
class Outage:
    """When the API server was killed and when its successor was ready, in seconds since 1970."""

    killed: float
    ready: float


def restart(platform: LiveCluster) -> Outage:
    """Kill the API server and wait until its successor is ready."""
    before = api_server(platform)["pid"]
    killed = time.time()
    os.kill(before, signal.SIGKILL)
    awaited("another API server", lambda: api_server(platform)["pid"] not in (None, before), timeout=RECOVERY)

    def ready() -> bool:
        try:
            with BlockingSession(platform.kubeconfig) as session:
                return session.request("GET", "/readyz").status == 200
        except (TrainyardError, TransportError):
            return False

    awaited("an API server that is ready", ready, timeout=RECOVERY)
    return Outage(killed, time.time())


def processes(platform: LiveCluster) -> list[dict[str, Any]]:
    result = platform.trainyard("cluster", "status", "--name", platform.name, "-o", "json")
    found: list[dict[str, Any]] = json.loads(result.stdout)["processes"]
    return found


def api_server(platform: LiveCluster) -> dict[str, Any]:
    return next(each for each in processes(platform) if each["name"] == "kube-apiserver")


def complete(session: BlockingSession, name: str) -> bool:
    body = session.request("GET", f"{JOBS}/{name}").body
    conditions = {each["type"] for each in body.get("status", {}).get("conditions", ())}
    assert "Failed" not in conditions, body
    return "Complete" in conditions


@dataclass(frozen=True)
class Life:
    """When what happened to a job, in seconds since 1970."""

    name: str
    submitted: float
    """Creation of the TrainJob."""
    created: float
    """Creation of its JobSet, by the controller."""
    pods: float
    """Creation of its last pod: after JobSet's controller and the Job controller."""
    started: float
    """Start of its last pod: after Volcano has placed the gang."""
    finished: float
    """End of its last pod, which its simulated node writes."""
    ended: float
    """End of its JobSet: after the Job controller and JobSet's controller."""
    reported: float
    """Last write of the TrainJob's status, by the controller."""

    def ours(self, outages: Sequence[Outage]) -> float:
        """Return the longest stretch that the controller took to create the JobSet or to report its end."""
        return max(longest(self.submitted, self.created, outages), longest(self.ended, self.reported, outages))

    def total(self, outages: Sequence[Outage]) -> float:
        """Return the longest stretch of its life, without the time that its pods run.

        KWOK, which ends the pods of simulated nodes, doubles its pause after each failed write, up to 32 minutes.
        """
        return max(longest(self.submitted, self.started, outages), longest(self.finished, self.reported, outages))

    def __str__(self) -> str:
        at = self.submitted, self.created, self.pods, self.started, self.finished, self.ended, self.reported
        names = "JobSet", "pods", "started", "finished", "ended", "reported"
        steps = (f"{name} {after - before:+.0f} s" for name, before, after in zip(names, at, at[1:], strict=False))
        return f"{self.name}: {', '.join(steps)}"


def longest(start: float, end: float, outages: Sequence[Outage]) -> float:
    """Return the longest time between two moments during which the API server was ready without a break."""
    inside = [each for each in outages if each.ready > start and each.killed < end]
    begins = [start, *(each.ready for each in inside)]
    ends = [*(each.killed for each in inside), end]
    return max(until - since for since, until in zip(begins, ends, strict=True))


def life(session: BlockingSession, name: str) -> Life:
    """Read what the API server and the controllers noted about a job that has ended."""
    job = session.request("GET", f"{JOBS}/{name}").body
    job_set = session.request("GET", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{TENANT}/jobsets/{name}").body
    selector = f"labelSelector=jobset.sigs.k8s.io/jobset-name={name}"
    pods = session.request("GET", f"/api/v1/namespaces/{TENANT}/pods?{selector}").body["items"]
    reports = [
        entry["time"]
        for entry in job["metadata"]["managedFields"]
        if entry["manager"] == FIELD_MANAGER and entry.get("subresource") == "status"
    ]
    states = [each["state"]["terminated"] for pod in pods for each in pod["status"]["containerStatuses"]]
    ends = [each["lastTransitionTime"] for each in job_set["status"]["conditions"] if each["type"] == "Completed"]
    return Life(
        name,
        submitted=seconds(job["metadata"]["creationTimestamp"]),
        created=seconds(job_set["metadata"]["creationTimestamp"]),
        pods=max(seconds(pod["metadata"]["creationTimestamp"]) for pod in pods),
        started=max(seconds(pod["status"]["startTime"]) for pod in pods),
        finished=max(seconds(state["finishedAt"]) for state in states),
        ended=max(map(seconds, ends)),
        reported=max(map(seconds, reports)),
    )


def seconds(timestamp: str) -> float:
    return datetime.datetime.fromisoformat(timestamp).timestamp()


def test_no_restart_of_the_api_server_rejects_a_train_job(platform: LiveCluster) -> None:
    outages: list[Outage] = []
    try:
        controllers = sum(each["name"].startswith("trainyard-controller") for each in processes(platform))
        with Stream(platform.kubeconfig, controllers) as stream:
            for _ in range(RESTARTS):
                outages.append(restart(platform))
                awaited("more TrainJobs", functools.partial(stream.reached, stream.answered + 5), timeout=RECOVERY)
        assert stream.rejected == []
        with BlockingSession(platform.kubeconfig) as session:
            for name in stream.accepted:
                awaited(f"the end of {name}", functools.partial(complete, session, name), timeout=2 * RECOVERY)
            lives = [life(session, name) for name in stream.accepted]
        print(*outages, dict(stream.not_ready), sep="\n")
        for each in lives:
            print(each, f"ours {each.ours(outages):.0f} s, in total {each.total(outages):.0f} s")
        assert [str(each) for each in lives if each.ours(outages) > OURS] == []
        assert [str(each) for each in lives if each.total(outages) > REFLECTORS + USUAL] == []
    finally:
        require(platform.kubectl("delete", "trainjobs", "-n", TENANT, "--all", "--wait=false"))


def reviewed_within(session: BlockingSession, path: str, spec: dict[str, Any], queue: str, *, allowed: bool) -> float:
    """Change an object; return the seconds until a job for the queue is reviewed by it."""
    # A Job: the policy server, which the trainer's webhooks ask, is not asked about it.
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/main:1"}]}
    metadata = {"name": "reviewed", "annotations": {"scheduling.volcano.sh/queue-name": queue}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
    started = time.monotonic()
    answer = session.request("PATCH", path, {"spec": spec})
    assert answer.ok, answer.message

    def reviewed() -> bool:
        answer = session.request("POST", f"/apis/batch/v1/namespaces/{TENANT}/jobs", body, dry_run=True)
        assert answer.ok or "QUE-00" in answer.message, answer.message
        return answer.ok is allowed

    awaited("a verdict by what was changed", reviewed, timeout=20)
    return time.monotonic() - started


def test_a_changed_tenant_policy_is_reviewed_within_a_second(session: BlockingSession) -> None:
    spec, taken = session.request("GET", POLICY).body["spec"], []
    try:
        for _ in range(ROUNDS):
            wider = {"queues": [TENANT, "vision"]}
            taken.append(reviewed_within(session, POLICY, wider, "vision", allowed=True))
            taken.append(reviewed_within(session, POLICY, {"queues": spec["queues"]}, "vision", allowed=False))
    finally:
        session.request("PATCH", POLICY, {"spec": spec})
    assert median(taken) < SECOND, taken


def test_a_changed_platform_is_reviewed_within_a_second(session: BlockingSession) -> None:
    spec, taken = session.request("GET", PLATFORM).body["spec"], []
    fewer = {"leafQueues": [queue for queue in spec["leafQueues"] if queue != TENANT]}
    try:
        for _ in range(ROUNDS):
            taken.append(reviewed_within(session, PLATFORM, fewer, TENANT, allowed=False))
            taken.append(reviewed_within(session, PLATFORM, {"leafQueues": spec["leafQueues"]}, TENANT, allowed=True))
    finally:
        session.request("PATCH", PLATFORM, {"spec": spec})
    assert median(taken) < SECOND, taken


def test_foreign_writes_on_a_namespace_are_reverted(session: BlockingSession) -> None:
    policy, platform = (session.request("GET", path).body["spec"] for path in (POLICY, PLATFORM))
    for name, facts in ((TENANT, tenant_facts(policy)), ("kube-system", platform_facts(platform))):
        path = f"/api/v1/namespaces/{name}"
        forged = {"metadata": {"annotations": dict.fromkeys(facts, "*")}}
        assert session.request("PATCH", path, forged).ok

        def restored(path: str = path, facts: dict[str, str] = facts) -> bool:
            return policy_facts_in(session.request("GET", path).body["metadata"]["annotations"]) == facts

        awaited(f"the facts of {name}", restored, timeout=10)
