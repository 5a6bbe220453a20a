"""Order of writes: a HyperNode never has two parents, and is never deleted while it is listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.fabrics import fabric
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.order import NOTHING, preparation

Manifest = Mapping[str, Any]


def manifests(tree: Mapping[str, Mapping[str, list[str]]]) -> list[Manifest]:
    """Return the HyperNodes of spines, racks and nodes."""
    domains = [
        {"name": spine, "domains": [{"name": rack, "nodes": nodes} for rack, nodes in racks.items()]}
        for spine, racks in tree.items()
    ]
    return list(compile_fabric(fabric(*domains)).hyper_nodes)


def writes(old: list[Manifest], new: list[Manifest]) -> Iterator[tuple[str, str, Manifest]]:
    """Yield the preparation, and then what Pulumi writes: members before parents, and deletions from the top."""
    specs, wanted = ({body["metadata"]["name"]: body["spec"] for body in bodies} for bodies in (old, new))
    for name, spec in preparation(old, new):
        specs[name] = spec
        yield "update", name, spec
    for name, spec in sorted(wanted.items(), key=lambda entry: (entry[1]["tier"], entry[0])):
        if specs.get(name) != spec:
            yield "update" if name in specs else "create", name, spec
    for name in sorted(specs.keys() - wanted, key=lambda name: (-specs[name]["tier"], name)):
        yield "delete", name, {}


def steps(old: list[Manifest], new: list[Manifest]) -> list[tuple[str, str]]:
    return [(action, name) for action, name, _ in writes(old, new)]


def members(spec: Manifest) -> set[str]:
    return {member["selector"]["exactMatch"]["name"] for member in spec["members"] if member["type"] == "HyperNode"}


def replay(old: list[Manifest], new: list[Manifest]) -> None:
    """Apply the steps one by one and assert that no intermediate state harms the scheduler."""
    state = {body["metadata"]["name"]: body["spec"] for body in old}
    for action, name, written in writes(old, new):
        if action == "delete":
            assert all(name not in members(spec) for spec in state.values()), f"{name} is still listed"
            del state[name]
        else:
            assert (action == "create") == (name not in state)
            state[name] = written
        listed = [name for spec in state.values() for name in members(spec)]
        assert len(listed) == len(set(listed)), f"two parents after {action} of {name}"
        assert all(each in state for each in listed), f"a missing member after {action} of {name}"
        for spec in state.values():
            assert spec["members"]
            assert all(state[each]["tier"] < spec["tier"] for each in members(spec)), f"tiers after {action} of {name}"
    assert state == {body["metadata"]["name"]: body["spec"] for body in new}


def test_no_change_needs_no_write() -> None:
    same = manifests({"s": {"r": ["n"]}})
    assert steps(same, same) == []


def test_a_new_rack_is_created_before_it_is_listed() -> None:
    old, new = manifests({"s": {"r": ["n"]}}), manifests({"s": {"r": ["n"], "q": ["m"]}})
    assert steps(old, new) == [("create", "q"), ("update", "s")]
    assert preparation(old, new) == []


def test_a_rack_is_removed_from_its_spine_before_its_deletion_or_move() -> None:
    one = manifests({"s": {"a": ["n"], "b": ["m"]}, "t": {"c": ["o"]}})
    assert steps(one, manifests({"s": {"a": ["n"]}, "t": {"c": ["o"]}})) == [("update", "s"), ("delete", "b")]
    moved = manifests({"s": {"a": ["n"]}, "t": {"c": ["o"], "b": ["m"]}})
    assert steps(one, moved) == [("update", "s"), ("update", "t")]


def test_two_spines_that_swap_their_only_racks_are_temporarily_empty() -> None:
    old, new = manifests({"s": {"a": ["n"]}, "t": {"b": ["m"]}}), manifests({"s": {"b": ["m"]}, "t": {"a": ["n"]}})
    first = preparation(old, new)
    assert [step.name for step in first] == ["s", "t"]
    assert all(
        step.spec["members"] == [{"type": "Node", "selector": {"exactMatch": {"name": NOTHING}}}] for step in first
    )
    replay(old, new)


def test_a_deleted_spine_releases_its_remaining_rack() -> None:
    old, new = manifests({"s": {"a": ["n"]}, "t": {"b": ["m"]}}), manifests({"t": {"b": ["m"], "a": ["n"]}})
    assert steps(old, new) == [("update", "s"), ("update", "t"), ("delete", "s")]


def test_a_tier_inserted_below_raises_the_others_from_the_top() -> None:
    old = list(compile_fabric(fabric({"name": "s", "domains": [{"name": "r", "nodes": ["n"]}]})).hyper_nodes)
    deeper = {"name": "s", "domains": [{"name": "r", "domains": [{"name": "nvl", "nodes": ["n"]}]}]}
    new = list(compile_fabric(fabric(deeper, tierNames=["nvlink", "rack", "spine"])).hyper_nodes)
    assert steps(old, new)[:3] == [("update", "s"), ("update", "r"), ("create", "nvl")]
    replay(old, new)
    replay(new, old)


names = st.sampled_from


@st.composite
def layouts(draw: st.DrawFn) -> list[Manifest]:
    """Distribute fixed racks over fixed spines, in one or two levels."""
    racks = draw(st.lists(names([f"r{number}" for number in range(6)]), unique=True, min_size=1))
    spines = {rack: draw(names(["s0", "s1", "s2"])) for rack in racks}
    cores = {spine: draw(names(["k0", "k1"])) for spine in set(spines.values())}
    high = draw(st.booleans())
    below: dict[str, list[dict[str, Any]]] = {}
    for rack in racks:
        below.setdefault(spines[rack], []).append({"name": rack, "nodes": [f"{rack}-n"]})
    middle = [{"name": spine, "domains": domains} for spine, domains in below.items()]
    if not high:
        return list(compile_fabric(fabric(*middle)).hyper_nodes)
    top: dict[str, list[dict[str, Any]]] = {}
    for each in middle:
        top.setdefault(cores[each["name"]], []).append(each)
    domains = [{"name": core, "domains": spines} for core, spines in top.items()]
    return list(compile_fabric(fabric(*domains, tierNames=["rack", "spine", "core"])).hyper_nodes)


@pytest.mark.slow
@given(layouts(), layouts())
def test_any_change_is_safe_at_every_step(old: list[Manifest], new: list[Manifest]) -> None:
    replay(old, new)
