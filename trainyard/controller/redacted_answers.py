"""Answers to reviews whose sender is not known: they quote what the review contains, and nothing else of a tenant.

Where the API server does not authenticate itself, a pod can ask in its name about any namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainyard.api import TrainingRuntime, TrainJob, parse
from trainyard.api.constants import ANCESTOR_LABEL, API_VERSION, CONTAINER_NODE, TRAINER, TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.jobs.render.pipeline import validate
from trainyard.jobs.render.result import AdmissionDecision, RenderContext
from trainyard.policy.gate import GateDecision

_FIX = "`trainyard check` with the job, its runtime and the settings shows what does not fit"
_CONTAINER: Final = {"name": CONTAINER_NODE, "image": "image"}
_NEUTRAL_RUNTIME: Final = parse(
    TrainingRuntime,
    {
        "apiVersion": API_VERSION,
        "kind": TRAINING_RUNTIME,
        "metadata": {"name": "any"},
        "spec": {
            "mlPolicy": {"torch": {}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": CONTAINER_NODE,
                            "template": {
                                "metadata": {"labels": {ANCESTOR_LABEL: TRAINER}},
                                "spec": {"template": {"spec": {"containers": [_CONTAINER]}}},
                            },
                        }
                    ]
                }
            },
        },
    },
)
"""A runtime with nothing of a tenant."""


def redacted_verdict(verdict: AdmissionDecision, train_job: TrainJob, old: TrainJob | None) -> AdmissionDecision:
    """Return a verdict without what it quotes from a runtime of the namespace.

    A finding is kept if a runtime that says nothing leads to the same one.
    """
    if not (verdict.errors or verdict.warnings):
        return verdict
    own = validate(train_job, _NEUTRAL_RUNTIME, RenderContext(), old=old)
    known = {*own.errors, *own.warnings}
    errors = tuple(finding for finding in verdict.errors if finding in known)
    if len(errors) < len(verdict.errors):
        errors += (Finding("spec.runtimeRef", "the runtime does not fit the job", _FIX),)
    return AdmissionDecision(errors, tuple(finding for finding in verdict.warnings if finding in known))


def redacted_decision(decision: GateDecision) -> GateDecision:
    """Return a decision that names the rules only: a rule may quote the TenantPolicy of the namespace."""
    return GateDecision(_rules(decision.denials), _rules(decision.warnings), _rules(decision.audits))


def _rules(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    rules = dict.fromkeys(finding.rule for finding in findings)
    return tuple(Finding("", f"violates {rule or 'a rule'}", _FIX, rule) for rule in rules)
