"""Cases of a rule: objects with the expected decision of every engine, and the comparison of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from trainyard.policy.admission_rule import Rule
from trainyard.policy.rule_catalog import read_yaml, validated
from trainyard.settings.settings_model import SettingsModel

__all__ = [
    "MISSING_PARAMETER",
    "Case",
    "CaseContent",
    "CaseResult",
    "Circumstances",
    "Engine",
    "Judgement",
    "Verdict",
    "World",
    "by_parameters",
    "compare",
    "load_world",
    "spec_of",
]

MISSING_PARAMETER = "parameters"
"""Path of the finding that the object a rule reads does not exist."""


class Verdict(StrEnum):
    """What a gate says about an object."""

    ALLOW = "allow"
    DENY = "deny"
    WARN = "warn"


class User(SettingsModel):
    """Who makes the request."""

    name: str = "ann@example.com"
    groups: tuple[str, ...] = ()


class World(SettingsModel):
    """What exists around the judged object; a case replaces single fields."""

    platform: dict[str, Any]
    tenant_policy: dict[str, Any]


def spec_of(world: Mapping[str, Any], case: Mapping[str, Any] | Literal["missing"]) -> dict[str, Any] | None:
    """Return the spec of a parameter object in a case: the world's with the case's fields, None where it is missing."""
    return None if isinstance(case, str) else {**world, **case}


class Circumstances(SettingsModel):
    """What a case says besides its objects."""

    about: str = Field(description="What the case shows, in one line")
    namespace: Literal["tenant", "foreign", "platform"] = "tenant"
    platform: dict[str, Any] | Literal["missing"] = Field(default={}, description="Fields of spec that differ")
    tenant_policy: dict[str, Any] | Literal["missing"] = Field(default={}, description="Fields of spec that differ")
    parameters: dict[str, Any] = Field(default={}, description="Parameters of the rule that differ from its defaults")
    user: User = User()
    paths: tuple[str, ...] = ()
    refused: bool = Field(
        default=False, description="Whether the kind's schema refuses the object before the API server asks any policy"
    )


class CaseContent(Circumstances):
    """A case with its objects.

    An update has both objects. ``object`` is then what the update leaves behind; a deletion has only ``old_object``.
    """

    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    runtime: dict[str, Any] | None = Field(default=None, description="The runtime that a TrainJob names")


@dataclass(frozen=True)
class Case:
    """One object and the verdict of one rule about it."""

    rule: Rule
    name: str
    verdict: Verdict
    content: CaseContent
    path: Path

    @property
    def id(self) -> str:
        """Rule and name, for people."""
        return f"{self.rule.id}/{self.name}"

    @property
    def operation(self) -> Literal["CREATE", "UPDATE", "DELETE"]:
        """The request the case stands for."""
        if self.content.object is None:
            return "DELETE"
        return "CREATE" if self.content.old_object is None else "UPDATE"


@dataclass(frozen=True)
class Judgement:
    """What one engine said.

    Parameters
    ----------
    verdict
        Verdict of the rule under test; None where the engine could not judge.
    paths
        Field paths that the rule named.
    problem
        Why the engine could not judge.
    """

    verdict: Verdict | None
    paths: frozenset[str] = frozenset()
    problem: str = ""


@dataclass(frozen=True)
class CaseResult:
    """A case, what an engine said, and why that is wrong (empty: it is right)."""

    case: Case
    judgement: Judgement
    fault: str


class Engine(Protocol):
    """Something that judges cases."""

    name: str

    def judge(self, cases: Iterable[Case], world: World) -> list[Judgement]:
        """Return one judgement a case, in order."""


def by_parameters(cases: Sequence[Case]) -> list[tuple[dict[str, dict[str, Any]], list[int]]]:
    """Divide cases so that in each part a rule has one set of parameters.

    Returns
    -------
    list[tuple[dict[str, dict[str, Any]], list[int]]]
        The parameters by rule, and the indices of the cases that are judged by them.
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


def load_world(folder: Path) -> World:
    """Read the world that the cases of a catalog folder live in."""
    path = folder / "lib" / "world.yaml"
    return validated(World, read_yaml(path), path)


def compare(case: Case, judgement: Judgement) -> CaseResult:
    """Compare a judgement with what the case expects: the verdict and the set of field paths."""
    expected = frozenset(case.content.paths)
    fault = ""
    if judgement.verdict is None:
        fault = f"not judged: {judgement.problem}"
    elif judgement.verdict is not case.verdict:
        got = f"{judgement.verdict.value} {_shown(judgement.paths)}"
        fault = f"expected {case.verdict.value}, got {got}"
    elif judgement.paths != expected:
        fault = f"expected paths {_shown(expected)}, got {_shown(judgement.paths)}"
    return CaseResult(case, judgement, fault)


def _shown(paths: Iterable[str]) -> str:
    return "[" + ", ".join(sorted(paths)) + "]"
