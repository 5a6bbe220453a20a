"""Review of all declared objects by the admission rules before the first of them is written.

The engine evaluates a policy pack when all resources are known, which in `up` is after they are written. `trainyard up`
therefore asks the program for a review of what it declares.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.toolchain import built_program
from trainyard.policy.pack.review_pack import REVIEW_VARIABLE, WHOLE, PackReport, PolicyPack
from trainyard.policy.pack.stack_resources import StackResource
from trainyard.policy.pack.stack_values import properties
from trainyard.settings.stack import StackSettings

from .threads import run_in_thread


@dataclass(frozen=True)
class DeclaredObject:
    """An object that the program declares.

    Parameters
    ----------
    type, name
        Type token and name of its resource.
    body
        The object, or the patch of one.
    """

    type: str
    name: str
    body: Mapping[str, Any]


def is_reviewed() -> bool:
    """Return whether this run is an update whose objects are reviewed before they are written."""
    return os.environ.get(REVIEW_VARIABLE) == "true" and not pulumi.runtime.is_dry_run()


def review(settings: StackSettings, declared: Sequence[DeclaredObject]) -> None:
    """Review what a stack declares.

    Raises
    ------
    TrainyardError
        Names each object that violates a mandatory rule, with the rule and the fix; or the rules cannot be evaluated.
    """
    pack = PolicyPack(lambda: built_program("opa"), settings)
    read = (each for each in declared if pack.reads(str(each.body["kind"])))
    resources = [StackResource(each.name, each.type, properties(each.body)) for each in read]

    async def evaluate() -> list[PackReport]:
        return await asyncio.to_thread(pack.evaluate, resources)

    try:
        reports = run_in_thread(evaluate)
    finally:
        pack.stop()
    if findings := [_finding(each) for each in reports if each.mandatory]:
        raise TrainyardError(
            "Objects of this stack violate mandatory rules; nothing is written",
            findings=findings,
            fix="correct the settings, or change the state of the rule in trainyard:policies.states",
        )


def _finding(report: PackReport) -> Finding:
    message, _, fix = report.message.rpartition(". Fix: ")
    rule = None if report.policy == WHOLE else report.policy
    return Finding(report.urn, f"{rule} {message or fix}" if rule else message or fix, fix if message else "", rule)
