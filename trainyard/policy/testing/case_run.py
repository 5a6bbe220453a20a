"""Run the cases of the rule folders on every available engine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.kube.blocking import BlockingSession
from trainyard.policy.check.cel_compilation import require_compiled
from trainyard.policy.engines.api_validator import ApiValidator
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.apiserver import ApiServerEngine
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.cases import Case, CaseEngine, CaseResult, CaseWorld, compare, load_world
from trainyard.policy.testing.opa_engine import OpaEngine


@dataclass(frozen=True)
class EngineReport:
    """Results of one engine.

    Parameters
    ----------
    engine
        Name of the engine.
    results
        One result per case.
    seconds
        Duration, including setup.
    """

    engine: str
    results: tuple[CaseResult, ...]
    seconds: float

    @property
    def faults(self) -> tuple[CaseResult, ...]:
        """Results that differ from the expectation."""
        return tuple(result for result in self.results if result.fault)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "engine": self.engine,
            "seconds": round(self.seconds, 1),
            "passed": len(self.results) - len(self.faults),
            "results": [
                {
                    "rule": result.case.rule.id,
                    "case": result.case.name,
                    "file": str(result.case.path),
                    "fault": result.fault or None,
                }
                for result in self.results
            ],
        }

    def lines(self) -> list[str]:
        """Return the report as text: a line per rule, then each failure."""
        total, failed = (Counter(result.case.rule.id for result in results) for results in (self.results, self.faults))
        passed = len(self.results) - len(self.faults)
        lines = [f"{self.engine}: {passed} of {len(self.results)} cases as expected ({self.seconds:.1f} s)"]
        titles = {result.case.rule.id: result.case.rule.title for result in self.results}
        lines += [
            f"  {'✗' if failed[rule] else '✓'} {rule}  {total[rule] - failed[rule]:>3}/{total[rule]:<3} {titles[rule]}"
            for rule in sorted(total)
        ]
        for result in self.faults:
            lines += [f"{result.case.path}: {result.case.id}: {result.case.content.about}", f"    {result.fault}"]
        return lines


def run_cases(
    folders: Sequence[Path] = (),
    *,
    program: Callable[[], Path] | None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    only: Collection[str] = (),
    validator: ApiValidator | None = None,
) -> list[EngineReport]:
    """Run the cases.

    Parameters
    ----------
    folders
        Further rule folders, beside the shipped ones.
    program
        Returns the ``opa`` program of the policy server; None skips this engine.
    kubeconfig, context
        Cluster whose API server evaluates the cases too; None skips this engine. All created objects are deleted again,
        and existing ones are not changed. Rules that see more than the request, and scales, are evaluated by OPA only.
    only
        Ids of the rules to test; empty: all.
    validator
        Compiles the CEL of these rules first, as the API server does; None: CEL is not compiled without a cluster.

    Raises
    ------
    TrainyardError
        An id is unknown, a rule folder is invalid, CEL does not compile, or the cluster rejects a request.
    """
    catalogs = [data_folder("policies"), *folders]
    rules = load_rules(*catalogs)
    if unknown := sorted(set(only) - {rule.id for rule in rules}):
        raise TrainyardError(
            f"Rule {unknown[0]} does not exist", fix=f"known rules: {', '.join(rule.id for rule in rules)}"
        )
    if validator is not None and validator.available:
        require_compiled([rule for rule in rules if not only or rule.id in only], validator)
    cases: list[Case] = [
        case for folder in catalogs for case in load_cases(folder, rules) if not only or case.rule.id in only
    ]
    world = load_world(catalogs[0])
    engines = [OpaEngine(program, build_bundle(*folders, rules=rules))] if program else []
    reports = [_report(engine, cases, world) for engine in engines]
    if kubeconfig is not None:
        with BlockingSession(kubeconfig, context) as session:
            seen = [case for case in cases if case.rule.gate is not EnforcementPoint.OPA and case.has_labels]
            reports.append(_report(ApiServerEngine(session), seen, world))
    return reports


def _report(engine: CaseEngine, cases: Sequence[Case], world: CaseWorld) -> EngineReport:
    started = time.monotonic()
    evaluations = engine.evaluate(cases, world)
    results = tuple(compare(case, evaluation) for case, evaluation in zip(cases, evaluations, strict=True))
    return EngineReport(engine.name, results, time.monotonic() - started)
