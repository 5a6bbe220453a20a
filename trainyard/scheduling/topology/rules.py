"""Rules of a fabric and its HyperNodes, and the effect of a violation on Volcano 1.14.1.

The effects were observed on the real scheduler, or are rejections of the admission webhook.
"""

from __future__ import annotations

from trainyard.checks.rule import Rule, RuleSet

_STOPS = "Intermittently no gang with a topology is scheduled anywhere, until the tree is repaired"
_CRASH = "The scheduler crashes at the next gang with a topology"
_REJECTED = "Rejected by Volcano's webhook or schema"
_NEVER = "Gangs with a hard limit at that tier silently never use these nodes"

RULES = RuleSet(
    (
        Rule(
            "fabric-copies",
            "Copied domains have a number of nodes",
            "Named or selected nodes would be in every copy",
        ),
        Rule("fabric-domain-duplicate", "A domain's name is used once", _STOPS),
        Rule("fabric-domain-empty", "A domain contains nodes", _REJECTED),
        Rule(
            "fabric-domain-name",
            "A domain's name is a valid label value",
            "The API server rejects the labels of its nodes",
        ),
        Rule("fabric-domain-shape", "A domain has either nodes or domains", "The declaration is ambiguous"),
        Rule(
            "fabric-domain-size",
            "A domain has at most 10,000 members",
            "The HyperNode would exceed the size limit of the API server",
        ),
        Rule("fabric-mixed-depth", "Every node is the same number of levels below the top", _NEVER),
        Rule(
            "fabric-node-duplicate",
            "A node is in one domain of a tier",
            "The node serves both domains, and a gang inside one of them shares it with a gang inside the other",
        ),
        Rule(
            "fabric-node-label",
            "Labels of a shape or of a selector do not contradict the fabric",
            "The labels of the node would name another domain",
        ),
        Rule("fabric-node-name", "A node's name is a valid label value", "The API server rejects the node's labels"),
        Rule("fabric-selector-empty", "A selector has a label", "It matches no node, unlike elsewhere in Kubernetes"),
        Rule(
            "fabric-selector-overlap",
            "No node matches the selectors of two domains",
            "The node serves both domains, and a gang inside one of them shares it with a gang inside the other",
        ),
        Rule.warning(
            "fabric-selector-unproved",
            "The settings prove that no node is in two domains",
            "A node with the labels of both domains serves both; preview and up compare with the cluster's nodes",
        ),
        Rule(
            "fabric-shape-node",
            "shapeByNode names nodes of its own domain",
            "The node does not have the intended shape",
        ),
        Rule("fabric-shape-unknown", "A shape is declared under shapes", "The capacity of the nodes is unknown"),
        Rule.warning("fabric-shape-unused", "A declared shape is used", "It has no effect"),
        Rule(
            "fabric-size",
            "A fabric has at most 200,000 nodes and 50,000 domains",
            "No cluster has this size; a number is probably mistyped",
        ),
        Rule(
            "fabric-tier-names",
            "Each tier has a unique name",
            "A gang that names the tier is limited to one of two tiers at random",
        ),
        Rule("hypernode-cycle", "No HyperNode is its own ancestor", f"{_STOPS}; the repair can crash the scheduler"),
        Rule.warning(
            "hypernode-discovered",
            "HyperNodes do not have the source label of Volcano's discovery",
            "Volcano's controller changes and deletes HyperNodes with this label",
        ),
        Rule.warning(
            "hypernode-label-match-empty",
            "A labelMatch has a label",
            "An empty one matches no node, unlike elsewhere in Kubernetes",
        ),
        Rule.warning(
            "hypernode-member-kind",
            "A HyperNode contains either nodes or HyperNodes",
            "Its nodes are in no domain of the tiers between",
        ),
        Rule(
            "hypernode-member-missing",
            "A HyperNode that is listed as a member exists",
            f"Its nodes are missing above. If it exists in the cluster and is deleted now: {_CRASH.lower()}",
        ),
        Rule.warning("hypernode-member-repeated", "A member is listed once", "No effect; a name is probably mistyped"),
        Rule("hypernode-members", "A HyperNode has members", _REJECTED),
        Rule("hypernode-mixed-depth", "Every node is in a HyperNode of every tier", _NEVER),
        Rule(
            "hypernode-name-duplicate",
            "A HyperNode is declared once",
            "The last one that is applied replaces the others",
        ),
        Rule("hypernode-no-parent", "A HyperNode below the top tier has a parent", _NEVER),
        Rule.warning("hypernode-node-missing", "A node that is listed exists", "It is counted and runs no pods"),
        Rule.warning(
            "hypernode-node-orphan",
            "Every node with accelerators is in a HyperNode",
            "Gangs with a hard limit silently never use it",
        ),
        Rule(
            "hypernode-overlap",
            "A node is in one HyperNode of a tier",
            "The node serves both, and a gang inside one of them shares it with a gang inside the other",
        ),
        Rule("hypernode-regex-invalid", "A regular expression is valid in Go", _REJECTED),
        Rule.warning(
            "hypernode-regex-unanchored",
            "A regular expression is anchored at both ends",
            "Every node whose name contains a match is a member: `node-1` also matches node-10",
        ),
        Rule.warning(
            "hypernode-selector-unchecked",
            "The nodes of a selector can be determined",
            "The check may miss overlaps and missing nodes",
        ),
        Rule("hypernode-selector", "A member has one of exactMatch, regexMatch and labelMatch", _REJECTED),
        Rule(
            "hypernode-selector-ignored",
            "Member HyperNodes are listed by exactMatch",
            "Other selectors are ignored: the HyperNode has no members, and a repair can crash the scheduler",
        ),
        Rule("hypernode-self", "A HyperNode does not list itself", _STOPS),
        Rule("hypernode-shape", "A manifest is valid", _REJECTED),
        Rule.warning(
            "hypernode-tier-gap",
            "Tiers are numbered 1, 2, 3, … without gaps",
            "A gang with the missing tier gets the next lower one; others can never be scheduled",
        ),
        Rule(
            "hypernode-tier-name",
            "A tier name belongs to one tier",
            "The tier of the name changes from one scheduling session to the next",
        ),
        Rule.warning(
            "hypernode-tier-name-mixed",
            "The HyperNodes of a tier have one tier name",
            "Gangs that name the tier use all of it, which is misleading",
        ),
        Rule(
            "hypernode-tier-order",
            "A HyperNode's tier is above its members'",
            "A hard limit at the lower tier allows all of the upper domain",
        ),
        Rule.warning(
            "hypernode-tier-zero",
            "Tiers start at 1",
            "Accepted, but a gang with tier 0 is never scheduled without HyperNodes of that tier",
        ),
        Rule("hypernode-two-parents", "A HyperNode has one parent", f"{_STOPS}; the repair can crash the scheduler"),
    )
)
"""Every rule by its id."""
