"""Explanations: why a job waits, is suspended or failed, from the recorded state of its cluster; pure."""

from __future__ import annotations

from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.causes import CAUSES, FAMILIES
from trainyard.insight.explain.explanation import UNKNOWN, Explanation, as_text, explain, explain_object
from trainyard.insight.explain.situation import State

__all__ = [
    "CAUSES",
    "FAMILIES",
    "UNKNOWN",
    "Cause",
    "Explanation",
    "Family",
    "Found",
    "State",
    "as_text",
    "explain",
    "explain_object",
]
