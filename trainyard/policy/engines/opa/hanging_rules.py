"""Decisions with a time limit that names the rules whose evaluation does not end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trainyard.policy.review import DecisionTimeoutError, DecisionUnavailableError

_Decide = Callable[[Mapping[str, Any]], Awaitable[list[dict[str, Any]]]]


class NamedTimeouts:
    """Source of decisions that evaluates each rule alone after a timeout.

    Parameters
    ----------
    decide
        Returns one decision per request.
    probe
        The same with a shorter time limit, for one rule.
    rules
        Ids of the rules.
    """

    def __init__(self, decide: _Decide, probe: _Decide, rules: Sequence[str]) -> None:
        self._decide = decide
        self._probe = probe
        self._rules = rules

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return one decision per request.

        Raises
        ------
        DecisionUnavailableError
            There is none; after a timeout, names the rules that cause it.
        """
        try:
            return await self._decide(documents)
        except DecisionTimeoutError as error:
            wanted = documents.get("only")
            rules = self._rules if wanted is None else [rule for rule in self._rules if rule in wanted]
            hanging = [rule for rule in rules if await self._hangs(rule, documents)]
            if not hanging:
                raise
            raise DecisionUnavailableError(
                f"the evaluation of rule {', '.join(hanging)} does not end",
                fix="correct its Rego: it evaluates too many combinations",
            ) from error

    async def _hangs(self, rule: str, documents: Mapping[str, Any]) -> bool:
        try:
            await self._probe({**documents, "only": [rule]})
        except DecisionTimeoutError:
            return True
        except DecisionUnavailableError:
            return False
        return False
