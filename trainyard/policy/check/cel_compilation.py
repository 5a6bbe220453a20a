"""Compilation of the CEL of rules as the API server compiles it, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.policy.engines.api_validator import ApiValidator
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.settings.platform import PolicySettings

_COMPILATION = "compilation failed: "
_FIELDS = {"variables": "name", "matchConditions": "name"}
"""Fields that name the expressions of a policy, by list."""


def require_compiled(rules: Iterable[AdmissionRule], validator: ApiValidator) -> None:
    """Raise unless the policies of rules are valid for an API server; requires `ApiValidator.available`.

    Raises
    ------
    TrainyardError
        With a finding for each expression that does not compile.
    """
    objects = admission_objects(list(rules), PolicySettings(), ())
    policies = [body for body in objects if body["kind"] == "ValidatingAdmissionPolicy"]
    findings = [
        Finding(f"{_rule(policy)} {_where(policy, error.path)}", _message(error.message), "correct the CEL of the rule")
        for policy, errors in zip(policies, validator.validate(policies), strict=True)
        for error in errors
    ]
    if findings:
        raise TrainyardError("The API server rejects the CEL of the rules", findings=findings)


def _rule(policy: dict[str, Any]) -> str:
    return str(policy["metadata"]["labels"]["trainyard.dev/rule"])


def _where(policy: dict[str, Any], path: str) -> str:
    """Return the path in the rule: the variable or condition by its name, or the validation."""
    for field, key in _FIELDS.items():
        for index, entry in enumerate(policy["spec"].get(field, ())):
            if path.startswith(f"spec.{field}[{index}]"):
                return f"cel.{field}[{entry[key]}]"
    return path.replace("spec.", "cel.", 1)


def _message(text: str) -> str:
    """Return a compilation error without the expression before it and the drawing of the expression below it."""
    _, compilation, reason = text.partition(_COMPILATION)
    lines = (reason if compilation else text).splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(" | "))
