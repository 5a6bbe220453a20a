"""OPA engine: evaluates the cases of the rules with the deployed bundle."""

from __future__ import annotations

import asyncio
import copy
import datetime
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import Bundle
from trainyard.policy.engines.opa.hanging_rules import decisions_of
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.review import AdmissionContext, Decision, Review, decision_of, documents_of
from trainyard.policy.testing.cases import Case, CaseDecision, CaseWorld, Evaluation, group_by_parameters, spec_of
from trainyard.settings.platform import PolicySettings

_PLATFORM_NAMESPACE: Final = "kube-system"
_NAMESPACES: Final = {"tenant": "vision", "foreign": "elsewhere", "platform": _PLATFORM_NAMESPACE}
_BATCH: Final = 50


class OpaEngine:
    """Evaluates cases with its own policy server.

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

    def evaluate(self, cases: Iterable[Case], world: CaseWorld) -> list[Evaluation]:
        """Return one evaluation per case, in order."""
        with OpaServer(self._program, self._bundle) as address:
            return asyncio.run(_evaluated(address, list(cases), world))


async def _evaluated(address: OpaAddress, cases: list[Case], world: CaseWorld) -> list[Evaluation]:
    evaluations: dict[int, Evaluation] = {}
    now = datetime.datetime.now(datetime.UTC)
    async with decisions_of(address, sorted({case.rule.id for case in cases}), seconds=30) as client:
        for parameters, indices in group_by_parameters(cases):
            prefilter = Prefilter({cases[index].rule.id: cases[index].rule for index in indices}.values(), parameters)
            context = AdmissionContext(
                PolicySettings(parameters=parameters), (_PLATFORM_NAMESPACE,), now, prefilter=prefilter
            )
            for start in range(0, len(indices), _BATCH):
                batch = indices[start : start + _BATCH]
                document = documents_of((_review(cases[index], world) for index in batch), context)
                for index, decision in zip(batch, await client.decide_all(document), strict=True):
                    evaluations[index] = _evaluation(cases[index], decision_of(decision))
    return [evaluations[index] for index in range(len(cases))]


def _review(case: Case, world: CaseWorld) -> Review:
    content = case.content
    match = case.match
    tenant = content.namespace == "tenant"
    return Review(
        case.operation,
        _named(content.object),
        None if case.evicts else _named(content.old_object),
        namespace="" if match and match.scope == "Cluster" else _NAMESPACES[content.namespace],
        namespace_labels={TENANT_LABEL: "tenant"} if tenant else {},
        user=content.user.name,
        groups=content.user.groups,
        platform=spec_of(world.platform, content.platform),
        tenant_policy=spec_of(world.tenant_policy, content.tenant_policy) if tenant else None,
        runtime=content.runtime,
        subresource=match.resource.partition("/")[2] if match else "",
        options=content.options,
    )


def _named(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if body is None:
        return None
    result = copy.deepcopy(dict(body))
    result.setdefault("metadata", {}).setdefault("name", "case")
    return result


def _evaluation(case: Case, decision: Decision) -> Evaluation:
    denied, warned = (
        frozenset(finding.path for finding in findings if finding.rule == case.rule.id)
        for findings in (decision.violations, decision.warnings)
    )
    messages = frozenset(
        f"{finding.message}; {finding.fix}"
        for finding in (*decision.violations, *decision.warnings)
        if finding.rule == case.rule.id
    )
    undecided = next((finding for finding in decision.violations if finding.rule is None), None)
    if undecided:
        return Evaluation(None, error=undecided.message)
    verdict = CaseDecision.DENY if denied else CaseDecision.WARN if warned else CaseDecision.ALLOW
    return Evaluation(verdict, denied or warned, messages=messages)
