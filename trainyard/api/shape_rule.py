"""Shape rules: the CEL rules of the CRDs, with messages shared by all gates.

Each rule is a CEL expression for the API server and an equivalent Python predicate, to check files without an API
server; a test verifies that both give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


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


def exclusive(fields: tuple[str, ...], text: str, *, id: str, fix: str) -> ShapeRule:
    """Return the rule that at most one of some fields is set."""
    return ShapeRule(
        f"[{', '.join(f'has(self.{field})' for field in fields)}].filter(x, x).size() <= 1",
        text,
        id=id,
        fix=fix,
        holds=lambda value: sum(field in value for field in fields) <= 1,
    )


IMMUTABLE: Final = ShapeRule("self == oldSelf", "field is immutable", fix="make a new TrainJob instead")

_KNOWN: dict[tuple[str, str], ShapeRule] = {}


def validations(*rules: ShapeRule) -> dict[str, Any]:
    """Return the schema extension with CEL rules; :func:`rule_of` is its inverse."""
    _KNOWN.update({(rule.message, rule.expression): rule for rule in rules})
    return {"x-kubernetes-validations": [{"message": rule.message, "rule": rule.expression} for rule in rules]}


def known_rules() -> tuple[ShapeRule, ...]:
    """Return every rule that :func:`validations` has written."""
    return tuple(_KNOWN.values())


def rule_of(entry: Mapping[str, str]) -> ShapeRule:
    """Return the rule of an entry of x-kubernetes-validations.

    Raises
    ------
    KeyError
        If the entry was not created by :func:`validations`.
    """
    return _KNOWN[entry["message"], entry["rule"]]
