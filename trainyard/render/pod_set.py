"""Pods of one replicatedJob, and their role in the TrainJob."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import ANCESTOR_CONTAINERS, ANCESTOR_LABEL, TRAINER
from trainyard.render.pod_editing import section

__all__ = ["LAUNCHER", "PodSet", "ancestor_of", "container_names", "step_containers"]

LAUNCHER: Final = "launcher"
"""Name of the replicatedJob that starts the processes on the nodes."""


@dataclass
class PodSet:
    """The pods of one replicatedJob.

    Parameters
    ----------
    job
        The replicatedJob; changing it changes the JobSet.
    count
        Pods of one replica.
    least
        Pods that are enough to start, where an elastic job needs fewer than ``count``.
    """

    job: Body
    count: int
    least: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the replicatedJob."""
        return str(self.job["name"])

    @property
    def ancestor(self) -> str | None:
        """Return the part of the TrainJob this replicatedJob takes."""
        return ancestor_of(self.job)

    @property
    def replicas(self) -> int:
        """Return the number of Jobs: always one where a part of the TrainJob is taken."""
        return 1 if self.ancestor in ANCESTOR_CONTAINERS else int(self.job.get("replicas", 1))

    @property
    def pods(self) -> int:
        """Return the number of pods of all replicas."""
        return self.count * self.replicas

    @cached_property
    def template(self) -> Body:
        """Return the pod template."""
        return section(self.job, "template", "spec", "template")

    @cached_property
    def pod(self) -> Body:
        """Return the pod specification."""
        return section(self.template, "spec")

    def container(self, name: str, *, init: bool = False) -> Body | None:
        """Return a container by name; with ``init``, also an init container where no container has the name."""
        found = _named(self.pod.get("containers", ()), name)
        return _named(self.pod.get("initContainers", ()), name) if found is None and init else found

    @property
    def main_container(self) -> Body | None:
        """Return the container that the TrainJob's part configures; None where there is no part or no container."""
        for name in step_containers(self.ancestor, self.name):
            found = self.container(name)
            if found is not None:
                return found
        return None


def ancestor_of(job: Body) -> str | None:
    """Return the part of the TrainJob that a replicatedJob takes.

    It is the label of the Job template; where that has none, the label of the pod template counts.
    """
    template = job["template"]
    value = template.get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
    if value is None:
        value = template["spec"].get("template", {}).get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
    return None if value is None else str(value)


def step_containers(ancestor: str | None, job: str) -> tuple[str, ...]:
    """Return the names, best first, of the container that the part of a TrainJob configures.

    Parameters
    ----------
    ancestor
        The part that the replicatedJob takes.
    job
        Name of the replicatedJob: one named ``launcher`` may name its training container so too.
    """
    if ancestor not in ANCESTOR_CONTAINERS:
        return ()
    required = ANCESTOR_CONTAINERS[ancestor]
    return (required, LAUNCHER) if ancestor == TRAINER and job == LAUNCHER else (required,)


def container_names(job: Body) -> Iterator[str]:
    """Yield the names of a replicatedJob's containers and init containers."""
    pod = job["template"]["spec"]["template"]["spec"]
    for kind in ("initContainers", "containers"):
        for container in pod.get(kind, ()):
            yield container["name"]


def _named(containers: Any, name: str) -> Body | None:
    for container in containers:
        if container["name"] == name:
            return container  # type: ignore[no-any-return]
    return None
