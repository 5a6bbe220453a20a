"""Responses of the policy server: accepted only as a complete decision of the expected rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from trainyard.policy.review import DecisionUnavailableError

__all__ = ["PARAMETERS", "result_of", "whole", "wholes", "written"]

PARAMETERS: Final = {"strict-builtin-errors": "true", "provenance": "true"}
"""With every question: a rule that fails must not be silent, and the answer names the rules it comes from."""

_LISTS: Final = ("violations", "warnings", "audits", "undecided", "exempted")


def written(document: Any) -> str:
    """Return a document as JSON; numbers and texts that the faster library refuses are left to the other one."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        return json.dumps(document)


def result_of(answer: Any, revision: str | None) -> Any:
    """Return what a document says that the server answered.

    Raises
    ------
    DecisionUnavailableError
        It holds no result, or that of another revision of the rules.
    """
    if not isinstance(answer, dict) or "result" not in answer:
        raise DecisionUnavailableError("the policy server has no such decision")
    bundles = (answer.get("provenance") or {}).get("bundles") or {}
    if revision is not None and revision not in {bundle.get("revision") for bundle in bundles.values()}:
        raise DecisionUnavailableError("the policy server judges by other rules than expected")
    return answer["result"]


def whole(decision: Any) -> dict[str, Any]:
    """Return a decision that has all its parts.

    Raises
    ------
    DecisionUnavailableError
        It has not.
    """
    if (
        not isinstance(decision, dict)
        or not isinstance(decision.get("allowed"), bool)
        or any(not isinstance(decision.get(name), list) for name in _LISTS)
        or (decision["allowed"] and decision["violations"])
    ):
        raise DecisionUnavailableError("the policy server gave no whole decision")
    return decision


def wholes(decisions: Any, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one decision for each request of a document.

    Raises
    ------
    DecisionUnavailableError
        There is another number of them, or one is not whole.
    """
    if not isinstance(decisions, list) or len(decisions) != len(documents["requests"]):
        raise DecisionUnavailableError("the policy server answered for another number of requests")
    return [whole(decision) for decision in decisions]
