"""Explanations: why a job waits, is suspended or failed, from the recorded state of its cluster; pure."""

from __future__ import annotations

from trainyard.explain.cause import Cause, Family, Found
from trainyard.explain.causes import CAUSES, FAMILIES
from trainyard.explain.explanation import UNKNOWN, Explanation, as_text, explain, explain_object
from trainyard.explain.observed import Kind, Observed
from trainyard.explain.recorded_file import observed_of_text, recorded
from trainyard.explain.situation import State

__all__ = [
    "CAUSES",
    "FAMILIES",
    "UNKNOWN",
    "Cause",
    "Explanation",
    "Family",
    "Found",
    "Kind",
    "Observed",
    "State",
    "as_text",
    "explain",
    "explain_object",
    "observed_of_text",
    "recorded",
]
