"""Random sequences of changes to queues, as manifests: plausible trees with errors of every kind.

Sequences are deterministic by seed. Names are unique to a sequence, so that all can be sent at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.queue import DEFAULT, Queue
from trainyard.scheduling.queues.queue_manifests import read_queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.webhook_checks import rejections

API_VERSION = "scheduling.volcano.sh/v1beta1"
KINDS = ("capability", "deserved", "guarantee")

_RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods", "amd.com/gpu")
_ODD_RESOURCES = (
    "ephemeral-storage",
    "hugepages-2Mi",
    "kubernetes.io/batteries",
    "attachable-volumes-aws-ebs",
    "gpu",
    "requests.nvidia.com/gpu",
    "count/pods",
    "NVIDIA.com/gpu",
    "nvidia.com/mig-1g.5gb",
    "a/b/c",
    "services",
    "nvidia.com/-gpu",
    "nvidia.com/" + "g" * 64,
)
_ODD_AMOUNTS: tuple[Any, ...] = (
    "0",
    0,
    None,
    "500m",
    "1.5",
    1.5,
    "333.4m",
    "1000.2m",
    "1002m",
    "2.0001",
    "0.5m",
    "1u",
    "999999999n",
    "2e0",
    "1E1",
    "+3",
    "-1",
    "-0",
    ".5",
    "5.",
    "4Ki",
    "4097",
    "1k",
    "8Gi",
    "",
    "x",
    "1 ",
    "0x10",
    True,
    "1e2.5",
    "9007199254740992",
)


@dataclass(frozen=True)
class Change:
    """One change.

    Parameters
    ----------
    name
        The queue.
    spec
        Its spec; None: missing.
    deletes
        Whether the queue is deleted instead.
    """

    name: str
    spec: Mapping[str, Any] | None = None
    deletes: bool = False

    def body(self) -> dict[str, Any]:
        """Return the manifest."""
        body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": self.name}}
        return body if self.spec is None else {**body, "spec": dict(self.spec)}


class Model:
    """State of a cluster for the rules: the queues accepted so far.

    Parameters
    ----------
    version
        Version of Volcano whose webhook is predicted.
    """

    def __init__(self, version: str = "1.14.1") -> None:
        self.version = version
        self.queues: dict[str, Queue] = {DEFAULT: Queue()}

    def rejections(self, change: Change) -> list[Finding]:
        """Return why a change would be rejected."""
        if change.deletes:
            return rejections(self.queues, change.name, None, self.version)
        name, queue, findings = read_queue(change.body())
        refused = [finding for finding in findings if self.version in RULES[finding.rule or ""].rejected_by]
        return [*refused, *rejections(self.queues, name, queue, self.version)]

    def accept(self, change: Change) -> None:
        """Apply a change that the real cluster accepted."""
        if change.deletes:
            self.queues.pop(change.name, None)
        else:
            self.queues[change.name] = read_queue(change.body())[1]


def sequence(seed: int) -> list[Change]:
    """Return the changes of one sequence."""
    return _Author(seed).write()


class _Author:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.prefix = f"c{seed}"
        self.specs: dict[str, dict[str, Any]] = {}
        # Some sequences are nearly valid, so that the deep rules are reached; others have many errors.
        self.wrong = self.random.choice((0.0, 0.03, 0.1, 0.3))
        self.resources = self.random.sample(_RESOURCES, self.random.randint(1, 3))

    def write(self) -> list[Change]:
        changes = []
        shape = self.random.choice(("tree", "tree", "tree", "chain"))
        for number in range(self.random.randint(2, 8)):
            name = self.name(number)
            parents = [each for each in self.specs if len(each) <= 63] or ["root"]
            parent = parents[-1] if shape == "chain" else self.random.choice(["root", *parents])
            self.specs[name] = self.spec(name, parent if number else "root")
            changes.append(Change(name, self.specs[name]))
        for _ in range(self.random.randint(0, 6)):
            changes.append(self.change())
        return changes

    def name(self, number: int) -> str:
        name = f"{self.prefix}-{'abcdefgh'[number]}"
        if self.lapse(0.2):
            name = self.random.choice((f"{name}.x", f"{name}{'x' * 80}", f"{name}_", f"{self.prefix}-UP", f"{name}-"))
        return name

    def lapse(self, scale: float = 1.0) -> bool:
        return self.random.random() < self.wrong * scale

    def spec(self, name: str, parent: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"parent": parent, "weight": 1, "reclaimable": True}
        for kind in KINDS:
            # Mostly valid: a child of a queue without a capability must have none, and so on.
            bounded = kind != "capability" or parent == "root" or "capability" in self.specs.get(parent, {})
            wanted = bounded and (kind != "guarantee" or "deserved" in spec)
            if self.random.random() < (0.6 if wanted else 0.08):
                spec[kind] = self.placed(kind, self.amounts(kind, spec, parent))
        if self.lapse():
            spec |= self.mistake(name)
        return spec

    @staticmethod
    def placed(kind: str, amounts: dict[str, Any]) -> dict[str, Any]:
        return {"resource": amounts} if kind == "guarantee" else amounts

    def amounts(self, kind: str, spec: Mapping[str, Any], parent: str) -> dict[str, Any]:
        """Return amounts of one kind, mostly within those of the queue and its parent."""
        above = self.specs.get(parent, {})
        uppers = [
            upper
            for upper in (
                {} if kind == "capability" else self.amounts_of(spec, "capability"),
                self.amounts_of(spec, "deserved") if kind == "guarantee" else {},
                self.amounts_of(above, "capability") if kind == "capability" else {},
                (self.amounts_of(above, kind) or self.amounts_of(above, "capability")) if kind != "capability" else {},
            )
            if upper
        ]
        heeds = self.random.random() > 0.1
        names = [name for name in self.resources if not heeds or all(name in upper for upper in uppers)]
        result: dict[str, Any] = {}
        for resource in self.random.sample(names, self.random.randint(min(1, len(names)), len(names))):
            bounds = [upper[resource] for upper in uppers if isinstance(upper.get(resource), int)]
            top = max(0, min([*bounds, 16]))
            # Siblings share the parent's amount, so each gets a part of it.
            most = top if kind == "capability" or not heeds else min(top, max(1, top // 2))
            result[resource] = self.random.randint(0, most) if heeds else self.random.randint(top, top + 4)
        if self.lapse():
            result[self.random.choice(_RESOURCES + _ODD_RESOURCES)] = self.random.choice(_ODD_AMOUNTS)
        if self.lapse():
            result[self.random.choice(_ODD_RESOURCES)] = self.random.randint(0, 8)
        if self.random.random() < 0.2:
            result = {name: self.written(name, amount) for name, amount in result.items()}
        return result

    def written(self, resource: str, amount: Any) -> Any:
        """Return an amount in another notation."""
        if not isinstance(amount, int) or isinstance(amount, bool):
            return amount
        if resource == "memory":
            return self.random.choice((f"{amount}Gi", f"{amount}G", str(amount)))
        return self.random.choice((str(amount), f"{amount}000m", f"{amount}.0", f"{amount}e0"))

    @staticmethod
    def amounts_of(spec: Mapping[str, Any], kind: str) -> dict[str, Any]:
        value = spec.get(kind) or {}
        value = value.get("resource", {}) if kind == "guarantee" and isinstance(value, dict) else value
        return dict(value) if isinstance(value, dict) else {}

    def mistake(self, name: str) -> dict[str, Any]:
        return self.random.choice(
            (
                {"parent": name},
                {"parent": "default"},
                {"parent": f"{self.prefix}-nobody"},
                {"parent": ""},
                {"parent": "Root"},
                {"parent": None},
                {"weight": 0},
                {"weight": 65535},
                {"weight": 65536},
                {"weight": -1},
                {"weight": "2"},
                {"weight": 1.5},
                {"priority": -1},
                {"priority": 2**31},
                {"priority": 7},
                {"reclaimable": "yes"},
                {"reclaimable": False},
                {"type": "x" * 254},
                {"type": "batch"},
                {"dequeueStrategy": "lifo"},
                {"dequeueStrategy": "fifo"},
                {"capabilty": {"cpu": 1}},
                {"guarantee": {"cpu": 9}},
                {"deserved": [1]},
                {"capability": "8"},
                {"affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}}},
                {"affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "a"}}},
                {"affinity": {"nodeGroupAntiAffinity": []}},
            )
        )

    def change(self) -> Change:
        name = self.random.choice(list(self.specs))
        kind = self.random.choice(("amounts", "amounts", "amounts", "parent", "delete", "same", "bare", "default"))
        if kind == "delete":
            return Change(name, deletes=True)
        if kind == "default":
            return Change(DEFAULT, deletes=True)
        if kind == "bare" and not self.lapse():
            kind = "same"
        if kind == "bare":
            return Change(f"{name}-bare")
        spec = dict(self.specs[name])
        if kind == "parent":
            spec["parent"] = self.random.choice(["root", DEFAULT, *self.specs])
        elif kind == "amounts":
            which = self.random.choice(KINDS)
            spec[which] = self.placed(which, self.amounts(which, spec, str(spec.get("parent"))))
            if self.random.random() < 0.25:
                del spec[which]
        else:
            spec["weight"] = self.random.randint(1, 9)
        self.specs[name] = spec
        return Change(name, spec)
