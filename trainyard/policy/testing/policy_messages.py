"""Decision of an API server about a case, as read from the messages of the generated policies."""

from __future__ import annotations

import re

from trainyard.kube.response import Response
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.testing.cases import Case, CaseDecision, Evaluation

_DENIED = re.compile(r"ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request: (.*)", re.DOTALL)
_WARNED = re.compile(r"Validation failed for ValidatingAdmissionPolicy '[^']+' with binding '[^']+': (.*)", re.DOTALL)
_UNKNOWN_RUNTIME_CLASS = re.compile(r'pod rejected: RuntimeClass "[^"]*" not found$')
"""Answer of the admission plug-in RuntimeClass, which precedes policies."""
_RULE = re.compile(r"^([A-Z]{3}-[0-9]{3}) ")


def evaluation_of(case: Case, response: Response) -> Evaluation:
    """Return the evaluation of a case from the API server's response to its request."""
    if case.content.refused:
        # The expected finding applies where nothing precedes the rule.
        if response.status in (400, 422) or _UNKNOWN_RUNTIME_CLASS.search(response.message):
            return Evaluation(case.verdict, frozenset(case.content.paths))
        return Evaluation(None, error=f"nothing rejects it before the rule: {response.status} {response.message}")
    paths: set[str] = set()
    messages: set[str] = set()
    for text in (match[1] for warning in response.warnings if (match := _WARNED.match(warning))):
        rule, named, message = _parsed(text)
        if rule != case.rule.id:
            return Evaluation(None, error=f"the rule could not be evaluated: {text}")
        paths |= named
        messages.add(message)
    if response.ok:
        return Evaluation(
            CaseDecision.WARN if paths else CaseDecision.ALLOW, frozenset(paths), messages=frozenset(messages)
        )
    if case.rule.gate is EnforcementPoint.CRD:
        causes = response.body.get("details", {}).get("causes", [])
        fields = frozenset(cause.get("field", "") for cause in causes if case.rule.id in cause.get("message", ""))
        return Evaluation(CaseDecision.DENY, fields) if fields else Evaluation(None, error=response.message)
    denied = _DENIED.search(response.message)
    if denied is None:
        return Evaluation(None, frozenset(paths), error=response.message)
    return Evaluation(CaseDecision.DENY, frozenset(paths), messages=frozenset(messages))


def findings_of(text: str) -> tuple[str | None, frozenset[str]]:
    """Return the rule and the field paths named by the message of a generated policy; None if it names no rule."""
    return _parsed(text)[:2]


def _parsed(text: str) -> tuple[str | None, frozenset[str], str]:
    """Return the rule, the field paths, and the rest of a message.

    Brackets in a path may contain any text: the key of a map.
    """
    start = _RULE.match(text)
    if start is None:
        return None, frozenset(), text
    paths, depth, begin = [], 0, start.end()
    for index in range(begin, len(text)):
        depth += {"[": 1, "]": -1}.get(text[index], 0)
        if depth <= 0 and text[index : index + 2] in (", ", ": "):
            paths.append(text[begin:index])
            begin = index + 2
            if text[index] == ":":
                return start[1], frozenset(paths), text[begin:]
    return None, frozenset(), text
