"""Draft of a TrainJob and its runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trainyard.api import Body
from trainyard.jobs.convert.part import Part, read_part, set_trainer
from trainyard.jobs.convert.source import LegacySource, Path
from trainyard.jobs.render.frameworks.plain import PLAIN_LABEL


class Refused(Exception):  # noqa: N818 - a result, not an error
    """The job cannot be converted; its notes contain the reasons."""


@dataclass
class Draft:
    """Intermediate form of a conversion, filled by a converter.

    Parameters
    ----------
    source
        The legacy job.
    name
        Name of the TrainJob and its runtime.
    framework
        Value of the runtime's framework label.
    policy
        mlPolicy without the number of nodes.
    parts
        Roles in the order of the replicatedJobs.
    nodes
        Number of training nodes; None if set by an elastic policy.
    processes
        Training processes per node.
    gang
        podGroupPolicy.
    queue
        Queue of the gang.
    queue_path
        Field that names the queue.
    foreign_scheduler
        A scheduler of the legacy job for which there is no gang.
    job_set
        Further fields of the JobSet's specification.
    objects
        Further objects required by the pods.
    own_label_keys
        Keys of labels that the legacy job names.
    label_uses
        Other objects of the input by the keys of labels that they name.
    """

    source: LegacySource
    name: str
    framework: str = PLAIN_LABEL
    policy: Body = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    nodes: int | None = 1
    processes: int | str | None = None
    gang: Body = field(default_factory=lambda: {"volcano": {}})
    queue: str | None = None
    queue_path: Path | None = None
    foreign_scheduler: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    suspend: bool | None = None
    deadline: int | None = None
    managed_by: str | None = None
    job_set: Body = field(default_factory=dict)
    objects: list[Body] = field(default_factory=list)
    own_label_keys: frozenset[str] = frozenset()
    label_uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def namespace(self) -> str | None:
        """Return the namespace; None if unset."""
        found = self.source.peek("metadata.namespace")
        return found if isinstance(found, str) else None

    @property
    def trainer(self) -> Part:
        """Return the part configured by the TrainJob's trainer."""
        return next(part for part in self.parts if part.trains)

    @property
    def pods(self) -> int:
        """Return the total number of pods."""
        return sum(part.total for part in self.parts)

    def part(self, name: str) -> Part | None:
        """Return a part by the name of its replicatedJob."""
        return next((part for part in self.parts if part.name == name), None)

    def read(self, path: Path, name: str, pods: int, mains: Iterable[str] = ()) -> Part:
        """Read a pod template and add it as a part."""
        part = read_part(self.source, path, name, pods, tuple(mains))
        self.parts.append(part)
        return part

    def train(self, part: Part) -> None:
        """Mark a part as configured by the TrainJob's trainer."""
        set_trainer(self.source, part)

    def succeed_with(self, *names: str) -> None:
        """Set the parts whose completion completes the job, even if others still run."""
        self.job_set["successPolicy"] = {"operator": "All", "targetReplicatedJobs": list(names)}

    def restart(self, times: int) -> None:
        """Recreate the whole gang when a Job has failed."""
        self.job_set["failurePolicy"] = {"maxRestarts": times}

    def refuse(self, path: Path, message: str, fix: str) -> Refused:
        """Note why a job cannot be converted, and return the exception to raise."""
        self.source.lost(path, message, fix)
        return Refused()
