"""Rules about what queues get: capacity, reclaiming and borrowing, and the queues of tenants."""

from __future__ import annotations

from typing import Final

from trainyard.scheduling.queues.queue_rule import QueueRule
from trainyard.scheduling.queues.scheduling import SharePlugin

_TREE = frozenset({SharePlugin.TREE})
_CAPACITY = frozenset({SharePlugin.TREE, SharePlugin.CAPACITY})
_PROPORTION = frozenset({SharePlugin.PROPORTION})

_CAPACITY_RULES: Final = (
    QueueRule.warning(
        "queue-capability-zero",
        "A capability of cpu or memory is not 0",
        "Volcano reads 0 as no limit. For devices, 0 is a limit.",
    ),
    QueueRule.warning(
        "queue-deserved-fabric",
        "The shares of all queues together fit in the fabric",
        "When all queues use their shares, not every share can be reclaimed: later jobs wait.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-deserved-overcommit",
        "The shares below a queue fit in its limit",
        "As for the fabric, one level down: the webhook compares a parent with its children only, and not where the "
        "parent's field is unset.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-guarantee-ancestor",
        "The guarantees below a queue fit in its capability",
        "Nothing remains for the siblings of the guaranteed queue.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-guarantee-fabric",
        "The guarantees of all queues together fit in the fabric",
        "Nothing remains for queues without a guarantee, including default. Without the tree, the guarantees of inner "
        "queues count in addition to those of their child queues.",
    ),
    QueueRule.warning(
        "queue-guarantee-silent",
        "A guarantee is repeated by the queues above it",
        "The scheduler reserves it among the queue's own siblings only; queues one level up can use it.",
        plugins=_TREE,
    ),
    QueueRule(
        "queue-resource-name",
        "A resource name is supported by Volcano",
        "A name without a domain, such as gpu, is accepted and has no effect.",
    ),
    QueueRule.warning(
        "queue-resource-offered",
        "A resource exists on nodes of the fabric",
        "The name is usually misspelled: the real resource is not limited, or not shared.",
    ),
    QueueRule.warning(
        "queue-starved",
        "The guarantees of other queues leave resources for each queue",
        "Its jobs never run, without a message.",
    ),
)

_FAIRNESS: Final = (
    QueueRule.warning(
        "queue-deserved-absent",
        "A queue that jobs use has a share it can reclaim",
        "It borrows free resources and never reclaims.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-deserved-device",
        "A share includes the devices of its jobs",
        "One resource below its share is enough to reclaim others, so cpu alone determines how many devices the queue "
        "reclaims; jobs without any resource of deserved own nothing.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-deserved-ignored",
        "The plug-in supports deserved",
        "proportion uses weights and ignores deserved. With capacity too, the smaller limit applies.",
        plugins=_PROPORTION,
    ),
    QueueRule.warning(
        "queue-share-resources",
        "A share names one resource",
        "With several, a queue reclaims while one resource that its pods request is within its share, and loses pods "
        "while one is above it: unused cpu entitles it to devices above its share, and too much cpu costs it devices "
        "within its share.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-weight-ignored",
        "The plug-in supports weights",
        "capacity ignores them.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-plugins-both",
        "Only one of capacity and proportion is on",
        "With both, a queue gets the smaller of its share and its part by weight, in any order of the plug-ins.",
        plugins=_PROPORTION,
    ),
    QueueRule(
        "queue-reclaim-enqueue",
        "Action enqueue is off with a tree",
        "While the cluster is full, a gang with minResources (every Volcano Job, every gang of the trainer) stays "
        "Pending: its queue never reclaims its share.",
        plugins=_TREE,
    ),
    QueueRule.warning(
        "queue-reclaim-off",
        "Action reclaim is on where queues have shares",
        "Without it borrowed resources are never reclaimed.",
    ),
    QueueRule.warning(
        "queue-reclaim-topology",
        "A gang that requires one domain can wait for it",
        "Reclaim selects nodes in any domain and ignores the topology of the gang. Only pods whose PriorityClass has "
        "preempts: false reclaim nothing; they wait until a whole domain is free.",
        plugins=_CAPACITY,
    ),
    QueueRule.warning(
        "queue-reclaim-unreachable",
        "The share of a queue can be reclaimed",
        "Queues that are not reclaimable can borrow so much that the owner gets its share only when their jobs end.",
        plugins=_CAPACITY,
    ),
)

_TENANTS: Final = (
    QueueRule.warning(
        "queue-affinity-groups",
        "Node groups of an affinity exist",
        "The jobs of a queue whose node groups have no nodes never run.",
    ),
    QueueRule.warning(
        "queue-affinity-ignored",
        "Plug-in nodegroup is on where queues have an affinity",
        "Without it the affinity is ignored.",
    ),
    QueueRule(
        "queue-affinity-nowhere",
        "An affinity allows at least one node group",
        "Jobs run only in the named groups. To exclude groups, name the others.",
    ),
    QueueRule.warning(
        "queue-capability-gang",
        "A queue can hold a gang of each runtime that its tenants may use",
        "A gang above the limit of its queue is never scheduled.",
    ),
    QueueRule.warning(
        "queue-closed-guarantee",
        "A closed queue has no guarantee",
        "Its guarantee stays reserved and unused.",
    ),
    QueueRule.warning(
        "queue-closed-used",
        "A tenant's default queue is open",
        "Every job of the tenant without a queue is rejected.",
    ),
    QueueRule("queue-retired-used", "No tenant uses a retired queue", "Its jobs are rejected."),
    QueueRule(
        "queue-state-parent",
        "The child queues of a closed queue are closed",
        "Volcano closes them too, and ignores their own state.",
    ),
)

SHARE_RULES: Final = (*_CAPACITY_RULES, *_FAIRNESS, *_TENANTS)
"""Rules that compare the queues with the fabric, the scheduler or the tenants."""
