"""Elastic PyTorch: torchrun starts with the minimum number of nodes and adds nodes as they join.

The rendezvous of the nodes is at the first one (backend ``c10d``). All pods are created at once; the gang requires only
the minimum, and the others join when capacity is available.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from trainyard.api import Body
from trainyard.api.constants import TRAINER_PORT
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.api.markers import atomic, rules
from trainyard.api.shape_rule import ShapeRule
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import copied, section
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

_BACKEND: Final = "PET_RDZV_BACKEND"
_ENDPOINT: Final = "PET_RDZV_ENDPOINT"
_ID: Final = "PET_RDZV_ID"
_MAX_RESTARTS: Final = "PET_MAX_RESTARTS"
ELASTIC_RESERVED: Final = frozenset({_BACKEND, _ENDPOINT, _ID, _MAX_RESTARTS})
"""Variables that are reserved for elastic jobs only."""

_POLICY: Final = "spec.mlPolicy.torch.elasticPolicy"
_FEWEST_RETRIES: Final = 6
_MOST_RETRIES: Final = 20
"""The default bound of rule RST-001, which would warn about more."""
_IGNORE_DISRUPTIONS: Final = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
_FIRST_NODE_SUCCEEDED: Final = {"rules": [{"succeededIndexes": "0"}]}


ELASTIC_NODES: Final = ShapeRule(
    "!(has(self.numNodes) && has(self.torch) && has(self.torch.elasticPolicy))",
    "numNodes should not be set if torch.elasticPolicy is configured",
    id="MLP-002",
    fix="remove numNodes; minNodes and maxNodes of torch.elasticPolicy set the number of nodes",
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


def set_elastic_counts(resolution: Resolution, policy: ElasticPolicy) -> None:
    """Set the maximum and the minimum number of training pods."""
    trainer = resolution.trainer
    if trainer is not None:
        count = _requested_nodes(resolution) or policy.max_nodes or _min_nodes(policy)
        resolution.set_count(trainer.name, count, min(_min_nodes(policy), count))


def check_elastic(job: ResolvedJob, policy: ElasticPolicy) -> Iterator[Finding]:
    """Yield contradictory bounds, and a number of nodes outside of them."""
    minimum, maximum, requested = _min_nodes(policy), policy.max_nodes, _requested_nodes(job)
    runtime = f'{job.runtime.kind} "{job.runtime.metadata.name}"'
    if job.ml_policy.num_nodes is not None:
        message = f"{runtime} spec.mlPolicy: {ELASTIC_NODES.text}"
        yield Finding("spec.runtimeRef", message, ELASTIC_NODES.fix, ELASTIC_NODES.id)
    if maximum is not None and maximum < minimum:
        yield Finding(
            "spec.runtimeRef",
            f"{runtime} {_POLICY}: maxNodes {maximum} is less than minNodes {minimum}",
            f"correct {_POLICY} of the runtime",
        )
    elif requested is not None and (requested < minimum or (maximum is not None and requested > maximum)):
        bounds = f"{minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
        yield Finding(
            "spec.trainer.numNodes",
            f"must be {bounds} (elasticPolicy of the runtime), but is {requested}",
            "remove it, or use a number in this range",
        )


def elastic_warnings(policy: ElasticPolicy) -> Iterator[Finding]:
    """Warn about metrics: an autoscaler cannot scale a JobSet."""
    if policy.metrics:
        yield Finding.warning(
            "spec.runtimeRef",
            f"{_POLICY}.metrics has no effect: nodes join as capacity allows, up to maxNodes",
            "remove the metrics from the runtime",
        )


def elastic_variables(job: JobView, policy: ElasticPolicy, first_node: str) -> Iterable[Body]:
    """Return the rendezvous variables of torchrun.

    Parameters
    ----------
    first_node
        Host name of the first node, the rendezvous endpoint.
    """
    yield {"name": _BACKEND, "value": "c10d"}
    yield {"name": _ENDPOINT, "value": f"{first_node}:{TRAINER_PORT}"}
    yield {"name": _ID, "value": job.name}
    if policy.max_restarts is not None:
        yield {"name": _MAX_RESTARTS, "value": str(policy.max_restarts)}


def tolerate_pod_loss(builder: JobSetBuilder, policy: ElasticPolicy) -> None:
    """Replace lost pods and complete the Job with its first node, unless the runtime sets these policies.

    A preempted or drained pod does not count as a failure; each of up to 20 nodes may fail once before the Job does.
    Pods that were never scheduled do not delay completion. As upstream documents it, ``maxRestarts`` also limits
    restarts of the whole JobSet.
    """
    if builder.trainer is not None:
        _replace_lost_pods(builder.trainer)
    if policy.max_restarts is not None:
        builder.job_set_spec.setdefault("failurePolicy", {"maxRestarts": policy.max_restarts})


def _replace_lost_pods(trainer: PodSet) -> None:
    job = section(trainer.job, "template", "spec")
    if job.get("completionMode", "Indexed") == "Indexed":
        job.setdefault("successPolicy", copied(_FIRST_NODE_SUCCEEDED))
    if "backoffLimitPerIndex" not in job:
        job.setdefault("backoffLimit", min(max(_FEWEST_RETRIES, trainer.count), _MOST_RETRIES))
    replaced_when_gone = job.get("podReplacementPolicy", "Failed") == "Failed"
    if trainer.pod.get("restartPolicy", "Never") == "Never" and "podFailurePolicy" not in job and replaced_when_gone:
        trainer.pod["restartPolicy"] = "Never"
        job["podFailurePolicy"] = copied(_IGNORE_DISRUPTIONS)


def _min_nodes(policy: ElasticPolicy) -> int:
    return policy.min_nodes or 1


def _requested_nodes(job: JobView) -> int | None:
    return job.spec.trainer.num_nodes if job.spec.trainer else None
