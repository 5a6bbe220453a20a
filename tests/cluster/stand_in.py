"""A stand-in for gang schedulers that are not part of the embedded control plane: coscheduling and KAI.

It binds the pods of a gang when all that its PodGroup asks for are there, pods outside of a gang at once. So jobs on
these schedulers run to their end, and what is tested is what Trainyard makes of them; not the schedulers themselves.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from tests.support import LiveCluster, require
from trainyard.jobs.render.gangs.coscheduling import COSCHEDULING_LABEL
from trainyard.jobs.render.gangs.kai import KAI_SCHEDULER
from trainyard.jobs.render.result import COSCHEDULING_SCHEDULER

COSCHEDULING_POD_GROUPS = "podgroups.scheduling.x-k8s.io"
_JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"

Object = dict[str, Any]
Gang = tuple[str, str]
"""A PodGroup with an empty second part, or a JobSet with one of its replicatedJobs."""


class StandIn:
    """Places pods that name the coscheduling plug-in's scheduler or KAI.

    Parameters
    ----------
    platform
        Where.
    namespaces
        Whose pods.
    """

    def __init__(self, platform: LiveCluster, namespaces: list[str]) -> None:
        self._platform = platform
        self._namespaces = namespaces
        self._nodes = [name for node in platform.get("nodes")["items"] if "rack" in (name := node["metadata"]["name"])]
        self._turns = count()
        self._placed: set[str] = set()
        self._started: set[Gang] = set()

    def step(self) -> None:
        """Bind what can start."""
        bindings = [binding for namespace in self._namespaces for binding in self._bindings(namespace)]
        if bindings:
            # A pod that went away meanwhile is not bound; its successor is, at the next step.
            text = "\n---\n".join(json.dumps(binding) for binding in bindings)
            self._platform.kubectl("create", "-f", "-", stdin=text)

    def _bindings(self, namespace: str) -> list[Object]:
        waiting = self._waiting(namespace)
        if not waiting:
            return []
        least = self._least(namespace)
        found = []
        for gang, pods in waiting.items():
            if len(pods) >= least.get(gang, 1) or gang in self._started:
                self._started.add(gang)
                found += [self._binding(pod) for pod in pods]
        return found

    def _waiting(self, namespace: str) -> dict[Gang, list[Object]]:
        """Return the pods without a node by their gang: their PodGroup, else their replicatedJob, as KAI counts."""
        pods = self._platform.get("pods", "-n", namespace, "--field-selector", "spec.nodeName=,status.phase=Pending")
        waiting: dict[Gang, list[Object]] = {}
        for pod in pods["items"]:
            metadata, labels = pod["metadata"], pod["metadata"]["labels"]
            if (
                pod["spec"]["schedulerName"] not in (COSCHEDULING_SCHEDULER, KAI_SCHEDULER)
                or metadata["uid"] in self._placed
            ):
                continue
            group = labels.get(COSCHEDULING_LABEL)
            waiting.setdefault((group, "") if group else (labels[_JOB_SET], labels[_REPLICATED_JOB]), []).append(pod)
        return waiting

    def _least(self, namespace: str) -> dict[Gang, int]:
        """Return how many pods of a gang must be there before the first is placed."""
        kinds = f"jobsets,{COSCHEDULING_POD_GROUPS}"
        least: dict[Gang, int] = {}
        for body in json.loads(require(self._platform.kubectl("get", kinds, "-n", namespace, "-o", "json")))["items"]:
            name = body["metadata"]["name"]
            if body["kind"] == "PodGroup":
                least[name, ""] = body["spec"]["minMember"]
            else:
                jobs = body["spec"]["replicatedJobs"]
                least |= {(name, job["name"]): job["template"]["spec"]["parallelism"] for job in jobs}
        return least

    def _binding(self, pod: Object) -> Object:
        metadata = pod["metadata"]
        self._placed.add(metadata["uid"])
        node = self._nodes[next(self._turns) % len(self._nodes)]
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
