"""Pod set: the pods of one replicatedJob, and the ancestor step that they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import ANCESTOR_CONTAINERS, ANCESTOR_LABEL, TRAINER
from trainyard.jobs.render.lazy_property import LazyProperty

LAUNCHER: Final = "launcher"
"""Name of the replicatedJob that starts processes on the nodes."""


@dataclass(frozen=True)
class PodSet:
    """The pods of one replicatedJob.

    Parameters
    ----------
    job
        The replicatedJob; part of a JobSet specification.
    count
        Pods per replica.
    min_count
        Pods per replica that are required to start; None: ``count``. Fewer for elastic jobs.
    """

    job: Body
    count: int
    min_count: int | None = None

    @property
    def name(self) -> str:
        """Name of the replicatedJob."""
        return str(self.job["name"])

    @LazyProperty
    def ancestor(self) -> str | None:
        """Ancestor step of the replicatedJob."""
        return ancestor_of(self.job)

    @property
    def replicas(self) -> int:
        """Number of Jobs; always 1 for an ancestor step of the TrainJob."""
        return 1 if self.ancestor in ANCESTOR_CONTAINERS else int(self.job.get("replicas", 1))

    @property
    def pods(self) -> int:
        """Number of pods of all replicas."""
        return self.count * self.replicas

    @property
    def template(self) -> Body:
        """The pod template."""
        found: Body = self.job["template"]["spec"]["template"]
        return found

    @property
    def pod(self) -> Body:
        """The pod specification."""
        found: Body = self.template["spec"]
        return found

    def container(self, name: str, *, init: bool = False) -> Body | None:
        """Return a container by name; with ``init``, fall back to the init containers."""
        found = _named(self.pod.get("containers", ()), name)
        return _named(self.pod.get("initContainers", ()), name) if found is None and init else found

    @LazyProperty
    def main_container(self) -> Body | None:
        """Container that the TrainJob configures, or None if there is no ancestor step or no such container."""
        for name in step_containers(self.ancestor, self.name):
            found = self.container(name)
            if found is not None:
                return found
        return None


def ancestor_of(job: Body) -> str | None:
    """Return the ancestor step of a replicatedJob: the label of its Job template, or else of its pod template."""
    template = job["template"]
    value = template.get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
    if value is None:
        value = template["spec"].get("template", {}).get("metadata", {}).get("labels", {}).get(ANCESTOR_LABEL)
    return None if value is None else str(value)


def step_containers(ancestor: str | None, job: str) -> tuple[str, ...]:
    """Return the possible names of the container that the TrainJob configures, in order of preference.

    Parameters
    ----------
    ancestor
        Ancestor step of the replicatedJob.
    job
        Name of the replicatedJob; the training container of ``launcher`` may also be named ``launcher``.
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
