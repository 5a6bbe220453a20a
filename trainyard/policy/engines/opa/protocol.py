"""Protocol of the policy server: a response is accepted only if it is a complete decision of the expected rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from trainyard.policy.review import DecisionUnavailableError

PARAMETERS: Final = {"strict-builtin-errors": "true", "provenance": "true"}
"""Query parameters of every request: a failing built-in is an error, and the response names its bundle revision."""

_LISTS: Final = ("violations", "warnings", "audits", "undecided", "exempted")


def written(document: Any) -> str:
    """Return a document as JSON; values that orjson does not support are encoded by the standard library."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        return json.dumps(document)


def parse_result(answer: Any, revision: str | None) -> Any:
    """Return the result of a response.

    Raises
    ------
    DecisionUnavailableError
        It has no result, or that of another revision of the rules.
    """
    if not isinstance(answer, dict) or "result" not in answer:
        raise DecisionUnavailableError("the policy server has no such rule")
    bundles = (answer.get("provenance") or {}).get("bundles") or {}
    if revision is not None and revision not in {bundle.get("revision") for bundle in bundles.values()}:
        raise DecisionUnavailableError("the policy server has another revision of the rules than expected")
    return answer["result"]


def validate_decision(decision: Any) -> dict[str, Any]:
    """Return the decision if it is complete.

    Raises
    ------
    DecisionUnavailableError
        The decision is malformed.
    """
    if (
        not isinstance(decision, dict)
        or not isinstance(decision.get("allowed"), bool)
        or any(not isinstance(decision.get(name), list) for name in _LISTS)
        or (decision["allowed"] and decision["violations"])
    ):
        raise DecisionUnavailableError("the policy server returned a malformed decision")
    return decision


def validate_decisions(decisions: Any, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the decisions if there is one for each request.

    Raises
    ------
    DecisionUnavailableError
        Their number is wrong, or one is malformed.
    """
    if not isinstance(decisions, list) or len(decisions) != len(documents["requests"]):
        raise DecisionUnavailableError("the policy server returned a wrong number of decisions")
    return [validate_decision(decision) for decision in decisions]
