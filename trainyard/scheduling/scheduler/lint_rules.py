"""Rules of the scheduler lint, by id."""

from __future__ import annotations

from trainyard.checks.rule import Rule, RuleSet

RULES = RuleSet(
    (
        Rule("scheduler-action", "Actions are known and given as one string", "The whole configuration is dropped"),
        Rule("scheduler-argument", "An argument is supported by its plug-in or action", "It is ignored"),
        Rule(
            "scheduler-argument-fatal",
            "Arguments that can crash the scheduler have the right type",
            "The scheduler exits",
        ),
        Rule("scheduler-argument-type", "An argument has the type that its plug-in reads", "The default is used"),
        Rule("scheduler-conflict", "Plug-ins do not contradict each other", ""),
        Rule("scheduler-duplicate", "A plug-in is configured once", "The first one counts"),
        Rule(
            "scheduler-enqueue",
            "Action enqueue is off with a queue tree",
            "Shares are never reclaimed while the cluster is full",
        ),
        Rule("scheduler-gang", "Plug-in gang is on", "Gangs are broken up"),
        Rule("scheduler-key", "Keys have Volcano's spelling", "They are ignored"),
        Rule("scheduler-plugin", "A plug-in exists", "It is skipped"),
        Rule("scheduler-structure", "The configuration is valid", "The whole configuration is dropped"),
        Rule("scheduler-no-effect", "Options have an effect", "They are ignored"),
        Rule("scheduler-switch-off", "The main switch of a plug-in is on", "The plug-in has no effect"),
        Rule(
            "scheduler-tree",
            "The scheduler reads the queue tree if queues have parents",
            "Limits of parents are not enforced",
        ),
        Rule("scheduler-switch-type", "A switch is true or false", "The whole configuration is dropped"),
        Rule.warning(
            "scheduler-affinity",
            "The affinity of queues holds below them, and for all nodes",
            "Jobs use nodes of other groups",
        ),
        Rule("scheduler-allocate", "Action allocate is on", "Only pods without requests are scheduled"),
        Rule(
            "scheduler-conformance",
            "Plug-in conformance is on where pods are evicted",
            "Critical pods are evicted",
        ),
        Rule.warning(
            "scheduler-extender",
            "Verdicts of an extender hold while it does not answer",
            "Its filters and limits are skipped meanwhile",
        ),
        Rule(
            "scheduler-limits",
            "Plug-in capacity or proportion is on",
            "Limits and shares of queues are not enforced",
        ),
        Rule(
            "scheduler-predicates",
            "Plug-in predicates is on, with all its filters",
            "Pods run on nodes that do not allow them",
        ),
        Rule.warning(
            "scheduler-predicate-cache",
            "Plug-in predicates caches no verdicts",
            "Jobs of one name share verdicts about nodes",
        ),
        Rule(
            "scheduler-preempt",
            "Only priority and conformance choose victims of preemption",
            "Jobs preempt others of the same priority",
        ),
        Rule("scheduler-priority", "Plug-in priority is on", "PriorityClasses have no effect"),
        Rule(
            "scheduler-reclaim",
            "Only capacity and conformance choose victims of reclaim",
            "Queues within their share lose pods",
        ),
        Rule.warning(
            "scheduler-reclaim-off",
            "Action reclaim is on",
            "Borrowed resources are not returned before the jobs end",
        ),
        Rule.warning(
            "scheduler-shuffle",
            "Action shuffle is off",
            "Pods are evicted regardless of shares, gangs and priorities",
        ),
        Rule(
            "scheduler-starving",
            "Every job may evict others for all its pods",
            "Pods above minMember reclaim nothing",
        ),
    )
)
"""Every rule by its id."""
