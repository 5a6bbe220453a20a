"""Rules of a fabric and its HyperNodes, and the effect of a violation on Volcano 1.14.1.

The effects were seen on the real scheduler; where it is the admission webhook that refuses, the effect says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.checks.finding import Severity
from trainyard.checks.rule import Rule, RuleSet

__all__ = ["RULES", "rules_table"]


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_STOPS = "No gang that asks for a topology is scheduled anywhere, on and off, until it is repaired"
_CRASH = "The scheduler crashes at the next gang that asks for a topology"
_REFUSED = "Refused by Volcano's webhook or schema"
_NEVER = "Gangs with a hard limit at that tier never use these nodes, without a word"

RULES = RuleSet(
    (
        Rule(
            "fabric-copies",
            _ERROR,
            "Copied domains count their nodes",
            "Nodes that are named would be in every copy at once",
        ),
        Rule("fabric-domain-duplicate", _ERROR, "A domain's name is used once", _STOPS),
        Rule("fabric-domain-empty", _ERROR, "A domain holds nodes", _REFUSED),
        Rule(
            "fabric-domain-name",
            _ERROR,
            "A domain's name fits a node label",
            "The API server refuses the labels of its nodes",
        ),
        Rule("fabric-domain-shape", _ERROR, "A domain has nodes, or domains below it", "It is not known which to use"),
        Rule(
            "fabric-domain-size",
            _ERROR,
            "A domain has at most 10,000 members",
            "The HyperNode would be larger than the API server stores",
        ),
        Rule("fabric-mixed-depth", _ERROR, "Every node is the same number of levels below the top", _NEVER),
        Rule(
            "fabric-node-duplicate",
            _ERROR,
            "A node is in one domain of a tier",
            "The node serves both domains, and a gang inside one of them shares it with a gang inside the other",
        ),
        Rule(
            "fabric-node-label",
            _ERROR,
            "A shape's labels do not contradict the fabric",
            "The node would say that it is somewhere else",
        ),
        Rule(
            "fabric-node-name",
            _ERROR,
            "A node's name fits its host name label",
            "The API server refuses the node's labels",
        ),
        Rule(
            "fabric-shape-node",
            _ERROR,
            "shapeByNode names nodes of its own domain",
            "A node has another shape than the settings mean",
        ),
        Rule(
            "fabric-shape-unknown",
            _ERROR,
            "A shape is declared under shapes",
            "The nodes of the domain have no known capacity",
        ),
        Rule("fabric-shape-unused", _WARNING, "A declared shape is used", "It counts for nothing"),
        Rule(
            "fabric-size",
            _ERROR,
            "A fabric has at most 200,000 nodes and 50,000 domains",
            "No cluster holds it; a number was mistyped",
        ),
        Rule(
            "fabric-tier-names",
            _ERROR,
            "Each tier has one name of its own",
            "A gang that names the tier is limited to either of two tiers, by chance",
        ),
        Rule(
            "hypernode-cycle", _ERROR, "No HyperNode is above itself", f"{_STOPS}; the repair can crash the scheduler"
        ),
        Rule(
            "hypernode-discovered",
            _WARNING,
            "HyperNodes that Volcano discovers are not written by hand",
            "Volcano's controller changes and deletes HyperNodes that carry its source label",
        ),
        Rule(
            "hypernode-label-match-empty",
            _WARNING,
            "A labelMatch has a label",
            "An empty one matches no node at all, unlike elsewhere in Kubernetes",
        ),
        Rule(
            "hypernode-member-kind",
            _WARNING,
            "A HyperNode holds nodes or HyperNodes, not both",
            "Its nodes are in no domain of the tiers between",
        ),
        Rule(
            "hypernode-member-missing",
            _ERROR,
            "A HyperNode that is listed as a member exists",
            f"Its nodes are missing above. If it exists in the cluster and is deleted now: {_CRASH.lower()}",
        ),
        Rule(
            "hypernode-member-repeated", _WARNING, "A member is listed once", "Nothing; a sign that a name is mistyped"
        ),
        Rule("hypernode-members", _ERROR, "A HyperNode has members", _REFUSED),
        Rule("hypernode-mixed-depth", _ERROR, "Every node is in a HyperNode of every tier", _NEVER),
        Rule(
            "hypernode-name-duplicate",
            _ERROR,
            "A HyperNode is written once",
            "The one that is applied last replaces the others",
        ),
        Rule("hypernode-no-parent", _ERROR, "A HyperNode below the top tier is in one above it", _NEVER),
        Rule("hypernode-node-missing", _WARNING, "A node that is listed exists", "It is counted and holds no pod"),
        Rule(
            "hypernode-node-orphan",
            _WARNING,
            "Every node with accelerators is in a HyperNode",
            "Gangs with a hard limit never use it, without a word",
        ),
        Rule(
            "hypernode-overlap",
            _ERROR,
            "A node is in one HyperNode of a tier",
            "The node serves both, and a gang inside one of them shares it with a gang inside the other",
        ),
        Rule("hypernode-regex-invalid", _ERROR, "A regular expression is one that Go compiles", _REFUSED),
        Rule(
            "hypernode-regex-unanchored",
            _WARNING,
            "A regular expression is anchored at both ends",
            "Every node whose name contains a match is a member: `node-1` takes node-10 as well",
        ),
        Rule(
            "hypernode-selector-unchecked",
            _WARNING,
            "What a selector matches can be told",
            "Overlaps and nodes left out may stay unseen by this check",
        ),
        Rule(
            "hypernode-selector",
            _ERROR,
            "A member has one of exactMatch, regexMatch and labelMatch",
            _REFUSED,
        ),
        Rule(
            "hypernode-selector-ignored",
            _ERROR,
            "Member HyperNodes are listed by exactMatch",
            "Other selectors are ignored: the HyperNode has no members, and a repair can crash the scheduler",
        ),
        Rule("hypernode-self", _ERROR, "A HyperNode does not list itself", _STOPS),
        Rule("hypernode-shape", _ERROR, "A manifest is readable", _REFUSED),
        Rule(
            "hypernode-tier-gap",
            _WARNING,
            "Tiers are numbered 1, 2, 3, … without gaps",
            "A gang that asks for the missing tier gets the next lower one; another can never be placed",
        ),
        Rule(
            "hypernode-tier-name",
            _ERROR,
            "A tier name belongs to one tier",
            "Which tier it means changes from one scheduling session to the next",
        ),
        Rule(
            "hypernode-tier-name-mixed",
            _WARNING,
            "The HyperNodes of a tier have one tier name",
            "A gang that names the tier finds the whole tier, a reader does not",
        ),
        Rule(
            "hypernode-tier-order",
            _ERROR,
            "A HyperNode's tier is above its members'",
            "A hard limit at the lower tier spreads over all of the upper domain",
        ),
        Rule(
            "hypernode-tier-zero",
            _WARNING,
            "Tiers start at 1",
            "Accepted, but a gang that asks for tier 0 is never placed where there are no HyperNodes of it",
        ),
        Rule(
            "hypernode-two-parents", _ERROR, "A HyperNode is in one HyperNode above", f"{_STOPS}; the repair can crash"
        ),
    )
)
"""Every rule by its id."""


def rules_table() -> str:
    """Return the rules as a Markdown table, for the documentation."""

    def lines() -> Iterator[str]:
        yield "| rule | severity | asks for | otherwise, on Volcano 1.14.1 |"
        yield "|---|---|---|---|"
        for rule in sorted(RULES.values(), key=lambda each: each.id):
            yield f"| `{rule.id}` | {rule.severity.value} | {rule.title} | {rule.effect} |"

    return "\n".join(lines())
