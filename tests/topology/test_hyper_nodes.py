"""HyperNode manifests: every error that Volcano accepts and then mishandles is found, whatever their source."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.fabrics import fabric, trees
from trainyard.checks.finding import Finding, Severity
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.hypernode_checks import check_hyper_nodes
from trainyard.scheduling.topology.hypernode_manifests import read_manifests
from trainyard.scheduling.topology.membership import is_anchored, regex_fault
from trainyard.scheduling.topology.rules import RULES


def exact(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def regex(pattern: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def labeled(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": {"labelMatch": selector}}


def hyper_node(name: str, tier: Any, *members: Any, tier_name: str = "", **metadata: Any) -> dict[str, Any]:
    entries = [exact("Node" if tier == 1 else "HyperNode", each) if isinstance(each, str) else each for each in members]
    spec = {"tier": tier, "members": entries, **({"tierName": tier_name} if tier_name else {})}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def node(name: str, gpus: int = 8, **labels: str) -> dict[str, Any]:
    status = {"capacity": {"cpu": "96", "nvidia.com/gpu": str(gpus)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def found(*documents: object) -> list[Finding]:
    return check_hyper_nodes(read_manifests([("fabric.yaml", document) for document in documents]))


def rules(*documents: object) -> list[str]:
    return sorted({str(finding.rule) for finding in found(*documents)})


SOUND = [
    hyper_node("r0", 1, "n0", "n1", tier_name="rack"),
    hyper_node("r1", 1, "n2", "n3", tier_name="rack"),
    hyper_node("s0", 2, "r0", "r1", tier_name="spine"),
]
NODES = [node(f"n{number}") for number in range(4)]


def test_valid_hyper_nodes_have_no_findings() -> None:
    assert found(*SOUND) == []
    assert found(*SOUND, *NODES) == []


@pytest.mark.parametrize(
    ("rule", "documents", "path"),
    [
        ("hypernode-two-parents", [*SOUND, hyper_node("s1", 2, "r0")], "HyperNode/s1.spec.members[0]"),
        ("hypernode-self", [hyper_node("s", 2, "s")], "HyperNode/s.spec.members[0]"),
        ("hypernode-cycle", [hyper_node("a", 2, "b"), hyper_node("b", 3, "a")], "HyperNode/a"),
        (
            "hypernode-tier-order",
            [hyper_node("r", 1, "n"), hyper_node("s", 1, exact("HyperNode", "r"))],
            "HyperNode/s.spec.members[0]",
        ),
        (
            "hypernode-overlap",
            [hyper_node("a", 1, "n"), hyper_node("b", 1, "n"), hyper_node("s", 2, "a", "b")],
            "HyperNode/b",
        ),
        ("hypernode-overlap", [hyper_node("a", 1, "n0"), hyper_node("b", 1, regex("^n0$")), *NODES], "HyperNode/b"),
        (
            "hypernode-overlap",
            [hyper_node("a", 1, "n0"), hyper_node("s", 2, "a"), hyper_node("t", 2, exact("Node", "n0"))],
            "HyperNode/t",
        ),
        ("hypernode-node-orphan", [*SOUND, *NODES, node("n4")], "Node/n4"),
        ("hypernode-node-missing", [*SOUND, *NODES[:3]], "HyperNode/r1.spec.members[1]"),
        ("hypernode-member-missing", [hyper_node("s", 2, "gone")], "HyperNode/s.spec.members[0]"),
        (
            "hypernode-tier-name",
            [hyper_node("r", 1, "n", tier_name="rack"), hyper_node("s", 2, "r", tier_name="rack")],
            "HyperNode/s.spec.tierName",
        ),
        (
            "hypernode-tier-name-mixed",
            [hyper_node("r", 1, "n", tier_name="rack"), hyper_node("q", 1, "m", tier_name="leaf")],
            "HyperNode/q.spec.tierName",
        ),
        ("hypernode-tier-gap", [hyper_node("r", 1, "n"), hyper_node("s", 5, "r")], "HyperNode/s.spec.tier"),
        ("hypernode-tier-zero", [hyper_node("r", 0, exact("Node", "n"))], "HyperNode/r.spec.tier"),
        ("hypernode-no-parent", [*SOUND, hyper_node("r2", 1, "n9", tier_name="rack")], "HyperNode/r2"),
        (
            "hypernode-mixed-depth",
            [*SOUND, hyper_node("t", 3, "s0", "r9"), hyper_node("r9", 1, "n9", tier_name="rack")],
            "HyperNode/r9",
        ),
        (
            "hypernode-member-kind",
            [*SOUND[:2], hyper_node("s", 2, "r0", "r1", exact("Node", "n9"))],
            "HyperNode/s.spec.members",
        ),
        (
            "hypernode-selector-ignored",
            [hyper_node("s", 2, regex("^r", "HyperNode"))],
            "HyperNode/s.spec.members[0].selector",
        ),
        (
            "hypernode-selector-ignored",
            [hyper_node("s", 2, labeled("HyperNode", matchLabels={"a": "b"}))],
            "HyperNode/s.spec.members[0].selector",
        ),
        ("hypernode-regex-unanchored", [hyper_node("r", 1, regex("n1"))], "HyperNode/r.spec.members[0].selector"),
        ("hypernode-regex-invalid", [hyper_node("r", 1, regex("^n[$"))], "HyperNode/r.spec.members[0].selector"),
        ("hypernode-regex-invalid", [hyper_node("r", 1, regex("^n(?=1)$"))], "HyperNode/r.spec.members[0].selector"),
        (
            "hypernode-selector-unchecked",
            [hyper_node("r", 1, regex("^(n+)+$")), *NODES],
            "HyperNode/r.spec.members[0].selector",
        ),
        ("hypernode-label-match-empty", [hyper_node("r", 1, labeled())], "HyperNode/r.spec.members[0].selector"),
        ("hypernode-node-missing", [hyper_node("r", 1, regex("^x$")), *NODES], "HyperNode/r.spec.members[0].selector"),
        (
            "hypernode-node-missing",
            [hyper_node("r", 1, labeled(matchLabels={"a": "b"})), *NODES],
            "HyperNode/r.spec.members[0].selector",
        ),
        ("hypernode-member-repeated", [hyper_node("r", 1, "n", "n")], "HyperNode/r.spec.members[1]"),
        ("hypernode-name-duplicate", [hyper_node("r", 1, "n"), hyper_node("r", 1, "m")], "HyperNode/r"),
        ("hypernode-members", [hyper_node("r", 1)], "HyperNode/r.spec.members"),
        ("hypernode-selector", [hyper_node("r", 1, {"type": "Node"})], "HyperNode/r.spec.members[0].selector"),
        (
            "hypernode-selector",
            [
                hyper_node(
                    "r", 1, {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "b"}}}
                )
            ],
            "HyperNode/r.spec.members[0].selector",
        ),
        (
            "hypernode-discovered",
            [hyper_node("r", 1, "n", labels={"volcano.sh/network-topology-source": "ufm"})],
            "HyperNode/r.metadata.labels",
        ),
        ("hypernode-shape", [hyper_node("r", "one", "n")], "HyperNode/r.spec.tier"),
        ("hypernode-shape", [hyper_node("r", -1, "n")], "HyperNode/r.spec.tier"),
        ("hypernode-shape", [hyper_node("r", True, "n")], "HyperNode/r.spec.tier"),
        ("hypernode-shape", [hyper_node("r", 1, exact("Rack", "n"))], "HyperNode/r.spec.members[0].type"),
        ("hypernode-shape", ["just text"], ""),
    ],
)
def test_an_error_has_its_position(rule: str, documents: list[Any], path: str) -> None:
    (finding,) = [each for each in found(*documents) if each.rule == rule and each.path == path]
    assert finding.fix
    assert rule in RULES
    assert finding.severity is RULES[rule].severity


def test_every_rule_of_manifests_is_tested_above() -> None:
    (mark,) = test_an_error_has_its_position.pytestmark  # type: ignore[attr-defined]
    assert {rule for rule, _, _ in mark.args[1]} == {rule for rule in RULES if rule.startswith("hypernode-")}


def test_a_cycle_is_reported_once_from_its_first_name() -> None:
    ring = [hyper_node(name, 2, below) for name, below in (("c", "a"), ("a", "b"), ("b", "c"))]
    (finding,) = [each for each in found(*ring) if each.rule == "hypernode-cycle"]
    assert "a → b → c → a" in finding.message


def test_cpu_nodes_may_be_outside_where_others_have_accelerators() -> None:
    assert "hypernode-node-orphan" not in rules(*SOUND, *NODES, node("cpu-0", gpus=0))
    assert "hypernode-node-orphan" in rules(hyper_node("r", 1, "a"), node("a", gpus=0), node("b", gpus=0))


def test_unintended_matches_of_an_unanchored_expression_are_listed() -> None:
    nodes = [node("n1"), node("n10"), node("n11")]
    (finding,) = found(hyper_node("r", 1, regex("n1")), *nodes)
    assert finding.message.endswith("n10, n11 too")
    assert finding.severity is Severity.WARNING


def test_a_label_selector_selects_like_the_scheduler() -> None:
    wanted = [{"key": "rack", "operator": "In", "values": ["a"]}, {"key": "old", "operator": "DoesNotExist"}]
    nodes = [node("n0", rack="a"), node("n1", rack="a", old="yes"), node("n2", rack="b")]
    orphans = [
        finding.object
        for finding in found(hyper_node("r", 1, labeled(matchExpressions=wanted)), *nodes)
        if finding.rule == "hypernode-node-orphan"
    ]
    assert orphans == ["n1", "n2"]


def test_lists_of_objects_are_unpacked() -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": [*SOUND, hyper_node("s1", 2, "r0")]}
    assert "hypernode-two-parents" in rules(body)
    inherited = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNodeList"}
    items = [{key: value for key, value in each.items() if key in ("metadata", "spec")} for each in SOUND]
    assert found({**inherited, "items": items}) == []


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [("^a$", True), ("a", False), ("^a", False), ("a$", False), (r"^a\$", False), ("^a|b$", False), ("^(a|b)$", True)],
)
def test_an_expression_is_anchored_at_both_ends_or_not(pattern: str, anchored: bool) -> None:
    assert is_anchored(pattern) is anchored


@pytest.mark.parametrize(
    ("pattern", "valid"),
    [(r"^\pL+\z", True), ("[[:alpha:]]", True), ("(", False), (r"(a)\1", False), ("a++", False), ("(?i)a", True)],
)
def test_expressions_are_valid_as_in_go(pattern: str, valid: bool) -> None:
    assert (regex_fault(pattern) is None) is valid


@given(st.text(max_size=60))
def test_no_expression_hangs_or_raises(pattern: str) -> None:
    found(hyper_node("r", 1, regex(pattern)), node("a" * 60 + "!"))


def test_an_expression_of_exponential_time_is_not_evaluated() -> None:
    for pattern in ("^(a+)+$", "^(a|a)*$", "a?" * 30 + "a" * 30, "(a|a)(a|a)(a|a)(a|a)$", ".*.*.*x"):
        assert "hypernode-selector-unchecked" in rules(hyper_node("r", 1, regex(pattern)), node("a" * 60 + "!"))


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "selector", "exactMatch", "regexMatch", "labelMatch", "name", "pattern", "matchLabels"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.lists(anything, max_size=4), anything, anything)
def test_no_manifest_makes_a_traceback(members: list[Any], tier: Any, metadata: Any) -> None:
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    broken = {**kind, "metadata": metadata, "spec": {"tier": tier, "members": members}}
    named = {**kind, "metadata": {"name": "r"}, "spec": {"tier": 1, "members": members, "tierName": tier}}
    for finding in found(broken, named, {**kind, "metadata": {"name": "q"}, "spec": metadata}, *NODES):
        assert finding.rule in RULES


@pytest.mark.slow
@given(st.integers(1, 4).flatmap(lambda depth: st.tuples(st.just(depth), trees(depth))))
def test_compiled_hyper_nodes_are_valid(case: tuple[int, list[dict[str, Any]]]) -> None:
    depth, domains = case
    compiled = compile_fabric(fabric(*domains, tierNames=[f"t{number}" for number in range(depth)]))
    nodes = [node(each.name, **each.labels) for each in compiled.nodes]
    assert found(*compiled.hyper_nodes, *nodes) == []
