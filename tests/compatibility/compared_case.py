"""One case with both answers, as the list of differences looks at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.compatibility import ours, peer
from tests.compatibility.corpus.case import ANCESTOR, Body, Case
from tests.compatibility.object_differences import canonical

MADE, DENIED, FAILED, NOTHING, REJECTED = "made", "denied", "failed", "nothing", "rejected"


@dataclass
class Scene:
    """A case and what both sides say to it.

    Parameters
    ----------
    case
        The question.
    theirs
        Upstream's answer.
    mine
        Our answer.
    objects
        Upstream's objects in canonical form; differences change them into what we do.
    twin
        Upstream's answer to the same case with an empty ``spec.trainer``, where the case has none.
    """

    case: Case
    theirs: peer.Answer
    mine: ours.Answer
    objects: dict[str, Body]
    twin: peer.Answer | None = None

    @classmethod
    def of(cls, case: Case, theirs: peer.Answer, mine: ours.Answer, twin: peer.Answer | None) -> Scene:
        """Return the scene before any difference is applied."""
        return cls(case, theirs, mine, {key: canonical(body) for key, body in theirs.objects.items()}, twin)

    @property
    def their_outcome(self) -> str:
        """What became of the TrainJob upstream."""
        if self.theirs.stored is None:
            return DENIED
        if any(key.startswith("JobSet/") for key in self.theirs.objects):
            return MADE
        return FAILED if self.theirs.failure else NOTHING

    @property
    def my_outcome(self) -> str:
        """What becomes of the TrainJob here."""
        if self.mine.errors:
            return REJECTED
        return MADE if any(key.startswith("JobSet/") for key in self.mine.objects) else NOTHING

    @property
    def their_paths(self) -> frozenset[str]:
        """Field paths of upstream's denial."""
        return self.theirs.train_job.paths if self.theirs.train_job else frozenset()

    @property
    def my_paths(self) -> frozenset[str]:
        """Field paths of our rejection."""
        return ours.paths(self.mine.errors)

    @property
    def their_message(self) -> str:
        """Why upstream denied the TrainJob or could not make its objects."""
        denied = self.theirs.train_job.message if self.theirs.train_job else ""
        return denied or self.theirs.failure

    @property
    def my_message(self) -> str:
        """Why we reject the TrainJob."""
        return "; ".join(str(finding) for finding in self.mine.errors)

    @property
    def spec(self) -> Body:
        """The TrainJob's specification."""
        spec: Body = self.case.train_job["spec"]
        return spec

    @property
    def trainer(self) -> Body:
        """The TrainJob's trainer, empty where it has none."""
        trainer: Body = self.spec.get("trainer") or {}
        return trainer

    @property
    def queued(self) -> bool:
        """Whether Kueue manages the TrainJob."""
        return bool(self.case.train_job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name"))

    @property
    def runtime_spec(self) -> Body:
        """The runtime's specification, empty where there is no runtime."""
        spec: Body = (self.case.runtime or {}).get("spec", {})
        return spec

    @property
    def runtime_jobs(self) -> list[Body]:
        """The replicatedJobs of the runtime."""
        jobs: list[Body] = self.runtime_spec.get("template", {}).get("spec", {}).get("replicatedJobs", [])
        return jobs

    @property
    def policy(self) -> Body:
        """The runtime's framework policy."""
        policy: Body = self.runtime_spec.get("mlPolicy") or {}
        return policy

    @property
    def job_name(self) -> str:
        """Name of the TrainJob."""
        return str(self.case.train_job["metadata"]["name"])

    @property
    def job_set(self) -> Body:
        """Upstream's JobSet."""
        return self.objects[f"JobSet/{self.job_name}"]

    @property
    def pod_group(self) -> Body | None:
        """Upstream's PodGroup."""
        return self.objects.get(f"PodGroup/{self.job_name}")

    @property
    def jobs(self) -> list[Body]:
        """The replicatedJobs of upstream's JobSet."""
        jobs: list[Body] = self.job_set["spec"]["replicatedJobs"]
        return jobs

    def job(self, name: str) -> Body | None:
        """Return a replicatedJob of upstream's JobSet."""
        return next((job for job in self.jobs if job["name"] == name), None)

    def trainers(self) -> Iterator[Body]:
        """Yield the replicatedJobs that train."""
        return (job for job in self.jobs if labelled(job) == "trainer")

    @property
    def subdomain(self) -> str:
        """Subdomain of the pods."""
        network = self.job_set["spec"].get("network") or {}
        return str(network.get("subdomain") or self.job_name)

    def runtime_container(self, job: str, name: str) -> Body:
        """Return a container as the runtime has it, empty where it has none."""
        jobs = self.runtime_spec.get("template", {}).get("spec", {}).get("replicatedJobs", [])
        found = (entry for each in jobs if each["name"] == job for entry in containers(each) if entry["name"] == name)
        return next(found, {})

    def replace_texts(self, pattern: str, replacement: str, body: Any) -> Any:
        """Return a value with every text rewritten."""
        if isinstance(body, dict):
            return {key: self.replace_texts(pattern, replacement, value) for key, value in body.items()}
        if isinstance(body, list):
            return [self.replace_texts(pattern, replacement, value) for value in body]
        return re.sub(pattern, replacement, body) if isinstance(body, str) else body


def labelled(job: Body) -> str | None:
    """Return the part of the TrainJob that a replicatedJob takes."""
    value = job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR)
    return None if value is None else str(value)


def pod(job: Body) -> Body:
    """Return the pod template of a replicatedJob."""
    template: Body = job["template"]["spec"]["template"]
    return template


def containers(job: Body) -> Iterator[Body]:
    """Yield the containers and init containers of a replicatedJob."""
    spec = pod(job).get("spec", {})
    yield from spec.get("containers", ())
    yield from spec.get("initContainers", ())


def main_container(job: Body) -> Body | None:
    """Return the container that trains."""
    return next((entry for entry in pod(job)["spec"]["containers"] if entry["name"] == "node"), None)


def parallelism(job: Body) -> int:
    """Return the pods of one replica."""
    return int(job["template"]["spec"].get("parallelism", 1))
