"""Registry of the queue tree rules, by subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.rule import RuleSet
from trainyard.queues.queue_rule import QueueRule
from trainyard.queues.scheduling import VOLCANO_VERSIONS, Plugin, Scheduling

__all__ = ["RULES", "holding"]

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_EVERY = VOLCANO_VERSIONS
_1_14 = ("1.14.1",)
_1_15 = ("1.15.1",)
_TREE = frozenset({Plugin.TREE})
_CAPACITY = frozenset({Plugin.TREE, Plugin.CAPACITY})
_FLAT = frozenset({Plugin.CAPACITY, Plugin.PROPORTION})
_PROPORTION = frozenset({Plugin.PROPORTION})


def _schema() -> Iterator[QueueRule]:
    rejected = "The API server rejects the queue."
    yield QueueRule("queue-amount-negative", _ERROR, "Amounts are not negative", rejected, _EVERY)
    yield QueueRule(
        "queue-amount-null",
        _WARNING,
        "An amount has a value",
        "The API server silently drops the line, and the resource is not limited.",
    )
    yield QueueRule(
        "queue-duplicate", _ERROR, "A queue is declared once", "The last declaration silently replaces the others."
    )
    yield QueueRule(
        "queue-field-unknown",
        _ERROR,
        "Fields are known to Volcano",
        "The API server drops the field with a warning that few clients show: its limit is not enforced.",
    )
    yield QueueRule("queue-name", _ERROR, "A name is a valid Kubernetes name", rejected, _EVERY)
    yield QueueRule(
        "queue-name-length",
        _ERROR,
        "A name has at most 63 characters",
        "The webhook accepts up to 253. PodGroups run in such a queue, but pods of Volcano Jobs cannot be created, "
        "because the name becomes their label value; only the log of the controller reports it.",
    )
    yield QueueRule(
        "queue-schema",
        _ERROR,
        "Values have the type and the bounds of the API",
        'The API server rejects the queue. The usual case is a fraction without quotes: write `cpu: "1.5"`.',
        _EVERY,
    )
    yield QueueRule(
        "queue-weight-zero",
        _WARNING,
        "A weight is at least 1",
        "Volcano replaces a weight of 0 by 1 on create; the queue is not disabled.",
    )


def _units() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-nodes-shape",
        _ERROR,
        "nodes is a number of nodes of one shape",
        "The capacity of a node is unknown: the fabric has several shapes, or the value is a percentage.",
    )
    yield QueueRule(
        "queue-percent-base",
        _ERROR,
        "A percentage has a base amount",
        "The parent has no such amount (below root: the fabric has no nodes with the resource).",
    )
    yield QueueRule(
        "queue-resource-ambiguous",
        _ERROR,
        "A short name matches one resource, which is set once",
        "The short name is ambiguous.",
    )
    yield QueueRule(
        "queue-share-rounded",
        _WARNING,
        "Percentages leave no remainder of devices",
        "Percentages are rounded down to whole devices. The remainder has no owner and can only be borrowed.",
    )


def _shape() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-cycle",
        _ERROR,
        "The tree has no cycle",
        "Volcano accepts a cycle that updates create. Its scheduler then crashes, again after each restart.",
    )
    yield QueueRule(
        "queue-depth",
        _ERROR,
        "A tree is at most five levels deep",
        "The webhook counts levels below root; --max-queue-depth sets another limit.",
        _1_15,
        _1_15,
    )
    yield QueueRule(
        "queue-name-reserved",
        _ERROR,
        "Only supported fields of root and default are set",
        "Volcano creates both, writes to both, and rejects their deletion. root supports only a capability; default "
        "stays below root and can be closed, not retired.",
    )
    yield QueueRule(
        "queue-not-leaf",
        _ERROR,
        "Jobs use leaf queues only",
        "One PodGroup in a queue with child queues, even a finished one, stops scheduling for every tenant. Without "
        "the tree, and under proportion, such a queue has no restriction.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-parent-default",
        _ERROR,
        "default has no child queues",
        "The first job without a queue would use a queue that is not a leaf, and stop all scheduling.",
        plugins=_TREE,
    )
    yield QueueRule("queue-parent-self", _ERROR, "A queue is not its own parent", "The webhook rejects it.", _EVERY)
    yield QueueRule(
        "queue-parent-unknown",
        _ERROR,
        "A parent exists",
        "The webhook rejects the queue; if its parent is deleted later, all scheduling stops.",
        _EVERY,
    )
    yield QueueRule(
        "queue-root-amounts",
        _WARNING,
        "deserved and guarantee of root are unset",
        "The scheduler writes them once and ignores both.",
    )
    yield QueueRule(
        "queue-root-capability",
        _WARNING,
        "The capability of a queue is at most that of root",
        "A capability of root limits only queues without their own capability, including default. A larger capability "
        "of a queue is accepted and takes precedence.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-root-guarantee",
        _ERROR,
        "The guarantees below root fit in the capability of root",
        "The scheduler writes the sum of these guarantees into root, and the webhook rejects each attempt; a guarantee "
        "above the inherited capability is not enforced.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-root-protected",
        _ERROR,
        "root is unchanged",
        "The webhook rejects every change of root's amounts unless --enable-root-queue-protection is off.",
        _1_15,
        _1_15,
    )
    yield QueueRule(
        "queue-tree-ignored",
        _WARNING,
        "The scheduler supports a tree",
        "Without the tree, and under proportion, the fields of inner queues have no effect.",
        plugins=_FLAT,
    )


def _admission() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-capability-parent",
        _ERROR,
        "A capability fits in that of the queue above",
        "1.14.1 compares with the parent and reads an unset resource as zero; 1.15.1 compares with the nearest queue "
        "above that sets it.",
        _EVERY,
    )
    yield QueueRule(
        "queue-deserved-capability",
        _ERROR,
        "deserved fits in the queue's own capability",
        "1.14.1 reads an unset resource of the capability as zero, 1.15.1 as unlimited.",
        _EVERY,
    )
    yield QueueRule(
        "queue-deserved-sum",
        _ERROR,
        "The shares of child queues fit in the parent's",
        "1.14.1 falls back to the parent's capability, and does not compare where both are unset; 1.15.1 reads an "
        "unset share of the parent as zero. Queues directly below root are not compared.",
        _EVERY,
    )
    yield QueueRule(
        "queue-guarantee-capability",
        _ERROR,
        "A guarantee fits in the queue's own capability",
        "As for deserved; 1.15.1 compares the guarantee with deserved only.",
        _1_14,
        _1_14,
    )
    yield QueueRule(
        "queue-guarantee-deserved",
        _ERROR,
        "A guarantee is part of the queue's share",
        "For each resource, deserved is at least the guarantee.",
        _EVERY,
    )
    yield QueueRule(
        "queue-guarantee-sum",
        _ERROR,
        "The guarantees of child queues fit in the parent's",
        "As for deserved.",
        _EVERY,
    )
    yield QueueRule(
        "queue-resource-fraction",
        _ERROR,
        "Devices and pods are integers",
        "The webhook rejects fractions of a device.",
        _EVERY,
    )


def _capacity() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-capability-zero",
        _WARNING,
        "A capability of cpu or memory is not 0",
        "Volcano reads 0 as no limit. For devices, 0 is a limit.",
    )
    yield QueueRule(
        "queue-deserved-fabric",
        _WARNING,
        "The shares of all queues together fit in the fabric",
        "When all queues use their shares, not every share can be reclaimed: later jobs wait.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-overcommit",
        _WARNING,
        "The shares below a queue fit in its limit",
        "As for the fabric, one level down: the webhook compares a parent with its children only, and not where the "
        "parent's field is unset.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-guarantee-ancestor",
        _ERROR,
        "The guarantees below a queue fit in its capability",
        "Nothing remains for the siblings of the guaranteed queue.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-guarantee-fabric",
        _ERROR,
        "The guarantees of all queues together fit in the fabric",
        "Nothing remains for queues without a guarantee, including default. Without the tree, the guarantees of inner "
        "queues count in addition to those of their child queues.",
    )
    yield QueueRule(
        "queue-guarantee-silent",
        _WARNING,
        "A guarantee is repeated by the queues above it",
        "The scheduler reserves it among the queue's own siblings only; queues one level up can use it.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-resource-name",
        _ERROR,
        "A resource name is supported by Volcano",
        "A name without a domain, such as gpu, is accepted and has no effect.",
    )
    yield QueueRule(
        "queue-resource-offered",
        _WARNING,
        "A resource exists on nodes of the fabric",
        "The name is usually misspelled: the real resource is not limited, or not shared.",
    )
    yield QueueRule(
        "queue-starved",
        _WARNING,
        "The guarantees of other queues leave resources for each queue",
        "Its jobs never run, without a message.",
    )


def _fairness() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-deserved-absent",
        _WARNING,
        "A queue that jobs use has a share it can reclaim",
        "It borrows free resources and never reclaims.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-device",
        _WARNING,
        "A share includes the devices of its jobs",
        "One resource below its share is enough to reclaim others, so cpu alone determines how many devices the queue "
        "reclaims; jobs without any resource of deserved own nothing.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-ignored",
        _WARNING,
        "The plug-in supports deserved",
        "proportion uses weights and ignores deserved. With capacity too, the smaller limit applies.",
        plugins=_PROPORTION,
    )
    yield QueueRule(
        "queue-share-resources",
        _WARNING,
        "A share names one resource",
        "With several, a queue reclaims while one resource that its pods request is within its share, and loses pods "
        "while one is above it: unused cpu entitles it to devices above its share, and too much cpu costs it devices "
        "within its share.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-weight-ignored",
        _WARNING,
        "The plug-in supports weights",
        "capacity ignores them.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-plugins-both",
        _WARNING,
        "Only one of capacity and proportion is on",
        "With both, a queue gets the smaller of its share and its part by weight, in any order of the plug-ins.",
        plugins=_PROPORTION,
    )
    yield QueueRule(
        "queue-reclaim-enqueue",
        _ERROR,
        "Action enqueue is off with a tree",
        "While the cluster is full, a gang with minResources (every Volcano Job, every gang of the trainer) stays "
        "Pending: its queue never reclaims its share.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-reclaim-off",
        _WARNING,
        "Action reclaim is on where queues have shares",
        "Without it borrowed resources are never reclaimed.",
    )
    yield QueueRule(
        "queue-reclaim-topology",
        _WARNING,
        "A gang that requires one domain can wait for it",
        "Reclaim selects nodes in any domain and ignores the topology of the gang. Only pods whose PriorityClass has "
        "preempts: false reclaim nothing; they wait until a whole domain is free.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-reclaim-unreachable",
        _WARNING,
        "The share of a queue can be reclaimed",
        "Queues that are not reclaimable can borrow so much that the owner gets its share only when their jobs end.",
        plugins=_CAPACITY,
    )


def _tenants() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-affinity-groups",
        _WARNING,
        "Node groups of an affinity exist",
        "The jobs of a queue whose node groups have no nodes never run.",
    )
    yield QueueRule(
        "queue-affinity-ignored",
        _WARNING,
        "Plug-in nodegroup is on where queues have an affinity",
        "Without it the affinity is ignored.",
    )
    yield QueueRule(
        "queue-affinity-nowhere",
        _ERROR,
        "An affinity allows at least one node group",
        "Jobs run only in the named groups. To exclude groups, name the others.",
    )
    yield QueueRule(
        "queue-capability-gang",
        _WARNING,
        "A queue can hold a gang of each runtime that its tenants may use",
        "A gang above the limit of its queue is never scheduled.",
    )
    yield QueueRule(
        "queue-closed-guarantee",
        _WARNING,
        "A closed queue has no guarantee",
        "Its guarantee stays reserved and unused.",
    )
    yield QueueRule(
        "queue-closed-used",
        _WARNING,
        "A tenant's default queue is open",
        "Every job of the tenant without a queue is rejected.",
    )
    yield QueueRule(
        "queue-retired-used",
        _ERROR,
        "No tenant uses a retired queue",
        "Its jobs are rejected.",
    )
    yield QueueRule(
        "queue-state-parent",
        _ERROR,
        "The child queues of a closed queue are closed",
        "Volcano closes them too, and ignores their own state.",
    )


RULES = RuleSet(
    rule for group in (_schema, _units, _shape, _admission, _capacity, _fairness, _tenants) for rule in group()
)
"""Every rule by its id."""


def holding(findings: Iterable[Finding], scheduling: Scheduling) -> list[Finding]:
    """Return the findings whose rules apply to a scheduler."""
    return [finding for finding in findings if finding.rule is None or RULES[finding.rule].holds(scheduling)]
