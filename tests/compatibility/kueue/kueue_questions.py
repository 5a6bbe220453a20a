"""TrainJobs in a queue of Kueue: those of the corpus, and several on every runtime of the catalog."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.compatibility.corpus import corpus
from tests.compatibility.corpus.case import GROUP, Body
from trainyard.api import ClusterTrainingRuntime, Runtime, TrainingRuntime, TrainJob, parse
from trainyard.api.verdicts import decoded
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.jobs.render.kueue import CountedPodSet
from trainyard.jobs.render.submission import read_runtime
from trainyard.jobs.runtimes.catalog_loader import load_catalog

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
_SEED = 20261123
_JOBS_PER_RUNTIME = 12


@dataclass(frozen=True)
class Question:
    """A TrainJob in a queue, and its runtime.

    Parameters
    ----------
    name
        Names it in failures.
    train_job, runtime
        The parsed objects.
    bodies
        Both as the API server stores them.
    """

    name: str
    train_job: TrainJob
    runtime: Runtime
    bodies: tuple[Body, Body]


def questions() -> Iterator[Question]:
    """Yield every TrainJob that its schema accepts; the same on every run."""
    for case in corpus():
        if case.runtime is not None:
            yield from _question(case.name, case.train_job, case.runtime)
    for body in load_catalog(data_folder("runtimes")).objects():
        source = random.Random(f"{_SEED}/{body['metadata']['name']}")
        for number in range(_JOBS_PER_RUNTIME):
            yield from _question(f"{body['metadata']['name']}-{number}", _train_job(source, body), body)


def comparable(pod_sets: tuple[CountedPodSet, ...]) -> list[tuple[Any, ...]]:
    """Return what two lists of pod sets must have in common; a request of zero is none."""
    return [
        (
            pod_set.name,
            pod_set.replicas,
            pod_set.count,
            {name: amount for name, amount in pod_set.requests.items() if amount},
            pod_set.claims,
        )
        for pod_set in pod_sets
    ]


def text(question: Question) -> Body:
    """Return what is sent to the library: the TrainJob, and the specification of the runtime."""
    train_job, runtime = copy.deepcopy(question.bodies)
    spec = runtime["spec"]
    for job in spec["template"]["spec"].get("replicatedJobs", ()):
        job.setdefault("replicas", 1)  # the default of JobSet's schema
    sent: Body = json.loads(json.dumps({"trainJob": train_job, "runtime": spec}))
    return sent


def _question(name: str, train_job: Body, runtime: Body) -> Iterator[Question]:
    queued = copy.deepcopy(train_job)
    metadata = queued["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **QUEUE}
    body, stored = decoded(TrainJob, queued), read_runtime(runtime).body
    model = TrainingRuntime if runtime["kind"] == "TrainingRuntime" else ClusterTrainingRuntime
    try:
        yield Question(name, parse(TrainJob, body), parse(model, stored), (body, stored))
    except TrainyardError:
        return


def _train_job(source: random.Random, runtime: Body) -> Body:
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    trainer: Body = {}
    if source.random() < 0.7:
        trainer["numNodes"] = source.choice((1, 1, 2, 3, 8))
    if source.random() < 0.6:
        trainer["resourcesPerNode"] = source.choice(
            (
                {"requests": {"cpu": "4"}},
                {"limits": {"nvidia.com/gpu": "4"}},
                {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"nvidia.com/gpu": "8", "memory": "16Gi"}},
                {"limits": {"cpu": "1"}, "claims": [{"name": "gpus"}]},
            )
        )
    spec: Body = {"runtimeRef": {"name": runtime["metadata"]["name"]}, **({"trainer": trainer} if trainer else {})}
    if source.random() < 0.3:
        target = {"name": source.choice(jobs)["name"]}
        pod = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
        spec["podTemplateOverrides"] = [{"targetJobs": [target], "spec": pod}]
    return {
        "apiVersion": GROUP,
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": spec,
    }
