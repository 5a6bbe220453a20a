"""Rules about the declaration of a queue tree: fields, units, shape, and the comparisons of Volcano's webhook."""

from __future__ import annotations

from typing import Final

from trainyard.scheduling.queues.queue_rule import QueueRule
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, SharePlugin

_EVERY = VOLCANO_VERSIONS
_1_14 = ("1.14.1",)
_1_15 = ("1.15.1",)
_TREE = frozenset({SharePlugin.TREE})
_FLAT = frozenset({SharePlugin.CAPACITY, SharePlugin.PROPORTION})
_REJECTED = "The API server rejects the queue."

_SCHEMA: Final = (
    QueueRule("queue-amount-negative", "Amounts are not negative", _REJECTED, _EVERY),
    QueueRule.warning(
        "queue-amount-null",
        "An amount has a value",
        "The API server silently drops the line, and the resource is not limited.",
    ),
    QueueRule("queue-duplicate", "A queue is declared once", "The last declaration silently replaces the others."),
    QueueRule(
        "queue-field-unknown",
        "Fields are known to Volcano",
        "The API server drops the field with a warning that few clients show: its limit is not enforced.",
    ),
    QueueRule.warning(
        "queue-hierarchy-annotation",
        "The tree is in spec.parent, not in annotations",
        "volcano.sh/hierarchy and volcano.sh/hierarchy-weights are read by plug-in drf with enableHierarchy alone: for "
        "the others every such queue is one below root, with the weight of its spec.",
    ),
    QueueRule("queue-name", "A name is a valid Kubernetes name", _REJECTED, _EVERY),
    QueueRule(
        "queue-name-length",
        "A name has at most 63 characters",
        "The webhook accepts up to 253. PodGroups run in such a queue, but pods of Volcano Jobs cannot be created, "
        "because the name becomes their label value; only the log of the controller reports it.",
    ),
    QueueRule(
        "queue-schema",
        "Values have the type and the bounds of the API",
        'The API server rejects the queue. The usual case is a fraction without quotes: write `cpu: "1.5"`.',
        _EVERY,
    ),
    QueueRule.warning(
        "queue-weight-zero",
        "A weight is at least 1",
        "Volcano replaces a weight of 0 by 1 on create; the queue is not disabled.",
    ),
)

_UNITS: Final = (
    QueueRule(
        "queue-nodes-shape",
        "nodes is a number of nodes of one shape",
        "The capacity of a node is unknown: the fabric has several shapes, or the value is a percentage.",
    ),
    QueueRule(
        "queue-percent-base",
        "A percentage has a base amount",
        "The parent has no such amount (below root: the fabric has no nodes with the resource).",
    ),
    QueueRule(
        "queue-resource-ambiguous",
        "A short name matches one resource, which is set once",
        "The short name is ambiguous.",
    ),
    QueueRule.warning(
        "queue-share-rounded",
        "Percentages leave no remainder of devices",
        "Percentages are rounded down to whole devices. The remainder has no owner and can only be borrowed.",
    ),
)

_SHAPE: Final = (
    QueueRule(
        "queue-cycle",
        "The tree has no cycle",
        "Volcano accepts a cycle that updates create. Its scheduler then crashes, again after each restart.",
    ),
    QueueRule(
        "queue-depth",
        "A tree is at most five levels deep",
        "The webhook counts levels below root; --max-queue-depth sets another limit.",
        _1_15,
        _1_15,
    ),
    QueueRule(
        "queue-name-reserved",
        "Only supported fields of root and default are set",
        "Volcano creates both, writes to both, and rejects their deletion. root supports only a capability; default "
        "stays below root and can be closed, not retired.",
    ),
    QueueRule(
        "queue-not-leaf",
        "Jobs use leaf queues only",
        "One PodGroup in a queue with child queues, even a finished one, stops scheduling for every tenant. Without "
        "the tree, and under proportion, such a queue has no restriction.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-parent-default",
        "default has no child queues",
        "The first job without a queue would use a queue that is not a leaf, and stop all scheduling.",
        plugins=_TREE,
    ),
    QueueRule("queue-parent-self", "A queue is not its own parent", "The webhook rejects it.", _EVERY),
    QueueRule(
        "queue-parent-unknown",
        "A parent exists",
        "The webhook rejects the queue; if its parent is deleted later, all scheduling stops.",
        _EVERY,
    ),
    QueueRule.warning(
        "queue-root-amounts",
        "deserved and guarantee of root are unset",
        "The scheduler writes them once and ignores both.",
    ),
    QueueRule.warning(
        "queue-root-capability",
        "The capability of a queue is at most that of root",
        "A capability of root limits only queues without their own capability, including default. A larger capability "
        "of a queue is accepted and takes precedence.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-root-guarantee",
        "The guarantees below root fit in the capability of root",
        "The scheduler writes the sum of these guarantees into root, and the webhook rejects each attempt; a guarantee "
        "above the inherited capability is not enforced.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-root-protected",
        "root is unchanged",
        "The webhook rejects every change of root's amounts unless --enable-root-queue-protection is off.",
        _1_15,
        _1_15,
    ),
    QueueRule.warning(
        "queue-tree-ignored",
        "The scheduler supports a tree",
        "Without the tree, and under proportion, the fields of inner queues have no effect.",
        plugins=_FLAT,
    ),
)

_ADMISSION: Final = (
    QueueRule(
        "queue-capability-parent",
        "A capability fits in that of the queue above",
        "1.14.1 compares with the parent and reads an unset resource as zero; 1.15.1 compares with the nearest queue "
        "above that sets it.",
        _EVERY,
    ),
    QueueRule(
        "queue-deserved-capability",
        "deserved fits in the queue's own capability",
        "1.14.1 reads an unset resource of the capability as zero, 1.15.1 as unlimited.",
        _EVERY,
    ),
    QueueRule(
        "queue-deserved-sum",
        "The shares of child queues fit in the parent's",
        "1.14.1 falls back to the parent's capability, and does not compare where both are unset; 1.15.1 reads an "
        "unset share of the parent as zero. Queues directly below root are not compared.",
        _EVERY,
    ),
    QueueRule(
        "queue-guarantee-capability",
        "A guarantee fits in the queue's own capability",
        "As for deserved; 1.15.1 compares the guarantee with deserved only.",
        _1_14,
        _1_14,
    ),
    QueueRule(
        "queue-guarantee-deserved",
        "A guarantee is part of the queue's share",
        "For each resource, deserved is at least the guarantee.",
        _EVERY,
    ),
    QueueRule(
        "queue-guarantee-sum",
        "The guarantees of child queues fit in the parent's",
        "As for deserved.",
        _EVERY,
    ),
    QueueRule(
        "queue-resource-fraction",
        "Devices and pods are integers",
        "The webhook rejects fractions of a device.",
        _EVERY,
    ),
)

TREE_RULES: Final = (*_SCHEMA, *_UNITS, *_SHAPE, *_ADMISSION)
"""Rules that need no fabric and no tenants."""
