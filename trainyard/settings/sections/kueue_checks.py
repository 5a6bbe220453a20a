"""Checks of the Kueue section: its references, what Kueue's webhooks reject, and who owns a tenant's quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainyard import quantity
from trainyard.checks.finding import Finding

if TYPE_CHECKING:
    from trainyard.settings.sections.kueue import ClusterQueueSettings, KueueSettings
    from trainyard.settings.stack import StackSettings


_HOSTNAME = "kubernetes.io/hostname"
_CONFIG_NAME = 63
"""Maximum length of the name by which an AdmissionCheck refers to its configuration."""
_SHARES = ("deserved", "guarantee", "capability")
_CONFIGURED = ("origin", "worker_lost_timeout_seconds")
"""Fields of multiKueue that are in Kueue's configuration, not in an object."""


def check(stack: StackSettings) -> Iterator[Finding]:
    """Yield the findings of the Kueue section of a stack."""
    settings: KueueSettings = stack.kueue  # type: ignore[attr-defined]
    if settings.install is False:
        yield from _unused(settings)
        return
    yield from _ignored(settings)
    yield from _topologies(settings)
    for name, flavor in sorted(settings.flavors.items()):
        for index, each in enumerate(flavor.tolerations):
            if each.operator == "Exists" and each.value is not None:
                path = f"kueue.flavors.{name}.tolerations[{index}].value"
                yield Finding(path, "operator Exists tolerates any value", "remove value, or use operator Equal")
    for name, queue in sorted(settings.cluster_queues.items()):
        yield from _cluster_queue(settings, queue, f"kueue.clusterQueues.{name}")
        yield from _clusters(settings, name, queue)
    yield from _local_queues(stack, settings)
    yield from _owners(stack, settings)


def _unused(settings: KueueSettings) -> Iterator[Finding]:
    keys = ("topologies", "flavors", "cluster_queues", "local_queues", "workload_priority_classes", "multi_kueue")
    for key in keys:
        if getattr(settings, key):
            alias = type(settings).model_fields[key].alias or key
            yield Finding(f"kueue.{alias}", "Kueue is not installed", "set kueue.install to true or existing")


def _ignored(settings: KueueSettings) -> Iterator[Finding]:
    """Yield settings that only the configuration of an installed Kueue contains."""
    if settings.install != "existing":
        return
    ignored = ["waitForPodsReady"] if settings.wait_for_pods_ready is not None else []
    if (clusters := settings.multi_kueue) is not None:
        set_here = [name for name in _CONFIGURED if name in clusters.model_fields_set]
        ignored += [f"multiKueue.{type(clusters).model_fields[name].alias or name}" for name in set_here]
    for name in ignored:
        message = "an existing Kueue has its own configuration, which this program does not change"
        yield Finding(f"kueue.{name}", message, "remove it, and set it in the configuration of that Kueue")


def _topologies(settings: KueueSettings) -> Iterator[Finding]:
    for name, topology in sorted(settings.topologies.items()):
        path = f"kueue.topologies.{name}.levels"
        if len(set(topology.levels)) < len(topology.levels):
            yield Finding(path, "a label occurs twice", "list each label once")
        if _HOSTNAME in topology.levels[:-1]:
            yield Finding(path, f"{_HOSTNAME} is not the last level", "move it to the end")
    for name, flavor in sorted(settings.flavors.items()):
        if flavor.topology is None:
            continue
        path = f"kueue.flavors.{name}"
        if flavor.topology not in settings.topologies:
            message = f"topology {flavor.topology!r} is not declared"
            yield Finding(f"{path}.topology", message, _declare("kueue.topologies", settings.topologies))
        if not flavor.node_labels:
            message = "a flavor with a topology must select its nodes"
            yield Finding(f"{path}.nodeLabels", message, "set a label that all of its nodes have")


def _cluster_queue(settings: KueueSettings, queue: ClusterQueueSettings, path: str) -> Iterator[Finding]:
    resources: set[str] = set()
    flavors: set[str] = set()
    for index, group in enumerate(queue.resource_groups):
        covered = set(group.flavors[0].quotas)
        place = f"{path}.resourceGroups[{index}]"
        for name in sorted(covered & resources):
            yield Finding(place, f"resource {name} is in another group of the queue", "move it to one group")
        resources |= covered
        for position, each in enumerate(group.flavors):
            inner = f"{place}.flavors[{position}]"
            if each.flavor not in settings.flavors:
                message = f"flavor {each.flavor!r} is not declared"
                yield Finding(f"{inner}.flavor", message, _declare("kueue.flavors", settings.flavors))
            if each.flavor in flavors:
                yield Finding(f"{inner}.flavor", f"flavor {each.flavor!r} occurs twice", "merge its quotas")
            flavors.add(each.flavor)
            if set(each.quotas) != covered:
                message = f"flavor {each.flavor!r} has quotas of other resources than the first flavor"
                yield Finding(f"{inner}.quotas", message, f"set {', '.join(sorted(covered))}")
            yield from _limits(queue, index, position, inner)
    preemption = queue.preemption
    borrow = preemption.borrow_within_cohort
    if borrow and borrow.policy.value != "Never" and preemption.reclaim_within_cohort.value == "Never":
        message = f"{borrow.policy.value} requires reclaimWithinCohort"
        yield Finding(f"{path}.preemption.borrowWithinCohort.policy", message, "set reclaimWithinCohort")


def _clusters(settings: KueueSettings, name: str, queue: ClusterQueueSettings) -> Iterator[Finding]:
    """Yield the findings of the clusters that run the jobs of a queue."""
    path = f"kueue.clusterQueues.{name}"
    known = settings.multi_kueue.clusters if settings.multi_kueue else {}
    for index, cluster in enumerate(queue.multi_kueue_clusters):
        place = f"{path}.multiKueueClusters[{index}]"
        if cluster not in known:
            message = f"cluster {cluster!r} is not declared"
            yield Finding(place, message, _declare("kueue.multiKueue.clusters", known))
        if cluster in queue.multi_kueue_clusters[:index]:
            yield Finding(place, f"cluster {cluster!r} occurs twice", "remove it")
    if queue.multi_kueue_clusters and ("." in name or len(name) > _CONFIG_NAME):
        message = f"{name!r} also names the queue's MultiKueueConfig, which must be a DNS label"
        yield Finding(path, message, f"rename the queue: no dots, at most {_CONFIG_NAME} characters")


def _limits(queue: ClusterQueueSettings, group: int, position: int, path: str) -> Iterator[Finding]:
    for name, quota in queue.resource_groups[group].flavors[position].quotas.items():
        for key, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
            place = f"{path}.quotas[{name}].{key}"
            if limit is not None and queue.cohort is None:
                yield Finding(place, "the queue has no cohort to borrow from or lend to", "set cohort")
            elif limit is not None and key == "lendingLimit" and _exceeds(limit, quota.nominal_quota):
                message = f"{limit} exceeds nominalQuota {quota.nominal_quota}"
                yield Finding(place, message, f"use at most {quota.nominal_quota}")


def _exceeds(limit: str, quota: str) -> bool:
    return quantity.parse(limit) > quantity.parse(quota)


def _local_queues(stack: StackSettings, settings: KueueSettings) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for index, queue in enumerate(settings.local_queues):
        path = f"kueue.localQueues[{index}]"
        if queue.tenant not in stack.tenants:
            message = f"tenant {queue.tenant!r} is not declared"
            yield Finding(f"{path}.tenant", message, _declare("tenants", stack.active_tenants))
        elif queue.tenant not in stack.active_tenants:
            message = f"tenant {queue.tenant!r} is retired: the LocalQueue is deleted with its namespace"
            yield Finding(f"{path}.tenant", message, "remove the LocalQueue")
        if queue.cluster_queue not in settings.cluster_queues:
            message = f"ClusterQueue {queue.cluster_queue!r} is not declared"
            yield Finding(f"{path}.clusterQueue", message, _declare("kueue.clusterQueues", settings.cluster_queues))
        if (queue.tenant, queue.name) in seen:
            yield Finding(
                f"{path}.name", f"LocalQueue {queue.name!r} occurs twice in tenant {queue.tenant}", "remove it"
            )
        seen.add((queue.tenant, queue.name))


def _owners(stack: StackSettings, settings: KueueSettings) -> Iterator[Finding]:
    """Yield tenants whose quota both Kueue and Volcano limit: an admitted job then waits and uses up its quota."""
    for tenant in settings.tenants:
        owned = stack.active_tenants.get(tenant)
        for queue in owned.queues if owned else ():
            limits = [field for field in _SHARES if queue in stack.queues and getattr(stack.queues[queue], field)]
            if limits:
                yield Finding(
                    f"queues.{queue}.{limits[0]}",
                    f"tenant {tenant} has a LocalQueue, so Kueue owns its quota; Volcano's queue {queue!r} limits the "
                    f"same jobs ({', '.join(limits)}), which Kueue would admit and Volcano keep waiting",
                    f"remove {', '.join(limits)} of the queue, or the LocalQueues of tenant {tenant}",
                )


def _declare(section: str, known: object) -> str:
    names = ", ".join(sorted(known)) if isinstance(known, dict) else ""
    return f"declare it under {section}" + (f" or use one of {names}" if names else "")
