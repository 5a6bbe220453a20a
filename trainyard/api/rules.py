"""Shape rules: the CEL rules of the CRDs, with the messages that every other gate repeats.

Each rule is said twice, as the API server's CEL expression and as a Python predicate, so that files are judged without
an API server; a test holds both to the same verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "IMMUTABLE",
    "ShapeRule",
    "exclusive",
    "known_rules",
    "rule_of",
    "validations",
]


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
    holds
        The same condition in Python, for a value that fits its schema and has its defaults; None for a rule about
        the change from one value to another.
    """

    expression: str
    text: str
    id: str | None = None
    fix: str = ""
    holds: Callable[[Any], bool] | None = None

    @property
    def message(self) -> str:
        """Return the message of the API server; it starts with the id where there is one."""
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
    """Return the schema extension that carries CEL rules; :func:`rule_of` reads it back."""
    _KNOWN.update({(rule.message, rule.expression): rule for rule in rules})
    return {"x-kubernetes-validations": [{"message": rule.message, "rule": rule.expression} for rule in rules]}


def known_rules() -> tuple[ShapeRule, ...]:
    """Return every rule that :func:`validations` has written."""
    return tuple(_KNOWN.values())


def rule_of(entry: Mapping[str, str]) -> ShapeRule:
    """Return the rule behind one entry of a schema's CEL rules.

    Raises
    ------
    KeyError
        The entry was not written by :func:`validations`.
    """
    return _KNOWN[entry["message"], entry["rule"]]
