"""What the gates say, side by side: every difference that no rule explains, and how often each rule spoke."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.policy.equivalence.anatomy import places
from tests.policy.equivalence.gates import Checked
from tests.policy.equivalence.reviewed import Finding, Reviewed
from tests.policy.equivalence.worlds import Worlds
from trainyard.policy.review import Decision
from trainyard.policy.rules.admission_rule import AdmissionRule, EnforcementPoint, Reach


@dataclass
class Tally:
    """What became of the subjects.

    Parameters
    ----------
    differences
        One line for each thing on which two gates disagree.
    counts
        Subjects by what became of them.
    kinds
        Reviewed subjects by kind and operation.
    refusals
        What refused subjects before the policies.
    violated, kept
        Reviewed subjects by rule that violated it, and that it reviewed and let pass.
    """

    differences: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    violated: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def differ(self, reviewed: Reviewed, text: str) -> None:
        """Note a difference."""
        subject = reviewed.subject
        where = f"{subject.operation} {subject.shape['kind']} by {subject.user} in {subject.home}, {subject.platform}"
        self.differences.append(f"{subject.number} ({subject.origin}; {where}): {text}")

    def add(self, other: Tally) -> None:
        """Count in what became of other subjects."""
        self.differences += other.differences
        for name in ("counts", "kinds", "refusals", "violated", "kept"):
            getattr(self, name).update(getattr(other, name))

    def lines(self) -> list[str]:
        """Return the summary."""
        total = self.counts["subjects"]
        names = ("reviewed", "refused earlier", "not begun", "denied", "warned", "allowed", "checked")
        lines = [f"{total} objects: " + ", ".join(f"{self.counts[name]} {name}" for name in names)]
        lines.append("by kind: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())))
        rules = sorted({*self.violated, *self.kept})
        lines.append(
            "by rule (violated/kept): " + ", ".join(f"{rule} {self.violated[rule]}/{self.kept[rule]}" for rule in rules)
        )
        return lines


class Comparison:
    """Compares the gates in the sense in which verdicts are equal: allowed or denied, and the set of rule and path.

    Parameters
    ----------
    rules
        The catalog; it says which gate sees what.
    worlds
        Where the subjects live.
    """

    def __init__(self, rules: Iterable[AdmissionRule], worlds: Worlds) -> None:
        self._rules = {rule.id: rule for rule in rules}
        self._worlds = worlds
        self.tally = Tally()

    def count(self, reviewed: Iterable[Reviewed]) -> tuple[list[Reviewed], list[Reviewed]]:
        """Count the subjects and return those that reached the policies and those that were refused before."""
        reached, refused = [], []
        for each in reviewed:
            self.tally.counts["subjects"] += 1
            if each.error.startswith("start was refused"):
                self.tally.counts["not begun"] += 1
            elif each.error:
                self.tally.differ(each, each.error)
            elif each.refused:
                refused.append(each)
                self.tally.counts["refused earlier"] += 1
                self.tally.refusals[each.refused.partition(":")[0]] += 1
            else:
                reached.append(each)
                self.tally.counts["reviewed"] += 1
                self.tally.kinds[f"{each.subject.shape['kind']} {each.subject.operation}"] += 1
        return reached, refused

    def policy_server(self, reviewed: Reviewed, decision: Decision) -> None:
        """Compare the policies of the API server with the policy server, about one and the same object."""
        tally = self.tally
        if reviewed.unevaluated and not reviewed.allowed and _with_decimals(reviewed.sent):
            tally.counts["not evaluated for a number with decimals"] += 1
            return
        for text in reviewed.unevaluated:
            tally.differ(reviewed, f"the API server could not evaluate a rule: {text}")
        seen = self._of_the_api_server((finding.rule, finding.path) for finding in decision.findings)
        if reviewed.complete and reviewed.findings != seen:
            tally.differ(reviewed, _difference("API server", reviewed.findings, "policy server", seen))
        if reviewed.allowed != decision.allowed:
            tally.differ(reviewed, f"API server allows: {reviewed.allowed}, policy server: {decision.allowed}")
        violations = {(finding.rule, finding.path) for finding in decision.violations}
        if reviewed.denial is not None:
            rule, paths = reviewed.denial
            named = {(rule, path) for path in paths}
            if rule not in {each for each, _ in violations} or not named <= violations:
                tally.differ(reviewed, f"the denial names {sorted(named)}, which the policy server does not")
        warnings = self._of_the_api_server((finding.rule, finding.path) for finding in decision.warnings)
        if reviewed.complete and reviewed.warned != warnings:
            tally.differ(reviewed, _difference("API server warns", reviewed.warned, "policy server", warnings))
        tally.counts["denied" if not decision.allowed else "warned" if decision.warnings else "allowed"] += 1
        broken = {rule for rule, _ in seen}
        tally.violated.update(broken)
        tally.kept.update(rule.id for rule in self._reviewing(reviewed) if rule.id not in broken)

    def check(self, reviewed: Reviewed, decision: Decision, checked: Checked) -> None:
        """Compare what the check says of what was sent with the decision about what came of it.

        Each gate names paths in the object that it reviewed: what the API server filled in was not sent, and what it
        dropped is not stored.
        """
        self.tally.counts["checked"] += 1
        blind = {rule.id for rule in self._rules.values() if rule.gate is EnforcementPoint.OPA}
        for name, own, findings in (
            ("denials", checked.errors, decision.violations),
            ("warnings", checked.warnings, decision.warnings),
        ):
            mine = {(rule, path) for rule, path in own if rule not in blind}
            theirs = {(finding.rule, finding.path) for finding in findings if finding.rule not in blind}
            made = {each for each in theirs - mine if _only_in(each[1], reviewed.body, reviewed.sent)}
            if _only_in("spec.preemptionPolicy", reviewed.body, reviewed.sent):
                # The API server writes it from a PriorityClass that the check does not know.
                made |= {each for each in theirs - mine if each == ("TEN-011", "spec.priorityClassName")}
            dropped = {each for each in mine - theirs if _lacks(each[1], reviewed.sent, reviewed.body)}
            self.tally.counts["about what the API server filled in"] += len(made)
            self.tally.counts["about what the API server dropped"] += len(dropped)
            if mine - dropped != theirs - made:
                self.tally.differ(
                    reviewed, f"{name}: " + _difference("check", mine - dropped, "cluster", theirs - made)
                )

    def refused(self, reviewed: Reviewed, checked: Checked) -> None:
        """Compare what the check says with the rules by which a CustomResourceDefinition refuses an object."""
        missing = reviewed.shape_rules - checked.rules
        if missing and _with_decimals(reviewed.sent):
            self.tally.counts["refused by the schema for a number with decimals"] += 1
        elif missing:
            self.tally.differ(reviewed, f"the schema refuses it by {sorted(missing)}, which the check does not name")
        if reviewed.shape_rules:
            self.tally.counts["refused by a shape rule"] += 1
        self.tally.counts["refused by the check too" if checked.refused else "left to the schema"] += 1

    def _of_the_api_server(self, findings: Iterable[tuple[str | None, str]]) -> frozenset[Finding]:
        """Return the findings that warnings of the API server show."""
        return frozenset(
            (rule or "?", path)
            for rule, path in findings
            if rule not in self._rules or self._rules[rule].gate is not EnforcementPoint.OPA
        )

    def _reviewing(self, reviewed: Reviewed) -> Sequence[AdmissionRule]:
        subject = reviewed.subject
        home, shape = self._worlds.homes[subject.home], subject.shape
        return [
            rule
            for rule in self._rules.values()
            if rule.gate is EnforcementPoint.ADMISSION
            and any(
                (match.api_version, match.kind) == (shape["apiVersion"], shape["kind"])
                and subject.operation in match.operations
                for match in rule.matches
            )
            and (rule.reach is Reach.EVERYWHERE or not reviewed.namespace or not home.exempt)
            and (rule.reach is not Reach.LABELLED or not reviewed.namespace or home.labelled)
        ]


def _with_decimals(value: Any) -> bool:
    """Whether it holds a number such as 1.0: schemas take it for a whole one, CEL fails on it, and all is refused."""
    return any(isinstance(node[key], float) for node, key in places(value))


_STEP = re.compile(r"\.?([^.\[]+)|\[([^\]]*)\]")


def _only_in(path: str, one: Any, other: Any) -> bool:
    """Whether a path leads to something in one object and to nothing in the other."""
    return _at(path, one) is not None and _at(path, other) is None


def _lacks(path: str, one: Any, other: Any) -> bool:
    """Whether a path leads to something in one object of which a part, or all, is not in the other.

    Rules that add things up name what holds all of them.
    """
    return _part_missing(_at(path, one), _at(path, other))


def _part_missing(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return not isinstance(other, dict) or any(_part_missing(one[key], other.get(key)) for key in one)
    if isinstance(one, list):
        return not isinstance(other, list) or len(one) > len(other) or any(map(_part_missing, one, other))
    return one is not None and other is None


def _at(path: str, value: Any) -> Any:
    """Return what a path leads to; None where that is nothing. Items of a list go by number or by name."""
    for name, key in _STEP.findall(path):
        step = name or key
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict) and item.get("name") == step), None)
        else:
            return None
    return value


def _difference(one: str, left: Iterable[Finding], other: str, right: Iterable[Finding]) -> str:
    first, second = set(left), set(right)
    only = {one: sorted(first - second), other: sorted(second - first)}
    return "; ".join(f"{name} alone: {found}" for name, found in only.items() if found)
