"""Domains whose nodes are chosen by label: their HyperNodes, what settings prove, and what the cluster's nodes show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.topology.fabrics import fabric
from trainyard.cli import topology
from trainyard.errors import TrainyardError
from trainyard.local.cluster.simulated_nodes import desired_nodes
from trainyard.scheduling.topology.fabric_checks import check_fabric, fabric_findings
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.fabric_text import draw
from trainyard.scheduling.topology.selected_nodes import selected_nodes, shared_nodes
from trainyard.scheduling.topology.serialize import nodes_text
from trainyard.settings.stack_loader import parse_stack


def rack(name: str, count: int = 2, **labels: str) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": {"matchLabels": {key.replace("_", "/"): v for key, v in labels.items()}, "count": count},
    }


TWO = fabric(rack("ra", 2, pod="a"), rack("rb", 3, pod="b"), tierNames=["rack"])
MIXED = fabric({"name": "s", "domains": [rack("ra", pod="a"), {"name": "rn", "nodes": ["n1"]}]})


def rules(*domains: dict[str, Any], **settings: Any) -> list[tuple[str | None, str]]:
    found = fabric_findings(fabric(*domains, **{"tierNames": ["rack"], **settings}))
    return [(each.rule, each.path.removeprefix("trainyard:fabric.")) for each in found]


def test_a_hyper_node_selects_nodes_by_label() -> None:
    one, other = compile_fabric(TWO).hyper_nodes
    assert one["spec"]["members"] == [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"pod": "a"}}}}]
    assert other["spec"]["tier"] == 1


def test_an_upper_domain_lists_its_racks_by_name() -> None:
    spine = compile_fabric(MIXED).hyper_nodes[-1]
    assert [each["selector"]["exactMatch"]["name"] for each in spine["spec"]["members"]] == ["ra", "rn"]


def test_the_count_is_the_capacity_and_is_drawn() -> None:
    assert TWO.node_count == 5
    assert TWO.capacity["nvidia.com/gpu"] == "40"
    assert "rack rb: 3 nodes" in draw(compile_fabric(TWO))


def test_simulated_nodes_have_the_labels_of_the_selector() -> None:
    nodes = desired_nodes(TWO)
    assert nodes["rb-node-2"]["metadata"]["labels"]["pod"] == "b"
    assert nodes["rb-node-2"]["metadata"]["labels"]["topology.trainyard.dev/rack"] == "rb"
    labels = {name: body["metadata"]["labels"] for name, body in nodes.items()}
    assert selected_nodes(compile_fabric(TWO), labels) == {
        "ra": ("ra-node-0", "ra-node-1"),
        "rb": ("rb-node-0", "rb-node-1", "rb-node-2"),
    }


def test_labels_are_printed_for_named_nodes_only() -> None:
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(nodes_text(compile_fabric(MIXED)))] == ["n1"]


def test_different_values_of_one_label_prove_that_domains_are_disjoint() -> None:
    assert rules(rack("a", pod="a", gpu="h200"), rack("b", pod="b"), rack("c", pod="c", hall="1")) == []


def test_a_selector_that_includes_another_one_overlaps() -> None:
    assert rules(rack("a", pod="a"), rack("b", pod="a", gpu="h200")) == [
        ("fabric-selector-overlap", "domains[1].nodes.matchLabels")
    ]
    assert rules(rack("a", pod="a"), rack("b", pod="a")) == [
        ("fabric-selector-overlap", "domains[1].nodes.matchLabels")
    ]


def test_what_only_the_nodes_can_show_is_a_warning() -> None:
    assert rules(rack("a", pod="a"), rack("b", hall="1"), rack("c", hall="2")) == [
        ("fabric-selector-unproved", "domains[1].nodes.matchLabels"),
        ("fabric-selector-unproved", "domains[2].nodes.matchLabels"),
    ]
    assert [each.rule for each in fabric_findings(MIXED)] == ["fabric-selector-unproved"]
    assert check_fabric(MIXED) == []


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (rack("a"), ("fabric-selector-empty", "domains[0].nodes.matchLabels")),
        ({**rack("a", pod="a"), "copies": 2}, ("fabric-copies", "domains[0].nodes")),
        (
            {**rack("a", pod="a"), "shapeByNode": {"a-node-0": "b"}},
            ("fabric-shape-node", "domains[0].shapeByNode[a-node-0]"),
        ),
        (
            rack("a", **{"topology.trainyard.dev_rack": "b"}),
            ("fabric-node-label", "domains[0].nodes.matchLabels[topology.trainyard.dev/rack]"),
        ),
        (rack("a", gpu="h100"), ("fabric-node-label", "domains[0].nodes.matchLabels[gpu]")),
        (
            rack("a", **{"kubernetes.io_hostname": "n"}),
            ("fabric-node-label", "domains[0].nodes.matchLabels[kubernetes.io/hostname]"),
        ),
    ],
)
def test_an_error_of_a_selector_has_its_path(domain: dict[str, Any], expected: tuple[str, str]) -> None:
    found = rules(domain, nodeShape={"labels": {"gpu": "h200"}}, shapes={"b": {}})
    assert [each for each in found if each[0] != "fabric-shape-unused"] == [expected]


def test_the_label_that_the_fabric_derives_may_be_the_selector() -> None:
    assert rules(rack("a", **{"topology.trainyard.dev_rack": "a"})) == []


@pytest.mark.parametrize("nodes", [{"matchLabels": {"a": "b"}}, {"count": 2}, {"matchLabels": {"a": "b"}, "count": 0}])
def test_a_selector_needs_labels_and_a_number(nodes: dict[str, Any]) -> None:
    sections = {"cluster": {"provider": "embedded"}, "fabric": {"tierNames": ["rack"]}}
    with pytest.raises(TrainyardError) as caught:
        parse_stack({**sections, "fabric": {"domains": [{"name": "a", "nodes": nodes}]}}, source="test")
    (finding,) = caught.value.findings
    assert finding.path.startswith("trainyard:fabric.domains[0].nodes")


def test_a_node_in_two_domains_is_named() -> None:
    labels = {"x": {"pod": "a"}, "n1": {"pod": "a"}}
    (finding,) = shared_nodes(compile_fabric(MIXED), labels)
    assert finding.path == "trainyard:fabric.ra"
    assert finding.message == "node n1 is in domain ra by its labels, and in domain rn"


def test_a_list_of_nodes_decides_what_the_settings_leave_open(tmp_path: Path) -> None:
    app = typer.Typer()
    topology.register(app)
    settings, nodes = tmp_path / "Pulumi.x.yaml", tmp_path / "nodes.yaml"
    written = MIXED.model_dump(by_alias=True, exclude_unset=True, mode="json")
    settings.write_text(yaml.safe_dump({"config": {"trainyard:fabric": written}}))

    def checked(*bodies: tuple[str, dict[str, str]]) -> str:
        body = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n, "labels": own}} for n, own in bodies]
        nodes.write_text(yaml.safe_dump_all(body))
        return CliRunner().invoke(app, ["topology", "check", str(settings), str(nodes)]).output

    assert "fabric-selector-unproved" in CliRunner().invoke(app, ["topology", "check", str(settings)]).output
    assert "No issues found" in checked(("n1", {}), ("n2", {"pod": "a"}))
    assert "hypernode-overlap" in checked(("n1", {"pod": "a"}))
    assert "matches no node" in checked(("n1", {}))
