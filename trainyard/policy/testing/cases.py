"""Test cases of a rule: objects with their expected verdict, and the comparison with an engine's evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pydantic import Field

from trainyard.policy.rules.admission_rule import AdmissionRule, Match
from trainyard.policy.rules.rule_catalog import read_yaml, validated
from trainyard.settings.settings_model import SettingsModel

EVICTION: Final = {"apiVersion": "policy/v1", "kind": "Eviction"}
"""Kind that is created to evict a pod."""

ACCOUNT_REQUEST: Final = "TokenRequest"
"""Kind that is created to get a token of the ServiceAccount of its name."""


SCALE: Final = "Scale"
"""Kind of the subresource scale."""


class CaseDecision(StrEnum):
    """What a gate decides about an object."""

    ALLOW = "allow"
    DENY = "deny"
    WARN = "warn"


class CaseUser(SettingsModel):
    """User of the request."""

    name: str = "ann@example.com"
    groups: tuple[str, ...] = ()


class CaseWorld(SettingsModel):
    """Parameter objects that exist beside the evaluated object; a case overrides single fields."""

    platform: dict[str, Any]
    tenant_policy: dict[str, Any]


def spec_of(world: Mapping[str, Any], case: Mapping[str, Any] | Literal["missing"]) -> dict[str, Any] | None:
    """Return the spec of a parameter object: the world's with the case's overrides; None if it is missing."""
    return None if isinstance(case, str) else {**world, **case}


class Circumstances(SettingsModel):
    """Circumstances of a case: everything but its objects."""

    about: str = Field(description="Purpose of the case, in one line")
    namespace: Literal["tenant", "foreign", "platform"] = "tenant"
    platform: dict[str, Any] | Literal["missing"] = Field(default={}, description="Overrides of spec")
    tenant_policy: dict[str, Any] | Literal["missing"] = Field(default={}, description="Overrides of spec")
    parameters: dict[str, Any] = Field(default={}, description="Overrides of the rule's parameter defaults")
    user: CaseUser = CaseUser()
    paths: tuple[str, ...] = ()
    refused: bool = Field(
        default=False,
        description="Whether the kind's schema, or admission plug-in RuntimeClass, rejects the object before policies",
    )


class CaseContent(Circumstances):
    """A case with its objects.

    A creation has only ``object``, a deletion only ``old_object``, an update both, and an eviction an Eviction and
    its pod.
    """

    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    runtime: dict[str, Any] | None = Field(default=None, description="The runtime that the TrainJob references")
    options: dict[str, Any] = Field(default={}, description="Options of the request")


@dataclass(frozen=True)
class Case:
    """One request and the expected verdict of one rule."""

    rule: AdmissionRule
    name: str
    verdict: CaseDecision
    content: CaseContent
    path: Path

    @property
    def id(self) -> str:
        """Rule id and name, for display."""
        return f"{self.rule.id}/{self.name}"

    @property
    def operation(self) -> Literal["CREATE", "UPDATE", "DELETE"]:
        """Operation of the request."""
        if self.content.object is None:
            return "DELETE"
        return "CREATE" if self.content.old_object is None or self.evicts else "UPDATE"

    @property
    def evicts(self) -> bool:
        """Whether the request evicts the pod that is the old object."""
        return (self.content.object or {}).get("kind") == EVICTION["kind"]

    @property
    def has_labels(self) -> bool:
        """Whether the reviewed object has labels, by which a policy under test selects it; a scale has none."""
        return (self.content.object or {}).get("kind") != SCALE

    @property
    def is_stored(self) -> bool:
        """Whether the API server stores the object of the request, not an eviction, a token or a scale."""
        if not self.has_labels:
            return False
        return self.operation != "CREATE" or self.match is None or "/" not in self.match.resource

    @property
    def match(self) -> Match | None:
        """The kind of the rule that the request is of; None if the rule does not evaluate it.

        A status, and the ephemeral containers and resources of a pod, change through a subresource only, and a pod is
        evicted through another one.
        """
        new, old = self.content.object or {}, self.content.old_object or {}
        subject = new or old
        kind = subject.get("apiVersion"), subject.get("kind")
        found = [
            match
            for match in self.rule.matches
            if (match.api_version, match.kind) == kind and self.operation in match.operations
        ]
        offered = {match.resource.partition("/")[2]: match for match in reversed(found)}
        if self.evicts:
            return offered.get("eviction")
        if subject.get("kind") == ACCOUNT_REQUEST:
            return offered.get("token")
        if subject.get("kind") == SCALE:
            return offered.get("scale")
        wanted = subresource_of(new, old) if self.operation == "UPDATE" else ""
        return offered.get(wanted if wanted in offered or wanted == "ephemeralcontainers" else "")


def subresource_of(new: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    """Return the subresource through which an update is made; empty for the object itself."""
    if new.get("status") != old.get("status") and new.get("kind") in ("Pod", "Queue", "ResourceQuota"):
        return "status"
    if new.get("kind") != "Pod" or new.get("apiVersion") != "v1":
        return ""
    if _of_spec(new, "ephemeralContainers") != _of_spec(old, "ephemeralContainers"):
        return "ephemeralcontainers"
    before, after = ([each.get("resources") for each in _containers(pod)] for pod in (old, new))
    return "resize" if len(before) == len(after) and before != after else ""


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = _of_spec(pod, "containers")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _of_spec(pod: Mapping[str, Any], field: str) -> Any:
    spec = pod.get("spec")
    return spec.get(field) if isinstance(spec, Mapping) else None


@dataclass(frozen=True)
class Evaluation:
    """Result of one engine.

    Parameters
    ----------
    verdict
        Decision of the rule under test; None if the evaluation failed.
    paths
        Field paths of the violations.
    error
        Why the evaluation failed.
    messages
        Texts of the violations, with their fixes; the API server has one for all paths of a validation.
    """

    verdict: CaseDecision | None
    paths: frozenset[str] = frozenset()
    error: str = ""
    messages: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CaseResult:
    """A case, an engine's evaluation, and how it differs from the expected one (empty: it does not)."""

    case: Case
    evaluation: Evaluation
    fault: str


class CaseEngine(Protocol):
    """Evaluates cases."""

    name: str

    def evaluate(self, cases: Iterable[Case], world: CaseWorld) -> list[Evaluation]:
        """Return one evaluation per case, in order."""


def group_by_parameters(cases: Sequence[Case]) -> list[tuple[dict[str, dict[str, Any]], list[int]]]:
    """Partition cases so that each part has one parameter set per rule.

    Returns
    -------
    list[tuple[dict[str, dict[str, Any]], list[int]]]
        Parameters by rule, and the indices of the cases that use them.
    """
    sets: dict[str, list[dict[str, Any]]] = {}
    parts: list[tuple[dict[str, dict[str, Any]], list[int]]] = []
    for index, case in enumerate(cases):
        known = sets.setdefault(case.rule.id, [{}])
        if case.content.parameters not in known:
            known.append(case.content.parameters)
        number = known.index(case.content.parameters)
        parts += [({}, []) for _ in range(number + 1 - len(parts))]
        parts[number][0][case.rule.id] = case.content.parameters
        parts[number][1].append(index)
    return [part for part in parts if part[1]]


def load_world(folder: Path) -> CaseWorld:
    """Read the parameter objects of a catalog folder's cases."""
    path = folder / "lib" / "world.yaml"
    return validated(CaseWorld, read_yaml(path), path)


def compare(case: Case, evaluation: Evaluation) -> CaseResult:
    """Compare an evaluation with the expected verdict and field paths."""
    expected = frozenset(case.content.paths)
    fault = ""
    if evaluation.verdict is None:
        fault = f"not evaluated: {evaluation.error}"
    elif evaluation.verdict is not case.verdict:
        got = f"{evaluation.verdict.value} {_shown(evaluation.paths)}"
        fault = f"expected {case.verdict.value}, got {got}"
    elif evaluation.paths != expected:
        fault = f"expected paths {_shown(expected)}, got {_shown(evaluation.paths)}"
    return CaseResult(case, evaluation, fault)


def _shown(paths: Iterable[str]) -> str:
    return "[" + ", ".join(sorted(paths)) + "]"
