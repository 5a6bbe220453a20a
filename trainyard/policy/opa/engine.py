"""The policy server as an engine: the cases of the rules, judged by the very bundle that is deployed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.policy.admission import TENANT_LABEL
from trainyard.policy.cases import Case, Judgement, Verdict, World
from trainyard.policy.opa.adapter import OpaAddress, OpaClient
from trainyard.policy.opa.bundle import Bundle
from trainyard.policy.opa.server import OpaServer

__all__ = ["OpaEngine"]

_PLATFORM_NAMESPACE: Final = "kube-system"
_NAMESPACES: Final = {"tenant": "vision", "foreign": "elsewhere", "platform": _PLATFORM_NAMESPACE}
_BATCH: Final = 50


class OpaEngine:
    """Judges cases by a server of its own.

    Parameters
    ----------
    program
        Returns the ``opa`` program.
    bundle
        The rules.
    """

    name = "OPA"

    def __init__(self, program: Callable[[], Path], bundle: Bundle) -> None:
        self._program = program
        self._bundle = bundle

    def judge(self, cases: Iterable[Case], world: World) -> list[Judgement]:
        """Return one judgement a case, in order."""
        with OpaServer(self._program, self._bundle) as address:
            return asyncio.run(_judged(address, list(cases), world))


async def _judged(address: OpaAddress, cases: list[Case], world: World) -> list[Judgement]:
    judgements: list[Judgement] = []
    async with OpaClient(address, timeout=30) as client:
        for start in range(0, len(cases), _BATCH):
            batch = cases[start : start + _BATCH]
            document: dict[str, Any] = {
                "requests": [_request(case, world) for case in batch],
                "parameters": {},
                "states": {},
                "exemptNamespaces": [_PLATFORM_NAMESPACE],
                "exemptions": [],
                "only": None,
                "unknown": [],
                "now": "",
            }
            for case, decision in zip(batch, await client.decide_all(document), strict=True):
                judgements.append(_judgement(case, decision))
    return judgements


def _request(case: Case, world: World) -> dict[str, Any]:
    content = case.content
    namespace = _NAMESPACES[content.namespace]
    subject = content.object or content.old_object or {}
    match = next((match for match in case.rule.matches if match.kind == subject.get("kind")), None)
    tenant = content.namespace == "tenant"
    return {
        "request": {
            "operation": case.operation,
            "namespace": "" if match and match.scope == "Cluster" else namespace,
            "namespaceLabels": {TENANT_LABEL: "tenant"} if tenant else {},
            "object": _named(content.object),
            "oldObject": _named(content.old_object),
            "user": {"name": content.user.name, "groups": list(content.user.groups), "administrator": False},
        },
        "params": {
            "platform": _merged(world.platform, content.platform),
            "tenantPolicy": _merged(world.tenant_policy, content.tenant_policy) if tenant else None,
        },
    }


def _named(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if body is None:
        return None
    result = copy.deepcopy(dict(body))
    result.setdefault("metadata", {}).setdefault("name", "case")
    return result


def _judgement(case: Case, decision: Mapping[str, Any]) -> Judgement:
    found = {
        kind: {entry["path"] for entry in decision[kind] if entry["rule"] == case.rule.id}
        for kind in ("violations", "warnings")
    }
    if found["violations"]:
        return Judgement(Verdict.DENY, frozenset(found["violations"]))
    if not decision["allowed"] and any(entry["rule"] is None for entry in decision["violations"]):
        return Judgement(None, problem=str(decision["violations"][0]["message"]))
    return Judgement(Verdict.WARN if found["warnings"] else Verdict.ALLOW, frozenset(found["warnings"]))


def _merged(world: Mapping[str, Any], case: Mapping[str, Any] | str) -> dict[str, Any] | None:
    return None if isinstance(case, str) else {**world, **case}
