"""Checks of why a tenant's jobs cannot run: queue states, node groups, gangs that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import Amounts, text, units
from trainyard.scheduling.queues.paths import Paths
from trainyard.scheduling.queues.queue import DEFAULT
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueAffinity, QueueState, TenantSettings

Gangs = Mapping[str, Mapping[str, str]]
"""Request of the smallest gang of each runtime: Kubernetes quantity by resource, by runtime name."""

_TENANTS = "trainyard:tenants"


def affinity_findings(
    tree: QueueTree, scheduling: Scheduling, node_groups: Iterable[str] | None, paths: Paths
) -> Iterator[Finding]:
    """Find affinities that are ignored, or that exclude all nodes.

    Parameters
    ----------
    tree
        The queues.
    scheduling
        The scheduler.
    node_groups
        Node groups of the nodes; None if unknown.
    paths
        Paths of the queues.
    """
    known = None if node_groups is None else sorted(node_groups)
    for name in sorted(tree.queues):
        affinity = tree.queues[name].affinity
        if affinity is None:
            continue
        path = paths.of(name, "affinity")
        if not scheduling.node_groups:
            message = f"queue {name!r} has an affinity, but plug-in nodegroup is off: the affinity is ignored"
            yield RULES.finding(
                path, message, "remove it, or turn the plug-in on", "queue-affinity-ignored", object=name
            )
        groups = _usable(affinity)
        if not groups:
            message = f"queue {name!r}: its affinity excludes every node group"
            fix = "name the groups to run in under nodeGroupAffinity"
            yield RULES.finding(path, message, fix, "queue-affinity-nowhere", object=name)
        elif known is not None and not groups & set(known):
            message = f"queue {name!r} runs in node group {' or '.join(sorted(groups))}, which no node has"
            fix = f"use one of {', '.join(known)}" if known else "label the nodes volcano.sh/nodegroup-name"
            yield RULES.finding(path, message, fix, "queue-affinity-groups", object=name)


def _usable(affinity: QueueAffinity) -> set[str]:
    """Return the groups that the plug-in allows a queue; a preferred one counts even if it is to be avoided."""
    wanted, avoided = affinity.node_group_affinity, affinity.node_group_anti_affinity
    return ({*wanted.required, *wanted.preferred} - set(avoided.required)) | set(avoided.preferred)


def tenant_findings(
    tree: QueueTree,
    tenants: Mapping[str, TenantSettings],
    bounds: Mapping[str, Amounts],
    gangs: Gangs,
    paths: Paths,
) -> Iterator[Finding]:
    """Find tenants whose jobs cannot run in their queues.

    Parameters
    ----------
    tree
        The queues.
    tenants
        Tenants by name.
    bounds
        Limit of each queue.
    gangs
        Request of the smallest gang of each runtime.
    paths
        Paths of the queues.
    """
    needs = {runtime: units(gang) for runtime, gang in gangs.items()}
    for tenant in sorted(tenants):
        settings, path = tenants[tenant], f"{_TENANTS}.{tenant}"
        first = settings.default_queue or settings.queues[0]
        for name in settings.queues:
            queue = tree.queues.get(name)
            if queue is None:
                continue
            if below := tree.children(name):
                yield RULES.finding(
                    f"{path}.queues",
                    f"tenant {tenant!r} uses queue {name!r}, which has child queues ({_some(below)}): "
                    "one gang there stops scheduling for every tenant",
                    f"use one of {_some(list(tree.leaves))}",
                    "queue-not-leaf",
                    object=name,
                )
            if queue.state is QueueState.RETIRED:
                message = f"tenant {tenant!r} uses queue {name!r}, which is retired: its jobs are rejected"
                fix = f"remove it from the tenant's queues, or open it ({paths.of(name, 'state')})"
                yield RULES.finding(f"{path}.queues", message, fix, "queue-retired-used", object=name)
            elif queue.state is QueueState.CLOSED and name == first:
                message = f"jobs of tenant {tenant!r} without a queue use {name!r}, which is closed: they are rejected"
                fix = "set defaultQueue to an open queue"
                yield RULES.finding(f"{path}.defaultQueue", message, fix, "queue-closed-used", object=name)
        yield from _gangs(tenant, settings, bounds, needs, paths)


def topology_findings(
    tree: QueueTree,
    tenants: Mapping[str, TenantSettings],
    patient: Collection[str],
    strict: Collection[str],
    scheduling: Scheduling,
) -> Iterator[Finding]:
    """Find tenants whose gangs must stay in one domain while reclaim may free nodes in several.

    Parameters
    ----------
    tree
        The queues.
    tenants
        Tenants by name.
    patient
        Names of the priority classes whose pods do not preempt.
    strict
        Names of the runtimes whose gangs have a hard topology.
    scheduling
        The scheduler.
    """
    if not (scheduling.reclaim and scheduling.topology):
        return
    lenders = {name for name in tree.leaves if tree.queues[name].reclaimable}
    for tenant in sorted(tenants):
        settings = tenants[tenant]
        owners = [name for name in settings.queues if name in tree.queues and tree.queues[name].deserved]
        owners = [name for name in owners if lenders - {name}]
        runtimes = sorted(name for name in strict if "*" in settings.runtimes or name in settings.runtimes)
        if owners and runtimes and not set(patient) & set(settings.priority_classes):
            yield RULES.finding(
                f"{_TENANTS}.{tenant}.priorityClasses",
                f"a gang of {_some(runtimes)} of tenant {tenant!r} must stay in one domain, but the nodes that it "
                f"reclaims for {_some(owners)} may be in several",
                "allow the tenant a priority class with preempts: false: such a gang waits for a whole domain",
                "queue-reclaim-topology",
                object=owners[0],
            )


def _gangs(
    tenant: str, settings: TenantSettings, bounds: Mapping[str, Amounts], needs: Mapping[str, Amounts], paths: Paths
) -> Iterator[Finding]:
    """Report runtimes that fit in none of a tenant's queues, one finding per queue and resource."""
    short: dict[tuple[str, str], list[str]] = {}
    queues = [name for name in settings.queues if name in bounds]
    for runtime in sorted(needs):
        if "*" not in settings.runtimes and runtime not in settings.runtimes:
            continue
        lacking = {name: _short(needs[runtime], bounds[name]) for name in queues}
        if queues and all(lacking.values()):
            for name, resource in lacking.items():
                short.setdefault((name, resource or ""), []).append(runtime)
    for (name, resource), runtimes in short.items():
        need = text(resource, max(needs[runtime][resource] for runtime in runtimes))
        have = text(resource, bounds[name].get(resource, 0))
        yield RULES.finding(
            paths.of(name, "capability", resource),
            f"the limit of queue {name!r} is {have} of {resource}, but a gang of {_some(runtimes)}, which tenant "
            f"{tenant!r} may use, requests {need}: it would never be scheduled",
            f"raise the capability to {need}, or remove the runtime from those of {tenant}",
            "queue-capability-gang",
            object=name,
        )


def _short(need: Amounts, bound: Amounts) -> str | None:
    """Return a resource whose request exceeds the queue's limit; the scheduler ignores limits of pods."""
    for resource, amount in sorted(need.items()):
        if resource != "pods" and resource in bound and amount > bound[resource]:
            return resource
    return None


def _some(names: list[str]) -> str:
    names = [name for name in names if name != DEFAULT]
    return ", ".join(names if len(names) <= 10 else [*names[:9], f"{len(names) - 9} more"])
