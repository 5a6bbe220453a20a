"""Fabrics are imported from other formats, and errors have the line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.fabric_checks import fabric_findings
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.serialize import settings_text
from trainyard.scheduling.topology.sources import SOURCES, source
from trainyard.scheduling.topology.sources.base import Options
from trainyard.scheduling.topology.sources.hostlist import expand
from trainyard.scheduling.topology.to_settings import ImportedFabric

INVENTORY = """\
# positions of the nodes
Node, Rack, Spine, GPU, GPUs, CPU, Memory, Serial, Rail0, Rail1
gpu-2, r1, s1, H200, 8, 192, 2Ti, x, leaf-a, leaf-b
gpu-10, r1, s1, H200, 8, 192, 2Ti, y, leaf-a, leaf-b
gpu-1, r2, s1, B200, 8, 224, 4Ti, z, leaf-a, leaf-b
"""

TREE = """\
# switch.3.1=island-1
SwitchName=core Switches=sp[1-2]
SwitchName=sp1 Switches=lf1
SwitchName=sp2 Switches=lf2 LinkSpeed=100
SwitchName=lf1 Nodes=Node[001-002,005]
SwitchName=lf2 Nodes=Node[011-014]
"""

BLOCKS = """\
BlockName=b1 Nodes=Node[001-002,005]
BlockName=b2 Nodes=Node[011-012]
BlockName=b3 Nodes=Node[013-014]
BlockSizes=2,4
"""


PIECES = """\
SwitchName=a
 Nodes=n[1-3]
 Switches=
[
]
,
node,rack
a,b
"
-
{
}
:
Switch 40 "S-01" # "x"
[1] "H-02"[1] # "n1 mlx5_0"
domains:
kind: Node
\t1
"""


def read(name: str, text: str, **options: Any) -> ImportedFabric:
    return source(name).read(text, Options(**options))


def places(declared: ImportedFabric) -> dict[str, tuple[str, ...]]:
    return {node.name: node.path for node in compile_fabric(declared.settings).nodes}


def faults(name: str, text: str, **options: Any) -> list[str]:
    with pytest.raises(TrainyardError) as caught:
        read(name, text, **options)
    return [str(finding) for finding in caught.value.findings] or [str(caught.value)]


def node(name: str, labels: dict[str, str], gpus: int = 8, memory: str = "2Ti") -> dict[str, Any]:
    capacity = {"cpu": "192", "memory": memory, "pods": "110", "nvidia.com/gpu": str(gpus), "ephemeral-storage": "1Ti"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": capacity}}


def node_list(*nodes: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(nodes)})


def test_an_inventory_is_a_table() -> None:
    declared = read("inventory", INVENTORY)
    assert places(declared) == {"gpu-2": ("r1", "s1"), "gpu-10": ("r1", "s1"), "gpu-1": ("r2", "s1")}
    assert declared.settings.capacity["nvidia.com/gpu"] == "24"
    assert {node.shape for node in compile_fabric(declared.settings).nodes} == {
        "h200-8gpu-192cpu-2ti",
        "b200-8gpu-224cpu-4ti",
    }
    assert declared.settings.domains[0].domains[0].rails == ("leaf-a", "leaf-b")  # type: ignore[index]
    assert declared.notes == ("ignored columns: serial (set tiers with --tier)",)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_supported(separator: str) -> None:
    assert places(read("inventory", INVENTORY.replace(", ", separator))) == places(read("inventory", INVENTORY))


def test_an_inventory_may_be_a_list_in_yaml() -> None:
    text = "nodes:\n- {node: b, rack: 01, spine: s}\n- {node: a, rack: 01, spine: s}\n"
    assert places(read("inventory", text)) == {"a": ("01", "s"), "b": ("01", "s")}


def test_the_order_of_rows_changes_nothing() -> None:
    _, header, *rows = INVENTORY.splitlines()
    turned = "\n".join([header, *reversed(rows)])
    assert settings_text(read("inventory", turned).settings) == settings_text(read("inventory", INVENTORY).settings)


def test_tiers_can_be_set() -> None:
    text = "name,cage,hall\nn,c1,h1\n"
    assert "no column that names a tier" in faults("inventory", text)[0]
    assert places(read("inventory", text, tiers=("cage", "hall"))) == {"n": ("c1", "h1")}


def test_names_used_once_in_each_spine_need_to_be_qualified() -> None:
    text = "node,rack,spine\na,r1,s1\nb,r1,s2\n"
    (fault,) = faults("inventory", text)
    assert "domain 'r1' is in 's2' here and in 's1' at line 2" in fault
    assert "--qualify" in fault
    assert places(read("inventory", text, qualify=True)) == {"a": ("s1-r1", "s1"), "b": ("s2-r1", "s2")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("node,rack\n", "has no rows"),
        ("rack,spine\nr,s\n", "has no column for the node"),
        ("node,rack\na\n", "line 2: 1 cells under 2 columns"),
        ("node,rack,rack\na,b,c\n", "line 1: column 'rack' is repeated"),
        ("node,rack\na,\n", "line 2: node 'a' has no rack"),
        ("node,rack\n,r\n", "line 2: '' is not a valid node name"),
        ("node,rack\na_b,r\n", "line 2: 'a_b' is not a valid node name"),
        ("node,rack\na,r\n\na,r\n", "line 4: node 'a' is listed twice, first at line 2"),
        ("node,rack\na,r_1\nb,r-1\n", "line 3: rack 'r-1' and 'r_1' (line 2) both map to 'r-1'"),
        ("node,rack\na,???\n", "line 2: rack '???' has no letter or digit"),
        ('node,rack\n"a,r\n', "not valid CSV"),
        ("node,rack,gpus\na,r,many\n", "line 2: 'many'"),
        ("node,rack,shape,gpus\na,r,x,8\nb,r,x,4\n", "line 3: shape 'x' has 4 nvidia.com/gpu here"),
        ("- {node: a\n", "not valid YAML"),
        ("- a\n", "line 1: not a mapping"),
        ("- node: a\n  rack: [x]\n", "line 2: a value is neither text nor a number"),
        ("nodes:\n  a: b\n", "is not a list"),
    ],
)
def test_an_invalid_inventory_is_rejected_with_its_line(text: str, message: str) -> None:
    assert message in "\n".join(faults("inventory", text))


def test_many_errors_are_counted() -> None:
    text = "node,rack\n" + "".join(f"n{number},\n" for number in range(200))
    found = faults("inventory", text)
    assert (len(found), found[-1]) == (51, "and 150 more")


def test_labels_of_topograph_are_detected() -> None:
    prefix = "network.topology.nvidia.com"
    nodes = [
        node(
            f"n{number}",
            {f"{prefix}/leaf": f"leaf.{number // 2}", f"{prefix}/spine": "sp"},
            memory=f"{2000 + number}Gi",
        )
        for number in range(4)
    ]
    declared = read("nodes", node_list(*nodes, node("login", {}, gpus=0)))
    assert places(declared)["n3"] == ("leaf-1", "sp")
    assert declared.settings.tier_names == ("leaf", "spine")
    assert declared.settings.node_shape.capacity["memory"] == "2000Gi"
    assert "left out, without devices and labels: login" in declared.notes


def test_labels_can_be_set() -> None:
    text = yaml.safe_dump_all([node("a", {"x/r": "r1", "x/s": "s1"}), node("b", {"x/r": "r2", "x/s": "s1"})])
    assert "None of the 2 nodes has a label" in faults("nodes", text)[0]
    assert places(read("nodes", text, labels=(("rack", "x/r"), ("spine", "x/s"))))["b"] == ("r2", "s1")
    (fault,) = faults(
        "nodes",
        node_list(node("a", {"x/r": "r"}), node("b", {"x/r": "r", "x/s": "s"})),
        labels=(("rack", "x/r"), ("spine", "x/s")),
    )
    assert "Node/a: label x/s is missing" in fault


def test_our_own_labels_restore_the_fabric() -> None:
    fabric = compile_fabric(read("inventory", INVENTORY).settings)
    nodes = [
        {**node(each.name, dict(each.labels)), "status": {"capacity": dict(each.capacity)}} for each in fabric.nodes
    ]
    again = compile_fabric(read("nodes", node_list(*nodes)).settings)
    assert again.hyper_nodes == fabric.hyper_nodes
    assert {each.name: each.capacity for each in again.nodes} == {each.name: each.capacity for each in fabric.nodes}


def test_a_tree_of_slurm_becomes_tiers() -> None:
    declared = read("topograph", TREE)
    assert declared.settings.tier_names == ("leaf", "spine", "core")
    assert places(declared)["node014"] == ("lf2", "sp2", "core")


def test_blocks_are_the_lowest_tier_beside_a_tree_and_the_only_one_alone() -> None:
    assert places(read("topograph", BLOCKS))["node005"] == ("b1",)
    both = read("topograph", TREE + BLOCKS)
    assert both.settings.tier_names == ("block", "leaf", "spine", "core")
    assert places(both)["node013"] == ("b3", "lf2", "sp2", "core")
    assert any("BlockSizes=2,4" in note for note in both.notes)


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps])
def test_the_config_map_is_unpacked(write: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"topology.conf": TREE}}
    assert places(read("topograph", write(body))) == places(read("topograph", TREE))


def test_the_yaml_of_slurm_is_the_same_topology() -> None:
    tree = {
        "switches": [
            {"switch": "core", "children": "sp[1-2]"},
            {"switch": "sp1", "children": "lf1"},
            {"switch": "sp2", "children": "lf2"},
            {"switch": "lf1", "nodes": "Node[001-002,005]"},
            {"switch": "lf2", "nodes": "Node[011-014]"},
        ]
    }
    text = yaml.safe_dump(
        [{"topology": "default", "cluster_default": True, "tree": tree}, {"topology": "f", "flat": True}]
    )
    assert places(read("topograph", text)) == places(read("topograph", TREE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SwitchName=a Nodes=n[1-\n", "line 1: the brackets of"),
        ("SwitchName=a Nodes=n[2-1]\n", "line 1: the range '2-1' ends before it starts"),
        ("SwitchName=a Nodes=n[x]\n", "line 1: 'x' is neither a number nor a range"),
        ("SwitchName=a Nodes=n[1-999999999]\n", "has more than"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: switch 'a' is declared twice, first at line 1"),
        ("SwitchName=a Switches=b\n", "line 1: switch 'a' lists 'b', which is not declared"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "is in a cycle"),
        ("SwitchName=a Nodes=n\nSwitchName=b Nodes=n\n", "line 2: node 'n' is in 'b' and in 'a' (line 1)"),
        ("SwitchName=a\n", "line 1: switch 'a' lists neither switches nor nodes"),
        ("SwitchName=a Nodes=n Switches=b\nSwitchName=b Nodes=m\n", "line 1: switch 'a' lists both"),
        ("SwitchName=a Nodes=n\nMystery=1\n", "line 2: 'Mystery=1' is neither"),
        (TREE + "BlockName=b Nodes=Node001\n", "is on switch 'lf1' but in no block"),
        (TREE + BLOCKS + "BlockName=b4 Nodes=x\n", "node 'x' is in a block but on no switch"),
        (
            "SwitchName=t Switches=a,b\nSwitchName=a Nodes=n\nSwitchName=b Switches=c\nSwitchName=c Nodes=m\n",
            "level(s) deep",
        ),
        ("kind: ConfigMap\ndata: {x: y}\n", "contains no switch and no block"),
    ],
)
def test_an_invalid_topology_is_rejected_with_its_line(text: str, message: str) -> None:
    assert message in "\n".join(faults("topograph", text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("n[008-011]", ["n008", "n009", "n010", "n011"]),
        ("a[1-2]b[3,5],c", ["a1b3", "a1b5", "a2b3", "a2b5", "c"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand(text, limit=100) == names


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=60)
@given(
    text=st.text(max_size=80)
    | st.lists(
        st.sampled_from([*PIECES.splitlines(keepends=True), "- ", "[", "{", ":", " ", "1"]),
        max_size=14,
    ).map("".join)
)
def test_no_text_makes_a_traceback(name: str, text: str) -> None:
    try:
        declared = source(name).read(text)
    except TrainyardError:
        return
    fabric_findings(declared.settings)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, "- " * 5_000, "a: &a [*a]", "\x00", "\ufeff", "!!python/object:os.system x"]
)
def test_hostile_text_is_rejected(name: str, text: str) -> None:
    with pytest.raises(TrainyardError):
        source(name).read(text)


racks = st.dictionaries(st.sampled_from([f"r{n}" for n in range(8)]), st.integers(1, 3), min_size=1)


@pytest.mark.slow
@given(racks, st.integers(1, 3))
def test_an_additional_rack_in_the_inventory_changes_no_other_name(counts: dict[str, int], added: int) -> None:
    def table(racks: dict[str, int]) -> str:
        rows = [
            f"{rack}-n{number},{rack},s{int(rack[1:]) % 2}" for rack, count in racks.items() for number in range(count)
        ]
        return "\n".join(["node,rack,spine", *rows])

    before = compile_fabric(read("inventory", table(counts)).settings)
    after = compile_fabric(read("inventory", table({**counts, "r9": added})).settings)
    kept = {body["metadata"]["name"]: body for body in after.hyper_nodes}
    assert (
        places(read("inventory", table(counts))).items()
        <= places(read("inventory", table({**counts, "r9": added}))).items()
    )
    for body in before.hyper_nodes:
        if body["spec"]["tier"] == 1:
            assert kept[body["metadata"]["name"]] == body


def hyper_node(name: str, tier: int, kind: str, *members: str, tier_name: str = "") -> dict[str, Any]:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "tierName": tier_name, "members": listed}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


def of_hyper_nodes(*bodies: dict[str, Any]) -> ImportedFabric:
    return source("hypernodes").read(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))


def test_hyper_nodes_give_their_fabric() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a1"},
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}},
    }
    found = of_hyper_nodes(
        hyper_node("s", 2, "HyperNode", "a", "b", tier_name="spine"),
        hyper_node("a", 1, "Node", "a1", "a2", tier_name="rack"),
        hyper_node("b", 1, "Node", "b1"),
        node,
    )
    fabric = compile_fabric(found.settings)
    assert [(each.name, each.tier) for each in fabric.domains] == [("a", 1), ("b", 1), ("s", 2)]
    assert [each.name for each in fabric.nodes] == ["a1", "a2", "b1"]
    assert "tierNames: [rack, spine]" in settings_text(found.settings, found.notes)


def test_hyper_nodes_that_leave_a_tier_out_get_a_domain_of_it() -> None:
    found = of_hyper_nodes(
        hyper_node("s", 2, "HyperNode", "a"),
        hyper_node("a", 1, "Node", "a1"),
        hyper_node("b", 1, "Node", "b1"),
        hyper_node("t", 2, "Node", "t1"),
    )
    assert {each.name for each in compile_fabric(found.settings).domains} == {
        "s",
        "a",
        "b",
        "t",
        "b-tier-2",
        "t-tier-1",
    }


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ((), "contains no HyperNode"),
        ((hyper_node("a", 1, "Node", "n"), hyper_node("b", 1, "Node", "n")), "invalid"),
        ((hyper_node("a", 2, "HyperNode", "b"), hyper_node("b", 3, "HyperNode", "a")), "invalid"),
        ((hyper_node("a", 2, "HyperNode", "b"),), "invalid"),
    ],
)
def test_hyper_nodes_without_a_fabric_are_errors(bodies: tuple[dict[str, Any], ...], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        of_hyper_nodes(*bodies)


def by_labels(kind: str, **labels: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"labelMatch": {"matchLabels": labels}}}


def labeled_node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_nodes_that_a_hyper_node_selects_by_label_are_read() -> None:
    rack, spine = hyper_node("rack", 1, "Node"), hyper_node("spine", 2, "HyperNode", "rack")
    rack["spec"]["members"] = [by_labels("Node", rack="a")]
    found = of_hyper_nodes(rack, spine, labeled_node("n1", rack="a"), labeled_node("n2", rack="b"))
    fabric = compile_fabric(found.settings)
    assert [each.name for each in fabric.nodes] == ["n1"]
    assert not [note for note in found.notes if "label" in note]


def test_hyper_nodes_that_another_selects_by_label_are_noted_as_left_out() -> None:
    rack, spine = hyper_node("rack", 1, "Node", "n1"), hyper_node("spine", 2, "HyperNode")
    spine["spec"]["members"] = [by_labels("HyperNode", level="rack")]
    (note,) = [note for note in of_hyper_nodes(rack, spine, labeled_node("n1")).notes if "spine" in note]
    assert "selects HyperNodes by labelMatch, which the scheduler ignores" in note


def test_a_selector_without_nodes_is_noted() -> None:
    rack, other = hyper_node("rack", 1, "Node", "n1"), hyper_node("other", 1, "Node")
    other["spec"]["members"] = [by_labels("Node", rack="none")]
    notes = of_hyper_nodes(rack, other, labeled_node("n1")).notes
    assert [note for note in notes if "matches no node" in note]


def test_selectors_need_the_nodes_of_the_cluster() -> None:
    rack = hyper_node("rack", 1, "Node")
    rack["spec"]["members"] = [by_labels("Node", rack="a")]
    with pytest.raises(TrainyardError) as caught:
        of_hyper_nodes(rack)
    (finding,) = caught.value.findings
    assert "selects nodes by labelMatch, and the list has no nodes" in finding.message
    assert "trainyard snapshot save" in finding.fix
