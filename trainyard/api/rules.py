"""Shape rules: the CEL rules of the CRDs, with messages shared by all gates.

Each rule is a CEL expression for the API server and an equivalent Python predicate, to check files without an API
server; a test verifies that both give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "ELASTIC_NODES",
    "ELASTIC_RANGE",
    "FRAMEWORK_EXCLUSIVE",
    "GANG_EXCLUSIVE",
    "IMMUTABLE",
    "SHAPE_RULES",
    "TIER_EXCLUSIVE",
    "ShapeRule",
    "rule_of",
    "validations",
]

_GANGS = ("coscheduling", "volcano", "kai")
_SOURCES = ("torch", "mpi", "jax", "xgboost", "flux", "tensorflow", "paddle", "ray", "horovod")


@dataclass(frozen=True)
class ShapeRule:
    """One CEL rule of a CRD.

    Parameters
    ----------
    expression
        CEL expression that must be true; ``self`` is the field with the rule.
    text
        Error message.
    id
        Rule id; None for upstream's rules, whose messages are unchanged.
    fix
        Fix.
    holds
        The same condition in Python, for a defaulted value that matches its schema; None for transition rules.
    """

    expression: str
    text: str
    id: str | None = None
    fix: str = ""
    holds: Callable[[Any], bool] | None = None

    @property
    def message(self) -> str:
        """Return the message for the API server, prefixed with the id if any."""
        return f"{self.id}: {self.text}" if self.id else self.text


def _at_most_one(fields: tuple[str, ...]) -> str:
    return f"[{', '.join(f'has(self.{field})' for field in fields)}].filter(x, x).size() <= 1"


def _has_at_most_one(fields: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: sum(field in value for field in fields) <= 1


IMMUTABLE: Final = ShapeRule("self == oldSelf", "field is immutable", fix="make a new TrainJob instead")

FRAMEWORK_EXCLUSIVE: Final = ShapeRule(
    _at_most_one(_SOURCES),
    f"Only one of the policy can be configured: {', '.join(_SOURCES)}",
    id="MLP-001",
    fix="keep one framework in spec.mlPolicy and make a second runtime for the other",
    holds=_has_at_most_one(_SOURCES),
)

GANG_EXCLUSIVE: Final = ShapeRule(
    _at_most_one(_GANGS),
    f"Only one gang scheduler can be configured: {', '.join(_GANGS)}",
    id="PGP-001",
    fix="keep one entry in spec.podGroupPolicy: two schedulers cannot place one gang",
    holds=_has_at_most_one(_GANGS),
)

ELASTIC_NODES: Final = ShapeRule(
    "!(has(self.numNodes) && has(self.torch) && has(self.torch.elasticPolicy))",
    "numNodes should not be set if torch.elasticPolicy is configured",
    id="MLP-002",
    fix="remove numNodes; minNodes and maxNodes of torch.elasticPolicy say how many nodes train",
    holds=lambda value: not ("numNodes" in value and "elasticPolicy" in value.get("torch", {})),
)

ELASTIC_RANGE: Final = ShapeRule(
    "!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes",
    "minNodes must not be larger than maxNodes",
    id="MLP-003",
    fix="lower minNodes or raise maxNodes",
    holds=lambda value: value.get("minNodes", 1) <= value.get("maxNodes", value.get("minNodes", 1)),
)

TIER_EXCLUSIVE: Final = ShapeRule(
    "!has(self.highestTierName) || !has(self.highestTierAllowed) || self.highestTierAllowed == 1",
    "highestTierAllowed and highestTierName exclude each other",
    id="PGP-002",
    fix="keep one of them; beside a name, the number's default 1 does not count",
    holds=lambda value: "highestTierName" not in value or value.get("highestTierAllowed", 1) == 1,
)

SHAPE_RULES: Final[Mapping[str, ShapeRule]] = {
    rule.id: rule
    for rule in (FRAMEWORK_EXCLUSIVE, GANG_EXCLUSIVE, ELASTIC_NODES, ELASTIC_RANGE, TIER_EXCLUSIVE)
    if rule.id
}
"""Shape rules of the trainer API with an id, by id."""


_KNOWN: dict[tuple[str, str], ShapeRule] = {}


def validations(*rules: ShapeRule) -> dict[str, Any]:
    """Return the schema extension with CEL rules; :func:`rule_of` is its inverse."""
    _KNOWN.update({(rule.message, rule.expression): rule for rule in rules})
    return {"x-kubernetes-validations": [{"message": rule.message, "rule": rule.expression} for rule in rules]}


def rule_of(entry: Mapping[str, str]) -> ShapeRule:
    """Return the rule of an entry of x-kubernetes-validations.

    Raises
    ------
    KeyError
        If the entry was not created by :func:`validations`.
    """
    return _KNOWN[entry["message"], entry["rule"]]
