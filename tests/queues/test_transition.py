"""From any valid tree to any other one, the webhook accepts every tree in between."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.random_trees import Spec, accepted, applied, random_tree, spec
from trainyard.scheduling.queues.transition import transition

seeds = st.integers(0, 2**32)


def has_cycle(tree: Mapping[str, Spec]) -> bool:
    for start in tree:
        name, seen = start, set()
        while name in tree:
            if name in seen:
                return True
            seen.add(name)
            name = tree[name]["parent"]
    return False


def sound(tree: Mapping[str, Spec]) -> bool:
    return accepted(tree) and not has_cycle(tree)


@pytest.mark.slow
@given(seeds)
def test_every_intermediate_tree_is_accepted(seed: int) -> None:
    random = Random(seed)
    live, wanted = random_tree(random), random_tree(random)
    assert sound(live)
    assert sound(wanted)
    tree = dict(live)
    for step in transition(live, wanted):
        tree = {**tree, step.queue: dict(step.spec)}
        assert sound(tree)
    for _, after in applied(wanted, tree, random):
        assert sound(after)
        tree = after
    assert tree == wanted


@given(seeds)
def test_an_unchanged_queue_is_not_written(seed: int) -> None:
    random = Random(seed)
    live, wanted = random_tree(random), random_tree(random)
    unchanged = {name for name in live if live[name] == wanted.get(name)}
    assert not unchanged & {step.queue for step in transition(live, wanted)}


@given(seeds)
def test_an_unchanged_tree_needs_no_step(seed: int) -> None:
    tree = random_tree(Random(seed))
    assert transition(tree, tree) == ()


def test_amounts_that_only_grow_need_no_step() -> None:
    live = {"a": spec(capability={"cpu": "4"}), "b": spec("a", capability={"cpu": "2"})}
    wanted = {"a": spec(capability={"cpu": "8"}), "b": spec("a", capability={"cpu": "8"})}
    assert transition(live, wanted) == ()


def test_children_shrink_before_their_parent() -> None:
    live = {"a": spec(capability={"cpu": "8"}), "b": spec("a", capability={"cpu": "8"})}
    wanted = {"a": spec(capability={"cpu": "4"}), "b": spec("a", capability={"cpu": "4"})}
    assert [step.queue for step in transition(live, wanted)] == ["b", "a"]


def test_queues_that_swap_places_pass_through_root() -> None:
    live = {"a": spec(), "b": spec("a")}
    wanted = {"b": spec(), "a": spec("b")}
    assert [(step.queue, step.spec["parent"]) for step in transition(live, wanted)] == [("b", "root")]


def test_a_removed_queue_is_lowered_first() -> None:
    live = {
        "a": spec(deserved={"nvidia.com/gpu": "8"}),
        "old": spec("a", deserved={"nvidia.com/gpu": "8"}),
    }
    wanted = {"a": live["a"], "new": spec("a", deserved={"nvidia.com/gpu": "8"})}
    assert [(step.queue, step.spec.get("deserved")) for step in transition(live, wanted)] == [("old", None)]


def test_units_are_compared_by_value() -> None:
    live, wanted = {"a": spec(capability={"memory": "1Gi"})}, {"a": spec(capability={"memory": "1073741824"})}
    assert transition(live, wanted) == ()
