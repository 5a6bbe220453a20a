"""One namespace of a fault test: what a tenant submits, what JobSet's controller would report, and what is awaited."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml

from tests.faults.bench import Bench, grant_keys
from tests.faults.history import History, conditions, violations
from tests.faults.proxy import Proxy
from tests.support import ROOT, awaited
from trainyard.controller.status import finished, is_recorded
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS, TRAINING_RUNTIMES

Body = dict[str, Any]
PATIENCE = 30.0
"""Seconds in which the controller does what nothing keeps it from."""
_POKES = itertools.count()
_SENTINEL = "sentinel"
_COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


def runtime(
    name: str = "torch", *, gang: bool = False, spec_template: Mapping[str, Any] | None = None, **pod: Any
) -> Body:
    """Return a TrainingRuntime of one replicatedJob.

    Parameters
    ----------
    gang
        Whether Volcano is to start its pods together.
    spec_template
        Further fields of the JobSet's specification.
    pod
        Further fields of the pod's specification.
    """
    container = {"name": "node", "image": "image:1"}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [container], **pod}}},
        },
    }
    content: Body = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"replicatedJobs": [job], **(spec_template or {})}},
    }
    if gang:
        content["podGroupPolicy"] = {"volcano": {}}
    return {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": TRAINING_RUNTIMES.kind,
        "metadata": {"name": name},
        "spec": content,
    }


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Check that a block takes no longer; `awaited` alone is patient with a loaded machine."""
    started = time.monotonic()
    yield
    elapsed = time.monotonic() - started
    assert elapsed < seconds, f"took {elapsed:.1f} s, not {seconds:g}"


def shipped(name: str) -> Body:
    """Return the newest version of a runtime of the catalog."""
    newest = max((ROOT / "runtimes" / name).glob("*.yaml"), key=lambda path: tuple(map(int, path.stem.split("."))))
    return dict(yaml.safe_load(newest.read_text()))


class Scene:
    """A namespace.

    Parameters
    ----------
    bench
        The control plane.
    namespace
        Its name; it is created.
    """

    def __init__(self, bench: Bench, namespace: str) -> None:
        self.bench, self.namespace, self.api = bench, namespace, bench.api
        self.api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        grant_keys(self.api, namespace)
        self.history = History(bench, namespace)
        self.quiet: Any = None
        """The objects at the end of the last `poked_and_quiet`."""

    def close(self) -> None:
        """Check the invariants and remove everything."""
        try:
            self.history.catch_up()
            broken = violations(self.history)
        finally:
            self.history.close()
            for resource in (TRAIN_JOBS, JOB_SETS, POD_GROUPS):
                self.api.delete_all(resource, self.namespace)
            self.api.delete(NAMESPACES, self.namespace)
        assert not broken, "\n".join(broken)

    def create(self, resource: Resource, body: Mapping[str, Any]) -> Body:
        """Create an object here; apiVersion and kind are filled in."""
        stamp = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self.api.create(
            resource, {**stamp, **body, "metadata": {**body["metadata"], "namespace": self.namespace}}
        )

    def runtime(self, name: str = "torch", **options: Any) -> Body:
        """Create a runtime of the namespace."""
        return self.create(TRAINING_RUNTIMES, runtime(name, **options))

    def submit(
        self, name: str = "job", *, runtime: str = "torch", metadata: Mapping[str, Any] | None = None, **spec: Any
    ) -> Body:
        """Create a TrainJob."""
        reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime}
        content = {"runtimeRef": reference, "trainer": {"numNodes": 2}, **spec}
        return self.create(TRAIN_JOBS, {"metadata": {"name": name, **(metadata or {})}, "spec": content})

    def running(self, name: str = "job", **options: Any) -> Body:
        """Create a TrainJob, wait for its JobSet, and let its pods run."""
        self.submit(name, **options)
        self.job_set(name)
        self.play(name, active=1)
        return self.awaited_job(name, lambda body: (body.get("status") or {}).get("jobsStatus"), "jobsStatus")

    def change(self, name: str = "job", **spec: Any) -> Body:
        """Change fields of a TrainJob's specification."""
        return self.api.patch(TRAIN_JOBS, name, self.namespace, {"spec": spec})

    def job(self, name: str = "job") -> Body | None:
        """Return a TrainJob."""
        return self.api.get(TRAIN_JOBS, name, self.namespace)

    def find(self, resource: Resource, name: str) -> Body | None:
        """Return an object of the namespace."""
        return self.api.get(resource, name, self.namespace)

    def job_set(
        self, name: str = "job", probe: Callable[[Body], Any] | None = None, *, timeout: float = PATIENCE
    ) -> Body:
        """Wait for a JobSet, and for what it is to look like."""
        return self.awaited(JOB_SETS, name, probe, timeout=timeout)

    def suspended(self, name: str = "job", value: bool = True, *, timeout: float = PATIENCE) -> Body:
        """Wait until a JobSet is suspended, or runs."""
        return self.job_set(name, lambda body: bool(body["spec"].get("suspend")) is value, timeout=timeout)

    def awaited(
        self, resource: Resource, name: str, probe: Callable[[Body], Any] | None = None, *, timeout: float = PATIENCE
    ) -> Body:
        """Wait for an object, and for what it is to look like."""

        def found() -> Body | None:
            body = self.find(resource, name)
            return body if body is not None and (probe is None or probe(body)) else None

        return awaited(f"{resource.kind} {name} as wanted", found, timeout=timeout)

    def awaited_job(self, name: str, probe: Callable[[Body], Any], what: str, *, timeout: float = PATIENCE) -> Body:
        """Wait for a TrainJob to look like something."""
        try:
            return self.awaited(TRAIN_JOBS, name, probe, timeout=timeout)
        except AssertionError as error:
            status = (self.job(name) or {}).get("status")
            raise AssertionError(f"{what}: {error}; its status is {status}") from None

    def condition(
        self, kind: str, name: str = "job", *, reason: str | None = None, timeout: float = PATIENCE
    ) -> Mapping[str, Any]:
        """Wait until a condition of a TrainJob is true and return it."""

        def held(body: Body) -> bool:
            entry = conditions(body).get(kind)
            return entry is not None and reason in (None, entry["reason"])

        return conditions(self.awaited_job(name, held, f"condition {kind}", timeout=timeout))[kind]

    def play(self, name: str = "job", outcome: str | None = None, **counts: int) -> None:
        """Report what JobSet's controller would: pod counts, and Completed or Failed."""
        status: Body = {"replicatedJobsStatus": [{"name": "node", **dict.fromkeys(_COUNTS, 0), **counts}]}
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if counts.get("suspended"):
            text = {"reason": "SuspendedJobs", "message": "jobset is suspended"}
            status["conditions"] = [{"type": "Suspended", "status": "True", "lastTransitionTime": moment, **text}]
        if outcome is not None:
            text = {"reason": "AllJobsCompleted" if outcome == "Completed" else "FailedJobs", "message": "played"}
            status["conditions"] = [{"type": outcome, "status": "True", "lastTransitionTime": moment, **text}]
            status["terminalState"] = outcome
        self.api.patch(JOB_SETS, name, self.namespace, {"status": status}, subresource="status")

    def events(self, name: str = "job") -> str:
        """Return the messages of the Events about an object."""
        core = Resource("", "v1", "events", "Event")
        found = self.api.list(core, self.namespace)
        return "\n".join(e["message"] for e in found if e["involvedObject"]["name"] == name)

    def awaited_event(self, text: str, name: str = "job", *, timeout: float = 30) -> None:
        """Wait for an Event about a TrainJob that holds a text."""
        awaited(f"an Event of {name} with {text!r}", lambda: text in self.events(name), timeout=timeout)

    def foreign(self, resource: Resource, name: str = "job") -> Body:
        """Create an object of another owner."""
        return self.create(resource, {"metadata": {"name": name}, **foreign_content(resource)})


def foreign_content(resource: Resource) -> Body:
    """Return the content of an object that has nothing to do with a TrainJob."""
    pods = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "image:1"}]}}}}
    job_set = {"suspend": False, "replicatedJobs": [{"name": "node", "template": pods}]}
    contents: dict[str, Body] = {
        "JobSet": {"spec": job_set},
        "PodGroup": {"spec": {"minMember": 1}},
        "ConfigMap": {"data": {"theirs": "yes"}},
        "Secret": {"stringData": {"theirs": "yes"}},
    }
    return contents[resource.kind]


def poked_and_quiet(scene: Scene, *links: Proxy) -> None:
    """Check that the controllers change nothing when they look again at TrainJobs that are as they should be.

    Every TrainJob gets another annotation. A job that is made before and one that is made after them tell when
    everything that was to be done has been done.
    """
    number = next(_POKES)
    names = [body["metadata"]["name"] for body in scene.api.list(TRAIN_JOBS, scene.namespace)]
    names = [name for name in names if not name.startswith(_SENTINEL)]
    awaited("the records of the JobSets", lambda: not _unrecorded(scene))
    sentinel(scene, f"{_SENTINEL}-{number}-before")
    since = {link: len(link.calls) for link in links}
    for name in names:
        patch = {"metadata": {"annotations": {"example.com/poke": str(number)}}}
        scene.api.patch(TRAIN_JOBS, name, scene.namespace, patch)
    sentinel(scene, f"{_SENTINEL}-{number}-after")
    written = [call for link in links for call in link.writes(since=since[link]) if call.namespace == scene.namespace]
    others = [call for call in written if not call.target.startswith(_SENTINEL)]
    awaited("the answers to what was written", lambda: all(call.status for call in others))
    changes = [call for call in others if call.status < 400]
    assert not changes, "\n".join(map(str, changes))
    scene.quiet = _stored(scene)


def fixpoint(scene: Scene, *links: Proxy) -> None:
    """Check `poked_and_quiet`, unless nothing changed since the test did."""
    if scene.quiet != _stored(scene):
        poked_and_quiet(scene, *links)


def _stored(scene: Scene) -> set[tuple[str, str]]:
    """Return the versions of the objects that a controller writes."""
    found = [
        body for resource in (TRAIN_JOBS, JOB_SETS, POD_GROUPS) for body in scene.api.list(resource, scene.namespace)
    ]
    return {(body["metadata"]["uid"], body["metadata"]["resourceVersion"]) for body in found}


def _unrecorded(scene: Scene) -> list[str]:
    """Return the TrainJobs that are not over and whose own JobSet is not recorded yet."""
    job_sets = {body["metadata"]["name"]: body["metadata"] for body in scene.api.list(JOB_SETS, scene.namespace)}
    found = []
    for body in scene.api.list(TRAIN_JOBS, scene.namespace):
        metadata = job_sets.get(body["metadata"]["name"])
        if metadata is None or metadata.get("deletionTimestamp") or finished(body):
            continue
        ours = any(owner["uid"] == body["metadata"]["uid"] for owner in metadata.get("ownerReferences") or ())
        if ours and not is_recorded(body, {"metadata": metadata}):
            found.append(body["metadata"]["name"])
    return found


def sentinel(scene: Scene, name: str) -> None:
    """Take a TrainJob from its creation to its end: what was asked for before it has been looked at by then."""
    body = runtime(_SENTINEL)
    body["metadata"]["namespace"] = scene.namespace
    scene.api.ensure(TRAINING_RUNTIMES, body)
    scene.running(name, runtime=_SENTINEL)
    scene.play(name, "Completed")
    scene.condition("Complete", name)
