"""Valid queue trees drawn from a random number generator, and the order in which Pulumi changes one into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tests.queues.webhook import refused
from trainyard.settings.tenancy import QueueSettings

Spec = dict[str, Any]
Tree = dict[str, Spec]

_RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
_KINDS = ("guarantee", "deserved", "capability")


def spec(parent: str = "root", **amounts: Mapping[str, str]) -> Spec:
    """Return the spec of a Queue without empty amounts."""
    guarantee = amounts.pop("guarantee", None)
    given = {kind: dict(amount) for kind, amount in amounts.items() if amount}
    return {
        "parent": parent,
        "weight": 1,
        **given,
        **({"guarantee": {"resource": dict(guarantee)}} if guarantee else {}),
    }


def accepted(tree: Mapping[str, Spec]) -> bool:
    """Return whether the webhook accepts every queue of a tree."""
    queues = {
        name: QueueSettings.model_construct(
            parent=each["parent"],
            deserved=each.get("deserved", {}),
            guarantee=each.get("guarantee", {}).get("resource", {}),
            capability=each.get("capability", {}),
        )
        for name, each in tree.items()
    }
    return not refused(queues)


def random_tree(random: Random, names: tuple[str, ...] = tuple("abcdef")) -> Tree:
    """Return a valid tree of some of the names: drawn at random, without what is rejected."""
    tree: Tree = {}
    chosen = random.sample(names, random.randint(0, len(names)))
    for number, name in enumerate(chosen):
        amounts = {kind: _amounts(random) for kind in _KINDS if random.random() < 0.7}
        tree[name] = spec(random.choice(["root", *chosen[:number]]), **amounts)
        for kind in _KINDS:
            if accepted(tree):
                break
            tree[name].pop(kind, None)
        if not accepted(tree):
            tree[name]["parent"] = "root"
    return tree


def applied(wanted: Tree, tree: Tree, random: Random) -> Iterator[tuple[str, Tree]]:
    """Yield each queue with the tree after it: parents before children in any order, then deletions, children first."""
    waiting = set(wanted)
    while waiting:
        name = random.choice(sorted(name for name in waiting if wanted[name]["parent"] not in waiting))
        waiting.remove(name)
        tree = {**tree, name: wanted[name]}
        yield name, tree
    while gone := sorted(set(tree) - set(wanted)):
        parents = {each["parent"] for each in tree.values()}
        name = random.choice([name for name in gone if name not in parents])
        tree = {other: each for other, each in tree.items() if other != name}
        yield name, tree


def _amounts(random: Random) -> dict[str, str]:
    return {name: str(random.randint(0, 8)) for name in _RESOURCES if random.random() < 0.6}
