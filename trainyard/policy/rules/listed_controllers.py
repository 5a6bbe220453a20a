"""Kinds of pod controllers that a stack lists, such as Rollout of Argo: evaluated by the rules of Deployments.

The controllers of these kinds create pods, which the rules reject one by one, unseen by the user. The object itself is
therefore evaluated when it is written, at the places of its pod templates, and so is its subresource scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.policy.rules.admission_rule import AdmissionRule, Match
from trainyard.settings.platform import PodControllerSettings


def with_listed_controllers(
    rules: Iterable[AdmissionRule], controllers: Sequence[PodControllerSettings]
) -> list[AdmissionRule]:
    """Return the rules, those of Deployments and of their scale with a match for each listed kind.

    Parameters
    ----------
    rules
        The catalog.
    controllers
        The kinds.

    Raises
    ------
    TrainyardError
        A kind is listed twice, or the rules evaluate it anyway.
    """
    rules = list(rules)
    known = {(match.group, match.kind) for rule in rules for match in rule.matches}
    findings = []
    for index, each in enumerate(controllers):
        if (each.group, each.kind) in known:
            message = f"kind {each.kind} of {each.group} is evaluated already"
            findings.append(Finding(f"policies.podControllers[{index}]", message, "remove the entry"))
        known.add((each.group, each.kind))
    if findings:
        raise TrainyardError("The policy settings are invalid", findings=findings)
    return [rule.model_copy(update={"matches": (*rule.matches, *_matches(rule, controllers))}) for rule in rules]


def _matches(rule: AdmissionRule, controllers: Iterable[PodControllerSettings]) -> list[Match]:
    by_resource = {match.resource: match for match in rule.matches}
    deployment, scale = by_resource.get("deployments"), by_resource.get("deployments/scale")
    found = [deployment.model_copy(update=dict(each)) for each in controllers] if deployment else []
    return [*found, *(_scale_of(each, scale) for each in controllers)] if scale else found


def _scale_of(controller: PodControllerSettings, like: Match) -> Match:
    served = {"resource": f"{controller.resource}/scale", "served_in": f"{controller.group}/{controller.version}"}
    return like.model_copy(update=served)
