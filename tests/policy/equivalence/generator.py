"""Makes objects to be reviewed: the cases of the rules and what the runtimes become, as they are and mutated.

Everything follows from the seed and the corpus: the same seed gives the same objects on every machine.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tests.policy.equivalence import values
from tests.policy.equivalence.anatomy import Body, Part, parts, places
from tests.policy.equivalence.worlds import PLATFORM_NAMESPACE, USERS, Worlds
from trainyard.policy.testing.cases import Case, CaseDecision, subresource_of

Operation = Literal["CREATE", "UPDATE", "DELETE"]

_FIXED: Final = frozenset({"apiVersion", "kind", "metadata"})
_RESERVED_NAMES: Final = (
    "-runtime-snapshot", "-mpi-hostfile", "-flux-entrypoint", "-mpi-ssh-auth", "-flux-curve",
)  # fmt: skip
_DELETABLE: Final = frozenset({
    "PodGroup", "JobSet", "ConfigMap", "Secret", "TrainingRuntime", "ClusterTrainingRuntime", "TenantPolicy",
    "Platform", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
})  # fmt: skip
_RIGID: Final = frozenset({"Pod", "Job"})
"""Kinds of which the API server lets hardly anything be changed."""

_UPDATED: Final = 0.2
"""Share of the created objects that become updates of what they were."""

_ENDLESS: Final = re.compile(r'\d[eE][+-]?\d{3,}"')
"""An amount with which the API server calculates for minutes when it reads a Pod: no such part is put into others."""


@dataclass(frozen=True)
class Start:
    """What an update or a deletion starts from.

    Parameters
    ----------
    number
        Tells it from the others.
    body
        The object; its own name only where a rule reads it.
    home, platform
        Namespace, and the Platform it is reviewed by.
    """

    number: int
    body: Body
    home: str
    platform: str

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and a finalizer holds it."""
        return "deletionTimestamp" in self.body.get("metadata", {})


@dataclass(frozen=True)
class Subject:
    """One request.

    Parameters
    ----------
    number
        Tells it from the others.
    origin
        The case or runtime that it comes from, and what was done to it.
    body
        The object that the request leaves behind; None for a deletion.
    start
        The object before; None for a creation.
    home, platform, user
        Namespace, Platform and user, by their names in :class:`Worlds`.
    options
        Options of a deletion.
    """

    number: int
    origin: str
    body: Body | None
    start: Start | None
    home: str
    platform: str
    user: str
    options: Body = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """What is done."""
        if self.body is None:
            return "DELETE"
        return "CREATE" if self.start is None else "UPDATE"

    @property
    def shape(self) -> Body:
        """The object, or the one that is deleted."""
        if self.body is not None:
            return self.body
        assert self.start is not None
        return self.start.body

    @property
    def subresource(self) -> str:
        """The subresource that is written."""
        return "" if self.body is None or self.start is None else subresource_of(self.body, self.start.body)

    @property
    def ending(self) -> str:
        """The end of the name that rules know."""
        name = str((self.shape.get("metadata") or {}).get("name", ""))
        return next((ending for ending in _RESERVED_NAMES if name.endswith(ending)), "")


class Generator:
    """Subjects of one seed.

    Parameters
    ----------
    cases
        The cases of the rules.
    others
        Further objects by where they come from: runtimes, and what TrainJobs become.
    worlds
        Where they live.
    seed
        Decides everything that is left to chance.
    """

    def __init__(self, cases: Sequence[Case], others: Mapping[str, Body], worlds: Worlds, seed: int) -> None:
        self._cases, self._others, self._worlds = cases, list(others.items()), worlds
        self._chance = random.Random(f"trainyard {seed}")
        # By rule and by whether the rule allows it, so that each rule is broken about as often as it is kept.
        self._by_rule: dict[str, dict[bool, list[Case]]] = {}
        for case in cases:
            groups = self._by_rule.setdefault(case.rule.id, {})
            groups.setdefault(case.verdict is CaseDecision.ALLOW, []).append(case)
        bodies = [body for case in cases for body in (case.content.object, case.content.old_object) if body is not None]
        bodies = [body for body in bodies if not _ENDLESS.search(json.dumps(body))]
        self._mutations = Mutations(self._chance, [*bodies, *others.values()])
        self._starts: dict[tuple[int, str, str], Start] = {}
        self._updated = {
            id(case): self._chance.random() < (_UPDATED if case.content.object["kind"] not in _RIGID else _UPDATED / 4)
            for case in cases
            if case.operation == "CREATE" and case.content.object is not None
        }

    def unchanged(self) -> Iterator[Subject]:
        """Yield every case as it is, reviewed by all rules and not only by its own."""
        for number, case in enumerate(self._cases):
            home, platform = self._worlds.of_case[id(case)]
            start = self._start(case.content.old_object, home, platform)
            user = _user(case)
            options = case.content.options if case.content.object is None else {}
            yield Subject(number, case.id, copy.deepcopy(case.content.object), start, home, platform, user, options)

    def sampled(self, each: int) -> Iterator[Subject]:
        """Yield so many cases of each rule and verdict as they are, numbered from zero; those with parameters last."""
        seen: Counter[tuple[str, CaseDecision]] = Counter()
        number = 0
        pairs = zip(self._cases, self.unchanged(), strict=True)
        for case, subject in sorted(pairs, key=lambda pair: bool(pair[0].content.parameters)):
            seen[kind := (case.rule.id, case.verdict)] += 1
            if seen[kind] <= each:
                yield replace(subject, number=number)
                number += 1

    def mutated(self, first: int, count: int) -> Iterator[Subject]:
        """Yield mutated objects, numbered from the first."""
        for number in range(first, first + count):
            yield self._mutant(number)

    def _mutant(self, number: int) -> Subject:
        chance = self._chance
        if chance.random() < 0.15:
            origin, body = chance.choice(self._others)
            options: Body = {}
            home, platform, user, old, updated = "tenant", "variant-0", "author", None, chance.random() < _UPDATED
        else:
            case = chance.choice(chance.choice(list(chance.choice(list(self._by_rule.values())).values())))
            origin, user, old = case.id, _user(case), case.content.old_object
            home, platform = self._worlds.of_case[id(case)]
            body, updated = case.content.object, self._updated.get(id(case), False)
            options = case.content.options if body is None else {}
        if chance.random() < 0.35:
            home = chance.choice(list(self._worlds.homes))
        if chance.random() < 0.3:
            platform = chance.choice(list(self._worlds.platforms))
        if chance.random() < 0.25:
            user = chance.choice(list(USERS))
        if old is None and updated:
            old = body
        start = self._start(old, home, platform)
        deleted = chance.random() < 0.06 and old is not None and old["kind"] in _DELETABLE
        if body is None or deleted:
            return Subject(number, f"{origin} deleted", None, start, home, platform, user, options)
        changed = copy.deepcopy(dict(body))
        done = self._mutations.apply(changed, chance.choice((1, 1, 1, 2, 2, 3, 4, 6)), gentle=start is not None)
        return Subject(number, " ".join((origin, *done)), changed, start, home, platform, user)

    def _start(self, body: Body | None, home: str, platform: str) -> Start | None:
        if body is None:
            return None
        key = (id(body), home, platform)
        if key not in self._starts:
            self._starts[key] = Start(len(self._starts), body, home, platform)
        return self._starts[key]


class Mutations:
    """Changes objects at random.

    Parameters
    ----------
    chance
        The source of chance.
    bodies
        Objects whose parts are put into others.
    """

    def __init__(self, chance: random.Random, bodies: Iterable[Body]) -> None:
        self._chance = chance
        self._fields: dict[str, list[tuple[str, Any]]] = {}
        self._items: dict[str, list[Any]] = {}
        for part in (part for body in bodies for part in parts(body)):
            if isinstance(part.node, list):
                self._items.setdefault(part.role, []).extend(part.node)
            else:
                self._fields.setdefault(part.role, []).extend(part.node.items())
        self._kinds: Sequence[tuple[int, str, Callable[[Body], bool]]] = (
            (30, "graft", self._graft),
            (12, "item", self._item),
            (18, "value", self._value),
            (6, "remove", self._remove),
            (7, "annotation", self._annotation),
            (6, "label", self._label),
            (10, "amount", self._amount),
            (3, "duplicate", self._duplicate),
            (1, "anything", self._anything),
            (3, "suspend", self._suspend),
        )

    def apply(self, body: Body, times: int, *, gentle: bool = False) -> list[str]:
        """Change an object and return what was done; a gentle change may be none, or one of metadata only."""
        if gentle and self._chance.random() < 0.3:
            return []
        weights = [weight for weight, _, _ in self._kinds]
        done = []
        for _ in range(times):
            _, name, mutation = self._chance.choices(self._kinds, weights)[0]
            if mutation(body):
                done.append(name)
        return done

    def _some(self, body: Body, wanted: Callable[[Part], bool]) -> Any:
        found = [part for part in parts(body)[1:] if wanted(part)]
        return self._chance.choice(found) if found else None

    def _graft(self, body: Body) -> bool:
        part = self._some(body, lambda part: isinstance(part.node, dict) and part.role in self._fields)
        if part is None:
            return False
        key, value = self._chance.choice(self._fields[part.role])
        if part.node is not body["metadata"] or key in ("annotations", "ownerReferences", "labels", "finalizers"):
            part.node[key] = copy.deepcopy(value)
        return True

    def _item(self, body: Body) -> bool:
        part = self._some(body, lambda part: isinstance(part.node, list) and bool(self._items.get(part.role)))
        if part is None:
            return False
        item = copy.deepcopy(self._chance.choice(self._items[part.role]))
        part.node.insert(self._chance.randint(0, len(part.node)), item)
        return True

    def _value(self, body: Body) -> bool:
        found = [
            (node, key) for node, key in _free(body) if key in values.KEYS and not isinstance(node[key], dict | list)
        ]
        if not found:
            return False
        node, key = self._chance.choice(found)
        node[key] = self._chance.choice(values.KEYS[key])
        return True

    def _remove(self, body: Body) -> bool:
        found = _free(body)
        if found:
            node, key = self._chance.choice(found)
            del node[key]
        return bool(found)

    def _duplicate(self, body: Body) -> bool:
        part = self._some(body, lambda part: isinstance(part.node, list) and bool(part.node))
        if part is not None:
            part.node.append(copy.deepcopy(self._chance.choice(part.node)))
        return part is not None

    def _anything(self, body: Body) -> bool:
        found = _free(body)
        if found:
            node, key = self._chance.choice(found)
            node[key] = copy.deepcopy(self._chance.choice(values.ANY))
        return bool(found)

    def _annotation(self, body: Body) -> bool:
        return self._entry(body, "annotations", values.ANNOTATIONS)

    def _label(self, body: Body) -> bool:
        return self._entry(body, "labels", values.LABELS)

    def _entry(self, body: Body, field: str, known: Mapping[str, Sequence[Any]]) -> bool:
        part = self._some(body, lambda part: isinstance(part.node, dict) and part.role in _WITH_METADATA)
        if part is None:
            return False
        metadata = part.node
        if part.role not in ("Metadata", "TrainJobSpec"):
            metadata = part.node.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            return False
        entries = metadata.setdefault(field, {})
        if isinstance(entries, dict):
            key = self._chance.choice(list(known))
            entries[key] = self._chance.choice(known[key])
        return True

    def _amount(self, body: Body) -> bool:
        part = self._some(
            body, lambda part: isinstance(part.node, dict) and part.role in ("Container", "Resources", "Trainer")
        )
        if part is None:
            return False
        field = {"Container": "resources", "Trainer": "resourcesPerNode"}.get(part.role)
        resources = part.node if field is None else part.node.setdefault(field, {})
        if isinstance(resources, dict):
            amounts = resources.setdefault(self._chance.choice(("limits", "limits", "requests")), {})
            if isinstance(amounts, dict):
                amounts[self._chance.choice(values.ACCELERATORS)] = self._chance.choice(values.AMOUNTS)
        return True

    def _suspend(self, body: Body) -> bool:
        spec = body.get("spec")
        if isinstance(spec, dict):
            spec["suspend"] = self._chance.choice((True, False))
        return isinstance(spec, dict)


_WITH_METADATA: Final = frozenset({"Metadata", "TrainJobSpec", "PodTemplate", "JobTemplate", "JobSetTemplate"})


def _free(body: Body) -> list[tuple[Any, Any]]:
    """Return the places that a change may take: all but what the object is identified by."""
    own = [(body, key) for key in body if key not in _FIXED]
    metadata = body.get("metadata")
    rest = [
        key for key in (metadata if isinstance(metadata, dict) else ()) if key not in ("name", "namespace", "labels")
    ]
    below = [place for node, key in own for place in places(node[key])]
    return own + below + [(metadata, key) for key in rest]


def _user(case: Case) -> str:
    """Return the known user that is most like that of a case."""
    user = case.content.user
    for name, known in USERS.items():
        if known.name == user.name or (known.groups and set(known.groups) == set(user.groups)):
            return name
    if any(group == f"system:serviceaccounts:{PLATFORM_NAMESPACE}" for group in user.groups):
        return "controller"
    return "account" if user.groups else "author"
