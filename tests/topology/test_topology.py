"""A fabric compiles to HyperNodes and labeled nodes, and its errors are found before they reach Volcano."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import assert_golden
from tests.topology.fabrics import fabric, trees
from tools.reference.fabric_rules import with_rules
from trainyard.checks.finding import Severity
from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.fabric_checks import check_fabric, fabric_findings
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.fabric_text import draw
from trainyard.scheduling.topology.rules import RULES
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.stack_loader import load_stack

ROOT = Path(__file__).resolve().parents[2]


def found(settings: FabricSettings) -> list[tuple[str | None, str]]:
    return [(finding.rule, finding.path.removeprefix("trainyard:fabric.")) for finding in check_fabric(settings)]


TWO_RACKS = fabric({"name": "s", "domains": [{"name": "r0", "nodes": 2}, {"name": "r1", "nodes": ["x", "y.example"]}]})


@pytest.mark.parametrize("stack", ["local", "production"])
def test_the_hyper_nodes_of_a_shipped_stack(stack: str) -> None:
    compiled = compile_fabric(load_stack(ROOT / "stacks" / f"Pulumi.{stack}.yaml").fabric)
    text = yaml.safe_dump_all(compiled.hyper_nodes, sort_keys=False)
    assert_golden(Path(__file__).parent / "golden" / f"{stack}.yaml", text)


def test_leaves_are_tier_1_and_list_nodes_by_exact_name() -> None:
    rack = compile_fabric(TWO_RACKS).hyper_nodes[1]
    assert rack["metadata"]["name"] == "r1"
    assert rack["spec"] == {
        "tier": 1,
        "tierName": "rack",
        "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "x"}}},
            {"type": "Node", "selector": {"exactMatch": {"name": "y.example"}}},
        ],
    }


def test_a_hyper_node_depends_on_its_members() -> None:
    compiled = compile_fabric(TWO_RACKS)
    assert compiled.order == {"r0": (), "r1": (), "s": ("r0", "r1")}
    assert compiled.tiers == (("rack", 1), ("spine", 2))


def test_a_node_is_labeled_with_its_domains() -> None:
    settings = fabric({"name": "r", "nodes": 1}, tierNames=["rack"], nodeShape={"labels": {"gpu": "h200"}})
    (node,) = compile_fabric(settings).nodes
    assert node.name == "r-node-0"
    assert node.path == ("r",)
    assert node.labels == {"gpu": "h200", "topology.trainyard.dev/rack": "r", "kubernetes.io/hostname": "r-node-0"}
    assert node.capacity["nvidia.com/gpu"] == "8"


def test_without_domains_there_is_no_fabric() -> None:
    compiled = compile_fabric(FabricSettings())
    assert compiled.hyper_nodes == []
    assert compiled.tiers == ()
    assert draw(compiled) == "no fabric declared"


SHAPES = {
    "big": {"capacity": {"cpu": "200", "example.com/gpu": "4"}, "labels": {"gpu": "b"}},
    "small": {"capacity": {"cpu": "500m"}},
}
MIXED = fabric(
    {
        "name": "s",
        "shape": "big",
        "domains": [{"name": "r0", "nodes": 2}, {"name": "r1", "nodes": ["x", "y"], "shapeByNode": {"y": "small"}}],
    },
    {"name": "t", "copies": 2, "domains": [{"name": "r", "copies": 3, "nodes": 2}]},
    shapes=SHAPES,
)


def test_domains_and_nodes_have_the_nearest_shape() -> None:
    nodes = {node.name: node for node in compile_fabric(MIXED).nodes}
    assert nodes["r0-node-0"].capacity == {"cpu": "200", "example.com/gpu": "4"}
    assert nodes["x"].labels["trainyard.dev/node-shape"] == "big"
    assert nodes["x"].labels["gpu"] == "b"
    assert (nodes["y"].shape, nodes["y"].capacity) == ("small", {"cpu": "500m"})
    assert nodes["t-0-r-1-node-1"].capacity["nvidia.com/gpu"] == "8"
    assert "trainyard.dev/node-shape" not in nodes["t-0-r-1-node-1"].labels


def test_capacity_is_summed_by_resource() -> None:
    assert MIXED.node_counts == {"": 12, "big": 3, "small": 1}
    assert MIXED.capacity == {
        "cpu": "1752500m",
        "example.com/gpu": "12",
        "memory": "12Ti",
        "nvidia.com/gpu": "96",
        "pods": "1320",
    }
    assert MIXED.devices == ("example.com/gpu", "nvidia.com/gpu")
    assert FabricSettings().capacity == {}


def test_copies_are_numbered_and_prefix_their_descendants() -> None:
    compiled = compile_fabric(fabric({"name": "s", "copies": 2, "domains": [{"name": "r", "nodes": 1}]}))
    assert [domain.name for domain in compiled.domains] == ["s-0-r", "s-1-r", "s-0", "s-1"]
    assert [node.path for node in compiled.nodes] == [("s-0-r", "s-0"), ("s-1-r", "s-1")]


def test_rails_are_node_labels() -> None:
    settings = fabric({"name": "s", "domains": [{"name": "r", "nodes": 1, "rails": ["leaf-1", "leaf-2"]}]})
    labels = compile_fabric(settings).nodes[0].labels
    assert (labels["rail.trainyard.dev/0"], labels["rail.trainyard.dev/1"]) == ("leaf-1", "leaf-2")


def test_an_unused_shape_is_a_warning() -> None:
    settings = fabric({"name": "r", "nodes": 1}, tierNames=["rack"], shapes={"idle": {}})
    (finding,) = fabric_findings(settings)
    assert (finding.rule, finding.severity) == ("fabric-shape-unused", Severity.WARNING)
    assert compile_fabric(settings).nodes


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            fabric({"name": "a", "nodes": 1, "shape": "x"}, tierNames=["rack"]),
            ("fabric-shape-unknown", "domains[0].shape"),
        ),
        (
            fabric({"name": "a", "nodes": ["n"], "shapeByNode": {"m": "b"}}, tierNames=["rack"], shapes={"b": {}}),
            ("fabric-shape-node", "domains[0].shapeByNode[m]"),
        ),
        (fabric({"name": "a", "copies": 2, "nodes": ["n"]}, tierNames=["rack"]), ("fabric-copies", "domains[0].nodes")),
        (
            fabric({"name": "a" * 62, "copies": 12, "nodes": 1}, tierNames=["rack"]),
            ("fabric-domain-name", "domains[0].name"),
        ),
        (fabric({"name": "a", "nodes": 10_001}, tierNames=["rack"]), ("fabric-domain-size", "domains[0]")),
        (fabric({"name": "a", "nodes": 10**30}, tierNames=["rack"]), ("fabric-size", "domains")),
        (fabric({"name": "a", "copies": 10**9, "domains": []}), ("fabric-size", "domains")),
        (
            fabric({"name": "a", "nodes": 1}, {"name": "a", "nodes": ["z"]}, tierNames=["rack"]),
            ("fabric-domain-duplicate", "domains[1].name"),
        ),
        (
            fabric({"name": "s", "domains": [{"name": "s", "nodes": 1}]}),
            ("fabric-domain-duplicate", "domains[0].domains[0].name"),
        ),
        (
            fabric({"name": "a", "nodes": ["n"]}, {"name": "b", "nodes": ["m", "n"]}, tierNames=["rack"]),
            ("fabric-node-duplicate", "domains[1].nodes"),
        ),
        (fabric({"name": "a", "nodes": 0}, tierNames=["rack"]), ("fabric-domain-empty", "domains[0].nodes")),
        (fabric({"name": "a", "nodes": []}, tierNames=["rack"]), ("fabric-domain-empty", "domains[0].nodes")),
        (fabric({"name": "a", "domains": []}), ("fabric-domain-empty", "domains[0].domains")),
        (fabric({"name": "a"}, tierNames=["rack"]), ("fabric-domain-shape", "domains[0]")),
        (fabric({"name": "a", "nodes": 1, "domains": []}), ("fabric-domain-shape", "domains[0]")),
        (fabric({"name": "a", "nodes": 1}), ("fabric-tier-names", "tierNames")),
        (fabric({"name": "a", "nodes": 1}, tierNames=["x", "x"]), ("fabric-tier-names", "tierNames")),
        (fabric({"name": "a" * 63, "nodes": 1}, tierNames=["rack"]), ("fabric-node-name", "domains[0].nodes")),
        (
            fabric({"name": "s", "domains": [{"name": "r", "nodes": 1}]}, {"name": "t", "nodes": 1}),
            ("fabric-mixed-depth", "domains[1]"),
        ),
        (
            fabric(
                {"name": "r", "nodes": 1}, tierNames=["rack"], nodeShape={"labels": {"kubernetes.io/hostname": "h"}}
            ),
            ("fabric-node-label", "nodeShape.labels[kubernetes.io/hostname]"),
        ),
    ],
)
def test_an_error_has_its_path(settings: FabricSettings, expected: tuple[str, str]) -> None:
    assert expected in found(settings)
    with pytest.raises(TrainyardError) as caught:
        compile_fabric(settings)
    assert all(finding.fix for finding in caught.value.findings)


def test_all_errors_are_listed_at_once() -> None:
    settings = fabric({"name": "a", "nodes": 0}, {"name": "a", "nodes": 1}, tierNames=["x", "y", "z"])
    assert {rule for rule, _ in found(settings)} == {
        "fabric-domain-duplicate",
        "fabric-domain-empty",
        "fabric-tier-names",
    }


def test_every_rule_of_settings_is_tested() -> None:
    (mark,) = test_an_error_has_its_path.pytestmark  # type: ignore[attr-defined]
    tested = {rule for _, (rule, _) in mark.args[1]} | {"fabric-shape-unused"}
    elsewhere = {rule for rule in RULES if rule.startswith("fabric-selector-")}  # test_selectors.py
    assert tested | elsewhere == {rule for rule in RULES if rule.startswith("fabric-")}


def test_repeated_domains_are_drawn_once() -> None:
    racks = [{"name": f"r{number}", "nodes": 4} for number in range(30)]
    picture = draw(compile_fabric(fabric({"name": "s", "domains": [*racks, {"name": "odd", "nodes": 1}]})))
    assert picture.splitlines() == [
        "121 nodes, tiers 1 rack, 2 spine",
        "└─ spine s: 121 nodes",
        "   ├─ rack r0 … r29: 30 × 4 nodes",
        "   └─ rack odd: 1 node",
    ]


@pytest.mark.slow
@given(st.integers(1, 3).flatmap(lambda depth: st.tuples(st.just(depth), trees(depth))))
def test_any_regular_tree_compiles_to_a_valid_fabric(case: tuple[int, list[dict[str, Any]]]) -> None:
    depth, domains = case
    settings = fabric(*domains, tierNames=[f"t{number}" for number in range(depth)])
    compiled = compile_fabric(settings)
    assert compiled == compile_fabric(settings)
    assert len(compiled.nodes) == settings.node_count == sum(d.node_count for d in compiled.domains if d.tier == 1)
    position = {manifest["metadata"]["name"]: index for index, manifest in enumerate(compiled.hyper_nodes)}
    tier = {domain.name: domain.tier for domain in compiled.domains}
    listed: list[str] = []
    for name, members in compiled.order.items():
        listed.extend(members)
        assert all(position[member] < position[name] and tier[member] == tier[name] - 1 for member in members)
    assert len(listed) == len(set(listed))
    for node in compiled.nodes:
        assert [tier[name] for name in node.path] == list(range(1, depth + 1))


@given(trees(2), st.integers(0, 5))
def test_adding_a_domain_changes_no_other_name(domains: list[dict[str, Any]], count: int) -> None:
    before = compile_fabric(fabric(*domains))
    added = {"name": "added", "domains": [{"name": "added-rack", "nodes": count + 1}]}
    after = compile_fabric(fabric(added, *domains))
    assert {node.name: node.path for node in before.nodes}.items() <= {n.name: n.path for n in after.nodes}.items()
    assert all(manifest in after.hyper_nodes for manifest in before.hyper_nodes)


def test_the_documentation_has_the_rules() -> None:
    page = (ROOT / "docs" / "fabric.md").read_text()
    assert with_rules(page) == page, "run python -m tools.reference.fabric_rules docs/fabric.md"


def test_the_example_of_the_documentation_is_a_valid_fabric() -> None:
    page = (ROOT / "docs" / "fabric.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    settings = FabricSettings.model_validate(yaml.safe_load(example)["trainyard:fabric"])
    assert fabric_findings(settings) == []
    assert len(compile_fabric(settings).nodes) == settings.node_count == 259
