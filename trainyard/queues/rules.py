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
    refused = "The API server refuses the queue."
    yield QueueRule("queue-amount-negative", _ERROR, "Amounts are not negative", refused, _EVERY)
    yield QueueRule(
        "queue-amount-null",
        _WARNING,
        "An amount has a value",
        "The API server drops the line without a word: what it was to limit is not limited.",
    )
    yield QueueRule("queue-duplicate", _ERROR, "A queue is described once", "The last description wins, silently.")
    yield QueueRule(
        "queue-field-unknown",
        _ERROR,
        "Fields are spelt as Volcano spells them",
        "The field is dropped with a warning that few clients show: the limit it was to set does not exist.",
    )
    yield QueueRule("queue-name", _ERROR, "A name is a Kubernetes name", refused, _EVERY)
    yield QueueRule(
        "queue-name-length",
        _WARNING,
        "A name has at most 63 characters",
        "The queue works for PodGroups, but no pod of a Volcano Job can be made in it: its name becomes a label value.",
    )
    yield QueueRule(
        "queue-schema",
        _ERROR,
        "Values have the type and the bounds that the API asks for",
        'The API server refuses the queue. The usual case is a fraction without quotes: write `cpu: "1.5"`.',
        _EVERY,
    )
    yield QueueRule(
        "queue-weight-zero",
        _WARNING,
        "A weight is at least 1",
        "A weight of 0 is replaced by 1 when the queue is made; the queue is not switched off.",
    )


def _units() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-nodes-shape",
        _ERROR,
        "nodes is a number of nodes that are all alike",
        "What a node comes to is not known: the fabric has several shapes, or a percentage was written.",
    )
    yield QueueRule(
        "queue-percent-base",
        _ERROR,
        "A percentage has something to be a part of",
        "The queue above names no such amount (below root: the fabric has no nodes, or none that offers it).",
    )
    yield QueueRule(
        "queue-resource-ambiguous",
        _ERROR,
        "A short name means one resource, which is named once",
        "It is not known which device is meant.",
    )
    yield QueueRule(
        "queue-share-rounded",
        _WARNING,
        "Percentages leave no device over",
        "Percentages are rounded down to whole devices. The remainder has no owner and can only be borrowed.",
    )


def _shape() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-cycle",
        _ERROR,
        "The tree has no cycle",
        "Volcano accepts a cycle that is made by updates. Its scheduler then dies of it, again after each restart.",
    )
    yield QueueRule(
        "queue-depth",
        _ERROR,
        "A tree is at most five levels deep",
        "The webhook counts levels below root, root left out; another limit can be set with --max-queue-depth.",
        _1_15,
        _1_15,
    )
    yield QueueRule(
        "queue-name-reserved",
        _ERROR,
        "root and default keep what Volcano decides about them",
        "Volcano creates both, writes to both, and rejects their deletion. Of root only a capability can be set; "
        "default stays below root and can be closed, not retired.",
    )
    yield QueueRule(
        "queue-not-leaf",
        _ERROR,
        "Jobs use leaf queues only",
        "One PodGroup in a queue with queues below it, even a finished one, stops scheduling for every tenant. Without "
        "the tree, and under proportion, such a queue is like any other.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-parent-default",
        _ERROR,
        "default has no queues below it",
        "The first job that names no queue would land in a queue that is no leaf, and stop all scheduling.",
        plugins=_TREE,
    )
    yield QueueRule("queue-parent-self", _ERROR, "A queue is not its own parent", "The webhook refuses it.", _EVERY)
    yield QueueRule(
        "queue-parent-unknown",
        _ERROR,
        "A parent is declared",
        "The webhook refuses the queue; where its parent goes later, nothing is scheduled for anybody.",
        _EVERY,
    )
    yield QueueRule(
        "queue-root-amounts",
        _WARNING,
        "deserved and guarantee of root are left to Volcano",
        "The scheduler writes them once and never again, and goes by neither.",
    )
    yield QueueRule(
        "queue-root-capability",
        _WARNING,
        "A queue below root has no larger capability than root",
        "A capability of root bounds each queue that names none itself, default too. The larger one of a queue counts, "
        "and it is accepted.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-root-guarantee",
        _ERROR,
        "What is guaranteed below root fits in the capability of root",
        "The scheduler writes the sum of these guarantees into root, and the webhook refuses that again and again; a "
        "guarantee above what its queue inherits does not hold.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-root-protected",
        _ERROR,
        "root is left as it is",
        "The webhook refuses every change of root's amounts unless --enable-root-queue-protection is off.",
        _1_15,
        _1_15,
    )
    yield QueueRule(
        "queue-tree-ignored",
        _WARNING,
        "A tree is read by the scheduler",
        "Without the tree, and under proportion, what inner queues say limits nothing.",
        plugins=_FLAT,
    )


def _admission() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-capability-parent",
        _ERROR,
        "A capability fits in the one of the queue above",
        "1.14.1 compares with the parent and reads a resource that it does not name as none; 1.15.1 compares with the "
        "nearest queue above that sets it.",
        _EVERY,
    )
    yield QueueRule(
        "queue-deserved-capability",
        _ERROR,
        "deserved fits in the queue's own capability",
        "1.14.1 reads a resource that the capability does not name as none, 1.15.1 as unlimited.",
        _EVERY,
    )
    yield QueueRule(
        "queue-deserved-sum",
        _ERROR,
        "The shares of the queues below fit in the parent's",
        "1.14.1 falls back to the parent's capability, and compares nothing where it has neither; 1.15.1 reads a share "
        "that the parent does not name as none. Queues directly below root are compared with nothing.",
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
        "Each resource of the guarantee needs as much of deserved.",
        _EVERY,
    )
    yield QueueRule(
        "queue-guarantee-sum",
        _ERROR,
        "The guarantees of the queues below fit in the parent's",
        "As for deserved.",
        _EVERY,
    )
    yield QueueRule(
        "queue-resource-fraction",
        _ERROR,
        "Devices and pods are whole",
        "The webhook refuses half a device.",
        _EVERY,
    )


def _supply() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-capability-zero",
        _WARNING,
        "A capability of 0 cpu or memory is not written",
        "It is read as no limit. Zero devices are really none.",
    )
    yield QueueRule(
        "queue-deserved-fabric",
        _WARNING,
        "The shares of all queues together fit in the fabric",
        "When all queues ask, not every share can be reclaimed: later jobs wait.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-overcommit",
        _WARNING,
        "The shares below a queue fit in what it can ever have",
        "As for the fabric, one level down: webhooks compare a parent with its children only, and not at all where it "
        "says nothing.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-guarantee-ancestor",
        _ERROR,
        "What is guaranteed below a queue fits in its capability",
        "The queues beside the guaranteed one are left nothing.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-guarantee-fabric",
        _ERROR,
        "The guarantees of all queues together fit in the fabric",
        "Queues without a guarantee, default among them, are left nothing. Without the tree the guarantees "
        "of inner queues count beside those of the queues below them.",
    )
    yield QueueRule(
        "queue-guarantee-silent",
        _WARNING,
        "A guarantee is repeated by the queues above it",
        "The scheduler reserves it among the queue's own siblings only; queues one level up can take it.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-resource-name",
        _ERROR,
        "A resource name is one that Volcano counts",
        "A name without a domain, such as gpu, is accepted and limits nothing.",
    )
    yield QueueRule(
        "queue-resource-offered",
        _WARNING,
        "A resource is offered by the nodes of the fabric",
        "It is usually a misspelt name: the real resource is not limited, or not shared.",
    )
    yield QueueRule(
        "queue-starved",
        _WARNING,
        "A queue is left something by the guarantees of others",
        "Its jobs never run, and nothing says why.",
    )


def _sharing() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-deserved-absent",
        _WARNING,
        "A queue that jobs use has a share it can reclaim",
        "It borrows what others leave and never takes anything back.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-device",
        _WARNING,
        "A share names the devices it is meant for",
        "One resource below its share is enough to take back others, so cpu alone decides how many devices the queue "
        "takes back; jobs that ask for nothing that deserved names own nothing.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-deserved-ignored",
        _WARNING,
        "Shares are written in what the plug-in reads",
        "proportion shares by weight and ignores deserved. Beside capacity both limits hold, the smaller one wins.",
        plugins=_PROPORTION,
    )
    yield QueueRule(
        "queue-weight-ignored",
        _WARNING,
        "Weights are written where they are read",
        "capacity ignores them.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-plugins-both",
        _WARNING,
        "One plug-in shares out the cluster",
        "With both on, a queue gets the smaller of what its share and its weight give it, whatever their order.",
        plugins=_PROPORTION,
    )
    yield QueueRule(
        "queue-reclaim-enqueue",
        _ERROR,
        "A tree goes without action enqueue",
        "While the cluster is full, a gang with minResources (every Volcano Job, every gang of the trainer) stays "
        "Pending: its queue never gets its share back.",
        plugins=_TREE,
    )
    yield QueueRule(
        "queue-reclaim-off",
        _WARNING,
        "Action reclaim is on where queues have shares",
        "Without it nothing that was borrowed is ever taken back.",
    )
    yield QueueRule(
        "queue-reclaim-topology",
        _WARNING,
        "A gang that must stay in one domain can choose to wait for it",
        "Reclaim takes nodes wherever they are, whatever topology a gang asks for. Only pods whose priority class has "
        "preempts: false take nothing back; they wait until a whole domain is free.",
        plugins=_CAPACITY,
    )
    yield QueueRule(
        "queue-reclaim-unreachable",
        _WARNING,
        "What a queue deserves can be taken back",
        "Queues that are not reclaimable can borrow so much that the owner does not get its share until they end.",
        plugins=_CAPACITY,
    )


def _use() -> Iterator[QueueRule]:
    yield QueueRule(
        "queue-affinity-groups",
        _WARNING,
        "Node groups of an affinity exist",
        "A queue whose groups no node carries never runs anything.",
    )
    yield QueueRule(
        "queue-affinity-ignored",
        _WARNING,
        "Plug-in nodegroup is on where queues have an affinity",
        "Without it the affinity is not read.",
    )
    yield QueueRule(
        "queue-affinity-nowhere",
        _ERROR,
        "An affinity leaves a node group to run in",
        "A queue runs only in groups that it names. To keep away from some, name the others.",
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
        "A queue that takes no jobs guarantees nothing",
        "Its guarantee is withheld from all queues, unused.",
    )
    yield QueueRule(
        "queue-closed-used",
        _WARNING,
        "The queue of jobs that name none takes jobs",
        "Every job of the tenant that names no queue is refused.",
    )
    yield QueueRule(
        "queue-retired-used",
        _ERROR,
        "No tenant uses a retired queue",
        "Its jobs are refused.",
    )
    yield QueueRule(
        "queue-state-parent",
        _ERROR,
        "Queues below one that takes no jobs take none",
        "Volcano closes them with it, whatever their own entry says.",
    )


RULES = RuleSet(rule for group in (_schema, _units, _shape, _admission, _supply, _sharing, _use) for rule in group())
"""Every rule by its id."""


def holding(findings: Iterable[Finding], scheduling: Scheduling) -> list[Finding]:
    """Return the findings whose rules apply to a scheduler."""
    return [finding for finding in findings if finding.rule is None or RULES[finding.rule].holds(scheduling)]
