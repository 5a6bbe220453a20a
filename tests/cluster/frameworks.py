"""TrainJobs of every framework, and what their pods got: submitted together, watched while they run."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support import LiveCluster, awaited, require
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.data import data_folder
from trainyard.jobs.runtimes.catalog_loader import load_catalog

DURATION = "trainyard.dev/simulated-duration"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_KINDS = "trainjobs,jobsets,podgroups.scheduling.volcano.sh,services,configmaps,secrets,persistentvolumeclaims,events"
_DECODER = json.JSONDecoder()

Object = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One TrainJob of the tests.

    Parameters
    ----------
    name
        Name of the TrainJob.
    runtime
        Name of its runtime.
    nodes
        Nodes asked for; None to say nothing.
    gpus
        GPUs of a node.
    trainer
        Further fields of the trainer.
    serving
        ReplicatedJobs whose pods do not end by themselves.
    spec
        Further fields of the TrainJob.
    """

    name: str
    runtime: str
    nodes: int | None = 2
    gpus: int = 1
    namespace: str = "language"
    trainer: Object = field(default_factory=dict)
    serving: tuple[str, ...] = ()
    spec: Object = field(default_factory=dict)

    def body(self) -> Object:
        """Return the TrainJob."""
        trainer: Object = {"command": ["python", "train.py"], **self.trainer}
        if self.nodes is not None:
            trainer["numNodes"] = self.nodes
        if self.gpus:
            amount = {"nvidia.com/gpu": str(self.gpus)}
            trainer["resourcesPerNode"] = {"requests": amount, "limits": amount}
        spec: Object = {"runtimeRef": {"name": self.runtime}, "trainer": trainer, **copy.deepcopy(self.spec)}
        if self.serving:
            metadata = {"annotations": {DURATION: "1h"}}
            jobs = [{"name": name, "template": {"spec": {"template": {"metadata": metadata}}}} for name in self.serving]
            changes = {"template": {"spec": {"replicatedJobs": jobs}}}
            spec["runtimePatches"] = [{"manager": "example.com/simulation", "trainingRuntimeSpec": changes}]
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        }


class Runs:
    """What the API server had of the TrainJobs, by their names."""

    def __init__(self, platform: LiveCluster, runs: tuple[Run, ...]) -> None:
        self.platform = platform
        self.runs = {run.name: run for run in runs}
        self.before: dict[str, Object] = {}
        self.reported: list[str] = []
        self._pods: dict[str, Object] = {}
        self._objects: dict[tuple[str, str], Object] = {}

    def record(self, stream: str) -> None:
        """Take the pods and PodGroups that watches printed."""
        position = 0
        while (position := _next(stream, position)) < len(stream):
            try:
                body, position = _DECODER.raw_decode(stream, position)
            except json.JSONDecodeError:
                return
            if body["kind"] == "Pod":
                self._pods[body["metadata"]["uid"]] = body
            elif body["kind"] == "PodGroup":
                self._objects["podgroup", body["metadata"]["name"]] = body

    def observe(self) -> None:
        """Read everything that the namespaces of the TrainJobs hold."""
        for namespace in sorted({run.namespace for run in self.runs.values()}):
            for body in self.platform.get(_KINDS, "-n", namespace)["items"]:
                self._objects[body["kind"].lower(), body["metadata"]["name"]] = body

    def unfinished(self, names: set[str]) -> set[str]:
        """Return those of some TrainJobs that have neither completed nor failed."""
        jobs = {job["metadata"]["name"]: job for job in self.platform.get("trainjobs", "-A")["items"]}
        return {name for name in names if not {"Complete", "Failed"} & true_conditions(jobs[name]).keys()}

    def find(self, kind: str, name: str) -> Object | None:
        """Return an object as it was in the end, by kind in lower case and name."""
        return self._objects.get((kind, name))

    def get(self, kind: str, name: str) -> Object:
        """Return an object as it was in the end; fail where there is none."""
        found = self.find(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def messages(self, job: str) -> list[str]:
        """Return what the events of a TrainJob say."""
        events = (body for (kind, _), body in self._objects.items() if kind == "event")
        return [event["message"] for event in events if event["involvedObject"]["name"] == job]

    def pods(self, job: str, replicated_job: str | None = None) -> list[Object]:
        """Return the pods that a TrainJob had, in the order of their indexes."""
        found = [pod for pod in self._pods.values() if _label(pod, _JOB_SET) == job]
        if replicated_job is not None:
            found = [pod for pod in found if _label(pod, _REPLICATED_JOB) == replicated_job]
        return sorted(found, key=lambda pod: (_label(pod, _REPLICATED_JOB), _label(pod, _JOB_INDEX), _index(pod)))

    def counts(self, job: str) -> dict[str, int]:
        """Return how many pods each replicatedJob had."""
        names = [_label(pod, _REPLICATED_JOB) for pod in self.pods(job)]
        return {name: names.count(name) for name in names}

    def hosts(self, job: str, replicated_job: str | None = None) -> list[str]:
        """Return the names under which pods are found in DNS."""
        return [f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in self.pods(job, replicated_job)]

    def container(self, job: str, replicated_job: str, name: str = "node") -> Object:
        """Return a container as the first pod of a replicatedJob got it."""
        pod = self.pods(job, replicated_job)[0]
        return next(each for each in pod["spec"]["containers"] if each["name"] == name)

    def env(self, job: str, replicated_job: str, name: str = "node") -> dict[str, str]:
        """Return the variables of a container: values, or the field that one is taken from."""
        variables = self.container(job, replicated_job, name).get("env", [])
        return {each["name"]: _value(each) for each in variables}


@contextmanager
def watching(runs: Runs, folder: Path) -> Iterator[None]:
    """Record every pod and PodGroup of a TrainJob, also those that are gone afterwards."""
    with ExitStack() as ends:
        for kind, label in (("pods", _JOB_SET), ("podgroups.scheduling.volcano.sh", TRAIN_JOB_LABEL)):
            file = folder / f"{kind}.json"
            sink = ends.enter_context(file.open("w"))
            command = ["kubectl", "get", kind, "-A", "-l", label, "--watch", "-o", "json"]
            process = subprocess.Popen(command, env=runs.platform.env, stdout=sink, stderr=subprocess.DEVNULL)
            ends.callback(_recorded, runs, process, file)
        yield


def _recorded(runs: Runs, process: subprocess.Popen[bytes], file: Path) -> None:
    process.terminate()
    process.wait()
    runs.record(file.read_text())


def submit(runs: Runs, names: set[str]) -> None:
    """Create TrainJobs; the API server answers 409 where others have counted on the same quota too often meanwhile."""
    for name in sorted(names):
        body = runs.runs[name].body()

        def created(body: Object = body) -> bool:
            answer = runs.platform.apply(body)
            return "on resourcequotas" not in answer.stderr and bool(require(answer))

        awaited(f"TrainJob {name} to be counted", created)


def await_end(
    runs: Runs, names: set[str], *, meanwhile: Callable[[], None] = lambda: None, timeout: float = 300
) -> None:
    """Wait until TrainJobs have completed or failed; the tests of each tell of those that did not.

    Parameters
    ----------
    meanwhile
        What to do over and over until then.
    """

    def ended() -> bool:
        meanwhile()
        return not runs.unfinished(names)

    try:
        awaited("the end of every TrainJob", ended, timeout=timeout)
    except AssertionError:
        return


def catalog(platform: LiveCluster) -> list[Object]:
    """Return the aliases of the shipped runtimes that a stack did not install."""
    present = {item["metadata"]["name"] for item in platform.get("clustertrainingruntimes")["items"]}
    runtimes = load_catalog(data_folder("runtimes")).runtimes
    return [runtime.objects()[-1] for runtime in runtimes if runtime.name not in present]


def derived(base: str, name: str) -> Object:
    """Return a copy of a shipped runtime under another name, to change."""
    (runtime,) = load_catalog(data_folder("runtimes"), (base,)).runtimes
    assert runtime.alias is not None
    body = yaml.safe_load(yaml.safe_dump(runtime.version(runtime.alias).manifest()))
    body["metadata"] = {"name": name, "labels": body["metadata"]["labels"]}
    return dict(body)


def replicated_job(body: Object, name: str) -> Object:
    """Return a replicatedJob of a runtime."""
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    return next(job for job in jobs if job["name"] == name)


def true_conditions(train_job: Object) -> dict[str, Object]:
    """Return the conditions of a TrainJob that are true, by type."""
    conditions = train_job.get("status", {}).get("conditions", [])
    return {condition["type"]: condition for condition in conditions if condition["status"] == "True"}


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _label(pod: Object, key: str) -> str:
    return str(pod["metadata"]["labels"].get(key, ""))


def _index(pod: Object) -> int:
    return int(_label(pod, _COMPLETION_INDEX) or 0)


def _value(variable: Object) -> str:
    if "valueFrom" not in variable:
        return str(variable.get("value", ""))
    return str(variable["valueFrom"]["fieldRef"]["fieldPath"])
