"""The proof that what is timed does the same: the cases of the rules, asked of every plane."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.admission.calls import Caller, Said
from benchmarks.admission.scene import tenant, timed
from trainyard.data import data_folder
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.cases import Case, CaseContent

_MADE = re.compile(r"\b([A-Z]{3}-[0-9]{3}) (?:JobSet|PodGroup) ")
_PLAIN = CaseContent(about="", object={})


def comparable_cases() -> list[Case]:
    """Return the cases that live in the world of the planes: something a tenant creates, of a kind that is timed."""
    found = []
    for case in load_cases(data_folder("policies"), load_rules()):
        content = case.content
        ordinary = content.model_copy(update={"about": "", "object": {}, "paths": ()}) == _PLAIN
        if case.operation == "CREATE" and ordinary and (content.object or {}).get("kind") in timed():
            found.append(case)
    return found


def agreement(callers: Mapping[str, Caller], cases: Iterable[Case]) -> dict[str, Any]:
    """Return how many cases were compared and how the planes agreed.

    Gatekeeper names every rule that is broken; the API server stops at the first one, so what it names must be among
    Gatekeeper's. What the whole platform says of objects that it renders from a TrainJob Gatekeeper cannot know.

    Raises
    ------
    SystemExit
        Two contenders disagree: their latencies could not be compared.
    """
    counted: Counter[str] = Counter()
    different = []
    unseen = frozenset(rule.id for rule in load_rules() if rule.cel is None)
    for case in cases:
        body = case.content.object or {}
        said = {name: caller.ask(body, tenant(0)) for name, caller in callers.items()}
        if not said["none"].allowed or not said["webhooks"].allowed:
            counted["refused_for_their_form"] += 1
            continue
        verdict, difference = compared(said["policies"], said["platform"], said["gatekeeper"], unseen)
        counted[verdict] += 1
        if difference:
            different.append(f"{case.id}: {difference}: {said}")
    if different:
        raise SystemExit("the contenders disagree:\n" + "\n".join(different))
    return dict(counted)


def compared(policies: Said, platform: Said, gatekeeper: Said, unseen: frozenset[str]) -> tuple[str, str]:
    """Return what was decided, and where the three differ (empty: nowhere).

    Parameters
    ----------
    unseen
        Rules that the API server's own policies cannot evaluate.
    """
    rendered = frozenset(_MADE.findall(platform.message))
    if platform.allowed != gatekeeper.allowed:
        if gatekeeper.allowed and rendered >= platform.denials:
            return "refused_for_what_is_rendered", ""
        return "different", "one allows, the other refuses"
    if policies.allowed and not platform.allowed and gatekeeper.allowed:
        return "different", "the API server's policies allow it"
    if not platform.denials - rendered <= gatekeeper.denials:
        return "different", "other rules refuse it"
    if platform.allowed and policies.warnings != gatekeeper.warnings - unseen:
        return "different", "other rules warn of it"
    return ("allowed" if platform.allowed else "refused"), ""
