"""Rules of a check, by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from trainyard.checks.finding import Finding, Severity


@dataclass(frozen=True)
class Rule:
    """Rule of a check.

    Parameters
    ----------
    id
        Identifier, carried by findings.
    title
        Requirement, in one sentence.
    effect
        Consequence of a violation.
    severity
        Severity of a violation.
    """

    id: str
    title: str
    effect: str
    severity: Severity = field(default=Severity.ERROR, kw_only=True)

    @classmethod
    def warning(cls, id: str, title: str, effect: str, **more: Any) -> Self:
        """Return a rule whose violation is a warning."""
        return cls(id, title, effect, severity=Severity.WARNING, **more)


AnyRule = TypeVar("AnyRule", bound=Rule)


class RuleSet(Mapping[str, AnyRule], Generic[AnyRule]):
    """Rules by id.

    Parameters
    ----------
    rules
        The rules.

    Raises
    ------
    ValueError
        Two rules have the same id.
    """

    def __init__(self, rules: Iterable[AnyRule]) -> None:
        self._rules: dict[str, AnyRule] = {}
        for rule in rules:
            if rule.id in self._rules:
                raise ValueError(f"rule {rule.id} is declared twice")
            self._rules[rule.id] = rule

    def __getitem__(self, rule_id: str) -> AnyRule:
        return self._rules[rule_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def finding(self, path: str, message: str, fix: str, rule: str, *, object: str = "", file: str = "") -> Finding:
        """Return the finding for a violation of a rule, with the severity of the rule.

        Parameters
        ----------
        path, message, fix, object, file
            As in :class:`Finding`.
        rule
            Id of the rule.

        Raises
        ------
        KeyError
            No rule has the id.
        """
        return Finding(path, message, fix, rule, severity=self._rules[rule].severity, object=object, file=file)
