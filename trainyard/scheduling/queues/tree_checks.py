"""Check a queue tree: what the admission webhook rejects, and what it accepts and the scheduler mishandles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import Amounts, units
from trainyard.scheduling.queues.builtin_queues import reserved_findings, root_findings
from trainyard.scheduling.queues.capacity import capacity_of
from trainyard.scheduling.queues.effective_limits import flattened, limits
from trainyard.scheduling.queues.fairness_checks import sharing_findings
from trainyard.scheduling.queues.guarantees import guarantee_findings
from trainyard.scheduling.queues.paths import Paths, SettingsPaths
from trainyard.scheduling.queues.queue import KINDS, ROOT, Queue
from trainyard.scheduling.queues.rules import RULES, holding
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tenant_checks import Gangs, affinity_findings, tenant_findings, topology_findings
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.tree_shape import name_findings, shape_findings
from trainyard.scheduling.queues.units import compile_queues
from trainyard.scheduling.queues.webhook_checks import admission_findings
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.stack import StackSettings


def check_queues(
    settings: StackSettings,
    *,
    scheduling: Scheduling | None = None,
    gangs: Gangs | None = None,
    strict: Collection[str] = (),
) -> list[Finding]:
    """Check the queue tree of a stack.

    Parameters
    ----------
    settings
        The stack; its fabric determines the capacity.
    scheduling
        The scheduler; unset: the stack's version of Volcano with capacity and its tree.
    gangs
        Request of the smallest gang of each runtime, by runtime name.
    strict
        Names of the runtimes whose gangs have a hard topology.

    Returns
    -------
    list of Finding
        Errors and warnings (see `Finding.severity`), by rule and queue.
    """
    scheduling = scheduling or Scheduling(VolcanoSettings.of(settings).version)
    capacity, paths = capacity_of(settings), SettingsPaths()
    compiled = compile_queues(settings.queues, capacity, paths)
    tree = compiled.tree
    findings = check_tree(
        tree.queues,
        # Unsupported fields of root are reported as such, not by their effects.
        root=Queue(capability=tree.root.capability),
        capacity=capacity.total,
        scheduling=scheduling,
        node_groups=capacity.node_groups,
        paths=paths,
    )
    reserved = holding(reserved_findings(settings.queues, paths), scheduling)
    bounds = _limits(tree, capacity.total, scheduling) if gangs and not any(tree.cycles()) else {}
    tenants = list(tenant_findings(tree, settings.active_tenants, bounds, gangs or {}, paths))
    patient = [name for name, each in settings.priority_classes.items() if not each.preempts]
    tenants += topology_findings(tree, settings.active_tenants, patient, strict, scheduling)
    return [*compiled.findings, *reserved, *findings, *holding(tenants, scheduling)]


def check_tree(
    queues: Mapping[str, Queue],
    *,
    root: Queue | None = None,
    capacity: Mapping[str, str] | None = None,
    scheduling: Scheduling | None = None,
    node_groups: Iterable[str] | None = None,
    paths: Paths | None = None,
) -> list[Finding]:
    """Check a queue tree.

    Parameters
    ----------
    queues
        Queues by name; ``default`` only if it is declared, never ``root``.
    root
        ``root``, if it is declared.
    capacity
        Capacity of all nodes, Kubernetes quantity by resource; None if unknown.
    scheduling
        The scheduler; unset: Volcano 1.14.1 with capacity and its tree.
    node_groups
        Node groups of the nodes; None if unknown.
    paths
        Paths of the queues; unset: settings of a stack.

    Returns
    -------
    list of Finding
        Each names the queue, the resource, the numbers and the fix.
    """
    scheduling, paths = scheduling or Scheduling(), paths or SettingsPaths()
    tree = QueueTree(queues, root)
    findings = [*shape_findings(tree, paths), *name_findings(tree, paths)]
    findings += admission_findings(tree, paths, scheduling.version)
    alone = QueueTree({ROOT: tree.root})
    findings += [*name_findings(alone, paths), *admission_findings(alone, paths, scheduling.version)]
    findings += affinity_findings(tree, scheduling, node_groups, paths)
    findings += root_findings(tree, paths)
    if not any(finding.rule in ("queue-cycle", "queue-parent-self") for finding in findings):
        findings += _consequences(tree, None if capacity is None else units(capacity), scheduling, paths, findings)
    return holding(findings, scheduling)


def _consequences(
    tree: QueueTree,
    capacity: Mapping[str, int] | None,
    scheduling: Scheduling,
    paths: Paths,
    refused: Iterable[Finding],
) -> Iterator[Finding]:
    if capacity is not None:
        yield from _offered(tree, capacity, paths)
    read = tree
    if not scheduling.tree:
        yield from _ignored(tree, paths)
        read = flattened(tree)
    real = limits(read, capacity)
    rejected = {(finding.object, finding.rule) for finding in refused}
    yield from guarantee_findings(read, real, capacity, paths)
    for finding in sharing_findings(_used(tree, read), real, capacity, scheduling, paths):
        if finding.rule != "queue-deserved-overcommit" or (finding.object, "queue-deserved-sum") not in rejected:
            yield finding


def _used(tree: QueueTree, read: QueueTree) -> QueueTree:
    """Return the queues that jobs are meant for; without the tree, inner queues would count too."""
    if read is tree:
        return tree
    return flattened(QueueTree({name: tree.queues[name] for name in tree.leaves}, tree.root))


def _limits(tree: QueueTree, capacity: Mapping[str, str] | None, scheduling: Scheduling) -> dict[str, Amounts]:
    return limits(tree if scheduling.tree else flattened(tree), None if capacity is None else units(capacity))


def _offered(tree: QueueTree, capacity: Mapping[str, int], paths: Paths) -> Iterator[Finding]:
    for name in (ROOT, *tree.reachable):
        queue = tree.queues.get(name, tree.root)
        named = {resource for kind in KINDS for resource in queue.amounts(kind)}
        for resource in sorted(resource for resource in named - set(capacity) if "/" in resource):
            message = f"queue {name!r} sets {resource}, which no node of the fabric has"
            fix = f"use one of {', '.join(sorted(capacity))}"
            yield RULES.finding(paths.of(name), message, fix, "queue-resource-offered", object=name)


def _ignored(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    inner = [
        name
        for name in tree.reachable
        if tree.children(name) and any(tree.queues[name].quantities(kind) for kind in KINDS)
    ]
    if tree.root.quantities("capability"):
        inner.insert(0, ROOT)
    if inner:
        shown = ", ".join(inner if len(inner) <= 8 else [*inner[:7], f"{len(inner) - 7} more"])
        message = f"{shown} limit their child queues, but the scheduler ignores the tree: the limits are not enforced"
        fix = "turn on enableHierarchy of plug-in capacity, or set the amounts of the queues that jobs use"
        yield RULES.finding(paths.of(), message, fix, "queue-tree-ignored")
