"""Decisions with a time limit that names the rules whose evaluation does not end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.socket_client import SocketClient
from trainyard.policy.review import DecisionTimeoutError, DecisionUnavailableError

if TYPE_CHECKING:
    from trainyard.policy.engines.opa.opa_client import OpaClient

_RULE_SECONDS: Final = 5.0
"""Timeout of one rule for a batch, far above its usual duration."""

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
        except DecisionUnavailableError as error:
            return isinstance(error, DecisionTimeoutError)
        return False


@asynccontextmanager
async def decisions_of(address: OpaAddress, rules: Sequence[str], *, seconds: float) -> AsyncIterator[NamedTimeouts]:
    """Open the source of decisions of a policy server, with a time limit for a batch."""
    async with _client(address, seconds) as client, _client(address, _RULE_SECONDS) as probe:
        yield NamedTimeouts(client.decide_all, probe.decide_all, rules)


def _client(address: OpaAddress, seconds: float) -> OpaClient | SocketClient:
    """Return the client for an address; the library for remote servers is imported only if needed."""
    if address.socket is not None:
        return SocketClient(address.socket, address.revision, timeout=seconds)
    from trainyard.policy.engines.opa.opa_client import OpaClient

    return OpaClient(address, timeout=seconds)
