"""Links of an InfiniBand fabric become tiers; nodes on the same rails become one domain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.sources import source
from trainyard.scheduling.topology.to_settings import ImportedFabric


class Network:
    """Generates output of the tool: each link at both ends."""

    def __init__(self) -> None:
        self._descriptions: dict[str, str] = {}
        self._links: dict[str, list[tuple[str, str]]] = {}

    def switch(self, guid: str, description: str) -> str:
        return self._add(f"S-{guid:0>16}", description)

    def adapter(self, guid: str, description: str, *switches: str) -> None:
        identifier = self._add(f"H-{guid:0>16}", description)
        for switch in switches:
            self.link(identifier, switch)

    def link(self, one: str, other: str) -> None:
        self._links.setdefault(one, []).append((other, "1"))
        self._links.setdefault(other, []).append((one, "1"))

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _add(self, identifier: str, description: str) -> str:
        self._descriptions[identifier] = description
        return identifier

    def _lines(self) -> Iterator[str]:
        yield "#\n# Topology file: generated\n#\n# Initiated from node 01 port 02\n"
        for identifier, description in self._descriptions.items():
            kind, ports = ("Switch", 40) if identifier.startswith("S-") else ("Ca", 1)
            yield f"\nvendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x{identifier[2:]}"
            yield f"{'switchguid' if kind == 'Switch' else 'caguid'}=0x{identifier[2:]}({identifier[2:]})"
            port = " enhanced port 0 lid 4 lmc 0" if kind == "Switch" else ""
            yield f'{kind}\t{ports} "{identifier}"\t\t# "{description}"{port}'
            for number, (peer, other) in enumerate(self._links.get(identifier, ()), start=1):
                description = self._descriptions[peer]
                own = "" if kind == "Switch" else f"({identifier[2:]})"
                comment = (
                    f'"{description}" lid 17 4xNDR' if kind == "Switch" else f'lid 17 lmc 0 "{description}" lid 4 4xNDR'
                )
                yield f'[{number}]{own}\t"{peer}"[{other}]{"" if own else f"({peer[2:]})"} \t\t# {comment}'


def read(network: Network) -> ImportedFabric:
    return source("ibnetdiscover").read(network.text())


def places(declared: ImportedFabric) -> dict[str, tuple[str, ...]]:
    return {node.name: node.path for node in compile_fabric(declared.settings).nodes}


def fat_tree(rails: int = 1, units: int = 2, spines: int = 2, nodes: int = 2) -> Network:
    """Return units of leaf switches, one per rail, each linked to all spines."""
    network = Network()
    tops = [network.switch(f"f{number}", f"MF0;spine-{number}:MQM9700/U1") for number in range(spines)]
    for unit in range(units):
        leaves = [network.switch(f"a{unit}{rail}", f"MF0;leaf-{unit}{rail}:MQM9700/U1") for rail in range(rails)]
        for leaf in leaves:
            for top in tops:
                network.link(leaf, top)
        for number in range(nodes):
            for rail, leaf in enumerate(leaves):
                network.adapter(f"b{unit}{number}{rail}", f"gpu-{unit}{number} mlx5_{rail}", leaf)
    return network


def test_leaf_switches_and_the_spines_above_them() -> None:
    declared = read(fat_tree())
    assert declared.settings.tier_names == ("leaf", "spine")
    assert places(declared) == {
        "gpu-00": ("leaf-00", "group-spine-0"),
        "gpu-01": ("leaf-00", "group-spine-0"),
        "gpu-10": ("leaf-10", "group-spine-0"),
        "gpu-11": ("leaf-10", "group-spine-0"),
    }


def test_nodes_on_the_same_rails_are_one_domain_with_rail_labels() -> None:
    declared = read(fat_tree(rails=4))
    assert declared.settings.tier_names == ("rail-group", "spine")
    assert places(declared)["gpu-11"] == ("rails-leaf-10", "group-spine-0")
    (node,) = [node for node in compile_fabric(declared.settings).nodes if node.name == "gpu-11"]
    assert [node.labels[f"rail.trainyard.dev/{rail}"] for rail in range(4)] == [f"leaf-1{rail}" for rail in range(4)]
    assert any("up to 4" in note and "2 in all" in note for note in declared.notes)


def test_a_node_that_lacks_a_link_stays_with_the_others() -> None:
    network = fat_tree(rails=2)
    network.adapter("c0", "gpu-02 mlx5_0", "S-" + f"{'a00':0>16}")
    declared = read(network)
    assert places(declared)["gpu-02"][0] == "rails-leaf-00"
    assert any("fewer links" in note and "gpu-02" in note for note in declared.notes)
    assert any("rails are unset in rails-leaf-00" in note for note in declared.notes)


def test_three_levels_of_switches_are_three_tiers() -> None:
    network = Network()
    core = network.switch("c0", "MF0;core-0:X/U1")
    for pod in range(2):
        spine = network.switch(f"d{pod}", f"MF0;spine-{pod}:X/U1")
        network.link(spine, core)
        for rack in range(2):
            leaf = network.switch(f"e{pod}{rack}", f"MF0;leaf-{pod}{rack}:X/U1")
            network.link(leaf, spine)
            network.adapter(f"b{pod}{rack}", f"n{pod}{rack} HCA-1", leaf)
    declared = read(network)
    assert declared.settings.tier_names == ("leaf", "spine", "core")
    assert places(declared)["n11"] == ("leaf-11", "spine-1", "core-0")


def test_a_spine_with_a_manager_is_not_a_leaf() -> None:
    network = fat_tree(units=3, nodes=8)
    network.adapter("99", "ufm-1 mlx5_0", "S-" + f"{'f0':0>16}")
    declared = read(network)
    assert declared.settings.tier_names == ("leaf", "spine")
    assert "ufm-1" not in places(declared)
    assert "left out, on switches between leaf switches: ufm-1" in declared.notes


def test_switches_without_a_unique_name_have_their_guid() -> None:
    network = Network()
    for number in range(2):
        leaf = network.switch(f"a{number}", "Quantum Mellanox Technologies")
        network.adapter(f"b{number}", f"n{number} HCA-1", leaf)
        network.adapter(f"c{number}", "Mellanox Technologies Aggregation Node", leaf)
    declared = read(network)
    assert places(declared)["n1"] == ("switch-00000000000000a1",)
    assert any("their node is unknown" in note for note in declared.notes)


def test_an_additional_rack_changes_no_other_name() -> None:
    before, after = places(read(fat_tree(rails=2, units=3))), places(read(fat_tree(rails=2, units=4)))
    assert before.items() <= after.items()


@pytest.mark.parametrize("text", ["", "hello\n", 'Ca 1 "H-1" # "n HCA-1"\n', 'Switch 40 "S-1" # "x"\n'])
def test_text_without_a_fabric_is_rejected(text: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        source("ibnetdiscover").read(text)
    assert caught.value.fix
