"""Sample TrainJob of a runtime: the minimum that a user would write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.api.constants import (
    API_VERSION,
    CLUSTER_TRAINING_RUNTIME,
    DATASET_INITIALIZER,
    FRAMEWORK_LABEL,
    MODEL_INITIALIZER,
)
from trainyard.jobs.runtimes.pods import job_templates

SAMPLE_NAMESPACE: Final = "sample"
_STEPS: Final = {
    DATASET_INITIALIZER: ("dataset", "hf://sample/dataset"),
    MODEL_INITIALIZER: ("model", "hf://sample/model"),
}


def sample_train_job(runtime: Mapping[str, Any], name: str = "sample", *, nodes: bool = True) -> dict[str, Any]:
    """Return a sample TrainJob of a runtime.

    Parameters
    ----------
    runtime
        The installed runtime.
    name
        Name of the TrainJob.
    nodes
        Whether to set numNodes, if supported.

    Returns
    -------
    dict
        A TrainJob with two nodes, or with the runtime's default if that is higher, elastic, or fixed to one node. It
        uses every initializer of the runtime.
    """
    metadata, spec = runtime["metadata"], runtime["spec"]
    policy = _mapping(spec.get("mlPolicy"))
    trainer: dict[str, Any] = {}
    if metadata.get("labels", {}).get(FRAMEWORK_LABEL) == "torchtune":
        trainer["command"] = ["tune", "run"]
    elif nodes and not _mapping(policy.get("torch")).get("elasticPolicy"):
        own = policy.get("numNodes")
        trainer["numNodes"] = max(2, own if isinstance(own, int) else 1)
    steps = {job.step for job in job_templates(runtime)}
    initializer = {field: {"storageUri": uri} for step, (field, uri) in _STEPS.items() if step in steps}
    body: dict[str, Any] = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": CLUSTER_TRAINING_RUNTIME, "name": metadata["name"]}
    }
    if initializer:
        body["initializer"] = initializer
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": SAMPLE_NAMESPACE},
        "spec": {**body, "trainer": trainer},
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
