"""Objects of simulated gangs: PodGroups and pods, as the platform makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard import quantity
from trainyard.api.constants import COMPLETION_INDEX_LABEL, GROUP_NAME_ANNOTATION, JOB_INDEX_LABEL, REPLICATED_JOB_LABEL
from trainyard.jobs.render.gangs.volcano_subgroups import group_policies
from trainyard.local.simulate.scenario_jobs import ScenarioGang, TopologyMode

ROLE_LABEL: Final = "trainyard.dev/simulated"
JOB_LABEL: Final = "trainyard.dev/simulated-job"


def pod_group_of(job: ScenarioGang) -> dict[str, Any]:
    """Return the PodGroup of a job."""
    total = {name: quantity.parse(amount) * job.min_member for name, amount in job.per_pod.items()}
    spec: dict[str, Any] = {
        "minMember": job.min_member,
        "queue": job.queue,
        "minResources": {name: quantity.format(amount, name) for name, amount in total.items()},
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.mode:
        topology: dict[str, Any] = {"mode": str(job.mode)}
        if job.tier is not None:
            topology["highestTierAllowed"] = job.tier
        spec["networkTopology"] = topology
    if job.group_size:
        limit = {"mode": str(TopologyMode.HARD), "highestTierAllowed": job.group_tier}
        spec["subGroupPolicy"] = group_policies(
            job.name, job.pods, job.group_size, least=job.min_member, topology=limit
        )
    return group_body(job.name, job.namespace, spec)


def pod_of(job: ScenarioGang, name: str, index: int) -> dict[str, Any]:
    """Return a pod of a job; the labels of JobSet and of the Job determine its subgroup."""
    labels = {ROLE_LABEL: "job", JOB_LABEL: job.name}
    if job.group_size:
        labels |= {REPLICATED_JOB_LABEL: job.name, JOB_INDEX_LABEL: "0", COMPLETION_INDEX_LABEL: str(index)}
    spec = pod_spec(job.per_pod, job.priority_class)
    return pod_body(name, job.namespace, job.name, labels, job.per_pod, spec)


def group_body(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }


def pod_body(
    name: str,
    namespace: str,
    group: str,
    labels: Mapping[str, str],
    requests: Mapping[str, str],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a pod of a PodGroup."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": {GROUP_NAME_ANNOTATION: group},
        },
        "spec": {**pod_spec(requests), **spec},
    }


def pod_spec(requests: Mapping[str, str], priority_class: str | None = None) -> dict[str, Any]:
    """Return the specification of a pod with one container."""
    amounts = dict(requests)
    container: dict[str, Any] = {"name": "node", "image": "registry.invalid/simulated:1"}
    if amounts:
        container["resources"] = {"requests": amounts, "limits": amounts}
    return {
        "schedulerName": "volcano",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "containers": [container],
        **({"priorityClassName": priority_class} if priority_class else {}),
    }
