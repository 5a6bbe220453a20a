"""Elastic PyTorch: torchrun starts with the minimum number of nodes and adds others as they come.

The nodes meet at the first one (rendezvous backend ``c10d``). All pods are created at once; the gang needs only the
least number of them, and the others join when there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from trainyard.api import Body
from trainyard.api.constants import TRAINER_PORT
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.api.markers import atomic, rules
from trainyard.api.shape_rules import ShapeRule
from trainyard.checks.finding import Finding
from trainyard.render.pod_editing import copied, section
from trainyard.render.pod_set import PodSet
from trainyard.render.working_state import Plan

__all__ = [
    "ELASTIC_NODES",
    "ELASTIC_RESERVED",
    "ElasticPolicy",
    "check_elastic",
    "elastic_variables",
    "elastic_warnings",
    "set_elastic_counts",
    "survive_losses",
]

_BACKEND: Final = "PET_RDZV_BACKEND"
_ENDPOINT: Final = "PET_RDZV_ENDPOINT"
_ID: Final = "PET_RDZV_ID"
_MAX_RESTARTS: Final = "PET_MAX_RESTARTS"
ELASTIC_RESERVED: Final = frozenset({_BACKEND, _ENDPOINT, _ID, _MAX_RESTARTS})
"""Variables that only elastic jobs reserve."""

_POLICY: Final = "spec.mlPolicy.torch.elasticPolicy"
_BACKOFF_LIMIT: Final = 6
_IGNORE_DISRUPTIONS: Final = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
_FIRST_NODE_SUCCEEDED: Final = {"rules": [{"succeededIndexes": "0"}]}


ELASTIC_NODES: Final = ShapeRule(
    "!(has(self.numNodes) && has(self.torch) && has(self.torch.elasticPolicy))",
    "numNodes should not be set if torch.elasticPolicy is configured",
    id="MLP-002",
    fix="remove numNodes; minNodes and maxNodes of torch.elasticPolicy say how many nodes train",
    holds=lambda value: not ("numNodes" in value and "elasticPolicy" in value.get("torch", {})),
)

_ELASTIC_RANGE: Final = ShapeRule(
    "!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes",
    "minNodes must not be larger than maxNodes",
    id="MLP-003",
    fix="lower minNodes or raise maxNodes",
    holds=lambda value: value.get("minNodes", 1) <= value.get("maxNodes", value.get("minNodes", 1)),
)

_METRIC: dict[str, Any] = {
    "properties": {"type": {"description": "Kind of metric.", "type": "string", "minLength": 1}},
    "required": ["type"],
    "x-kubernetes-preserve-unknown-fields": True,
}


class ElasticPolicy(KubernetesModel):
    """Elastic training: torchrun starts with the minimum number of nodes and adds nodes as they join."""

    model_config = ConfigDict(json_schema_extra=rules(_ELASTIC_RANGE))

    max_restarts: Annotated[Int32, Field(ge=0)] | None = None
    """Maximum restarts of the workers before the job fails."""
    min_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Minimum number of training nodes; default: 1."""
    max_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Maximum number of training nodes."""
    metrics: Annotated[
        list[Annotated[Body, Field(json_schema_extra=_METRIC)]] | None,
        Field(json_schema_extra=atomic()),
    ] = None
    """Metrics of an autoscaler (autoscaling/v2 MetricSpec), preserved unchanged."""


def set_elastic_counts(plan: Plan, policy: ElasticPolicy) -> None:
    """Set as many pods as may train, and how many are enough to start."""
    if plan.trainer is not None:
        plan.trainer.count = _asked(plan) or policy.max_nodes or _least(policy)
        plan.trainer.least = min(_least(policy), plan.trainer.count)


def check_elastic(plan: Plan, policy: ElasticPolicy) -> Iterator[Finding]:
    """Yield bounds that contradict each other, and a number of nodes outside of them."""
    least, most, asked = _least(policy), policy.max_nodes, _asked(plan)
    runtime = f'{plan.runtime.kind} "{plan.runtime.metadata.name}"'
    if plan.ml_policy.num_nodes is not None:
        message = f"{runtime} spec.mlPolicy: {ELASTIC_NODES.text}"
        yield Finding("spec.runtimeRef", message, ELASTIC_NODES.fix, ELASTIC_NODES.id)
    if most is not None and most < least:
        yield Finding(
            "spec.runtimeRef",
            f"{runtime} {_POLICY}: maxNodes {most} is less than minNodes {least}",
            f"correct {_POLICY} of the runtime",
        )
    elif asked is not None and (asked < least or (most is not None and asked > most)):
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        yield Finding(
            "spec.trainer.numNodes",
            f"must be {bounds}, the elasticPolicy of the runtime, but is {asked}",
            "remove it, or choose a number within",
        )


def elastic_warnings(policy: ElasticPolicy) -> Iterator[Finding]:
    """Yield that no autoscaler reads the metrics: a JobSet has no number of pods that one could change."""
    if policy.metrics:
        yield Finding(
            "spec.runtimeRef",
            f"{_POLICY}.metrics has no effect: nodes join as capacity allows, up to maxNodes",
            "remove the metrics from the runtime",
        )


def elastic_variables(plan: Plan, policy: ElasticPolicy, first_node: str) -> Iterable[Body]:
    """Return what torchrun reads to meet the other nodes.

    Parameters
    ----------
    first_node
        Host name of the first node, where all meet.
    """
    yield {"name": _BACKEND, "value": "c10d"}
    yield {"name": _ENDPOINT, "value": f"{first_node}:{TRAINER_PORT}"}
    yield {"name": _ID, "value": plan.name}
    if policy.max_restarts is not None:
        yield {"name": _MAX_RESTARTS, "value": str(policy.max_restarts)}


def survive_losses(plan: Plan, policy: ElasticPolicy) -> None:
    """Make the Job replace lost pods and end with its first node, wherever the runtime does not say otherwise.

    A preempted or drained pod does not count as a failure; each node may fail once before the Job does. Pods that never
    found a place do not hold up a job whose first node has finished. ``maxRestarts`` is, as upstream describes it, also
    the number of times the whole JobSet is restarted.
    """
    if plan.trainer is not None:
        _replace_lost_pods(plan.trainer)
    if policy.max_restarts is not None:
        plan.job_set_spec.setdefault("failurePolicy", {"maxRestarts": policy.max_restarts})


def _replace_lost_pods(trainer: PodSet) -> None:
    job = section(trainer.job, "template", "spec")
    if job.get("completionMode", "Indexed") == "Indexed":
        job.setdefault("successPolicy", copied(_FIRST_NODE_SUCCEEDED))
    if "backoffLimitPerIndex" not in job:
        job.setdefault("backoffLimit", max(_BACKOFF_LIMIT, trainer.count))
    replaced_when_gone = job.get("podReplacementPolicy", "Failed") == "Failed"
    if trainer.pod.get("restartPolicy", "Never") == "Never" and "podFailurePolicy" not in job and replaced_when_gone:
        trainer.pod["restartPolicy"] = "Never"
        job["podFailurePolicy"] = copied(_IGNORE_DISRUPTIONS)


def _least(policy: ElasticPolicy) -> int:
    return policy.min_nodes or 1


def _asked(plan: Plan) -> int | None:
    return plan.spec.trainer.num_nodes if plan.spec.trainer else None
