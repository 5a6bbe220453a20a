"""Generated TrainJobs over the catalog and over random runtimes, for the comparison of counts."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.compatibility.corpus.case import Case
from tests.compatibility.corpus.generated import generated
from trainyard.api.constants import API_VERSION
from trainyard.data import data_folder
from trainyard.jobs.runtimes.catalog_loader import load_catalog

NAMESPACE = "counted"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_AMOUNTS = (
    {"cpu": "4"},
    {"cpu": "500m", "memory": "1Gi"},
    {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": "8", "cpu": "2"},
)


def cases(each: int, random_cases: int, seed: int) -> Iterator[Case]:
    """Yield cases: some of each runtime of the catalog, and others of random runtimes.

    Parameters
    ----------
    each
        TrainJobs of each runtime of the catalog.
    random_cases
        TrainJobs of random runtimes.
    """
    for position, runtime in enumerate(load_catalog((data_folder("runtimes"),), ("*",)).objects()):
        name = runtime["metadata"]["name"]
        for number in range(each):
            job = _train_job(runtime, random.Random(f"{seed}/{name}/{number}"))
            job["metadata"]["name"] = f"r{position}-{number}"
            yield Case(f"{name}/{number}", copy.deepcopy(runtime), _managed(job))
    for case in generated(random_cases, seed):
        yield Case(case.name, case.runtime, _managed(copy.deepcopy(case.train_job)))


def _managed(job: dict[str, Any]) -> dict[str, Any]:
    """Return a TrainJob as Kueue's webhook would store it."""
    job["metadata"].setdefault("labels", {})[QUEUE_LABEL] = "queue"
    job["spec"]["suspend"] = True
    job["spec"].pop("managedBy", None)
    return job


def _train_job(runtime: dict[str, Any], source: random.Random) -> dict[str, Any]:
    jobs = [each["name"] for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]]
    trainer: dict[str, Any] = {}
    if source.random() < 0.7:
        trainer["numNodes"] = source.choice((1, 1, 2, 3, 7))
    if source.random() < 0.7:
        kind = source.choice(("requests", "limits", "both"))
        amount = source.choice(_AMOUNTS)
        keys = ("requests", "limits") if kind == "both" else (kind,)
        trainer["resourcesPerNode"] = {key: dict(amount) for key in keys}
    if source.random() < 0.3 and "numNodes" in trainer:
        trainer["numProcPerNode"] = source.choice((1, 2, 8))
    if source.random() < 0.4:
        trainer["command"] = ["python", "train.py"]
    if source.random() < 0.3:
        trainer["image"] = "docker.io/library/python:3.13"
    if source.random() < 0.3:
        trainer["env"] = [{"name": "SEED", "value": "1"}]
    spec: dict[str, Any] = {
        "runtimeRef": {"name": runtime["metadata"]["name"]},
        **({"trainer": trainer} if trainer else {}),
    }
    if source.random() < 0.3:
        spec["podTemplateOverrides"] = [
            {
                "targetJobs": [{"name": source.choice(jobs)}],
                "metadata": {"labels": {"example.com/team": "a"}},
                "spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
            }
        ]
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": NAMESPACE},
        "spec": spec,
    }
