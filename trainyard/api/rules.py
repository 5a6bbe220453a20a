"""Shape rules: what the CRDs say in CEL, with the text that every other gate repeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "ELASTIC_NODES",
    "FRAMEWORK_EXCLUSIVE",
    "GANG_EXCLUSIVE",
    "IMMUTABLE",
    "SHAPE_RULES",
    "ShapeRule",
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
        CEL expression that must be true; ``self`` is the field that carries the rule.
    text
        What is wrong when it is not.
    id
        Identifier of the rule; None for a rule taken over from upstream, whose message stays as users know it.
    fix
        What to change.
    """

    expression: str
    text: str
    id: str | None = None
    fix: str = ""

    @property
    def message(self) -> str:
        """Return the message of the API server; it starts with the id where there is one."""
        return f"{self.id}: {self.text}" if self.id else self.text


def _at_most_one(fields: tuple[str, ...]) -> str:
    return f"[{', '.join(f'has(self.{field})' for field in fields)}].filter(x, x).size() <= 1"


IMMUTABLE: Final = ShapeRule("self == oldSelf", "field is immutable")

FRAMEWORK_EXCLUSIVE: Final = ShapeRule(
    _at_most_one(_SOURCES),
    f"Only one of the policy can be configured: {', '.join(_SOURCES)}",
    id="MLP-001",
    fix="keep one framework in spec.mlPolicy and make a second runtime for the other",
)

GANG_EXCLUSIVE: Final = ShapeRule(
    _at_most_one(_GANGS),
    f"Only one gang scheduler can be configured: {', '.join(_GANGS)}",
    id="PGP-001",
    fix="keep one entry in spec.podGroupPolicy: two schedulers cannot place one gang",
)

ELASTIC_NODES: Final = ShapeRule(
    "!(has(self.numNodes) && has(self.torch) && has(self.torch.elasticPolicy))",
    "numNodes should not be set if torch.elasticPolicy is configured",
    id="MLP-002",
    fix="remove numNodes; minNodes and maxNodes of torch.elasticPolicy say how many nodes train",
)

SHAPE_RULES: Final[Mapping[str, ShapeRule]] = {
    rule.id: rule for rule in (FRAMEWORK_EXCLUSIVE, GANG_EXCLUSIVE, ELASTIC_NODES) if rule.id
}
"""Shape rules with an id, by id."""


def validations(*rules: ShapeRule) -> dict[str, Any]:
    """Return the schema extension that carries CEL rules."""
    return {"x-kubernetes-validations": [{"message": rule.message, "rule": rule.expression} for rule in rules]}
