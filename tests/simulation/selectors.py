"""Label and field selectors of lists and watches."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

_TERMS = re.compile(r",(?![^()]*\))")
_SET = re.compile(r"(\S+) (in|notin) \(([^)]*)\)")
Labels = Mapping[str, str]


def selected(body: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Return whether a query selects an object."""
    labels = query.get("labelSelector")
    if labels and not _labels(labels)(body["metadata"].get("labels") or {}):
        return False
    return all(_field(body, term) for term in (query.get("fieldSelector") or "").split(",") if term)


@functools.lru_cache(maxsize=256)
def _labels(selector: str) -> Callable[[Labels], bool]:
    terms = [_term(term.strip()) for term in _TERMS.split(selector)]
    return lambda labels: all(term(labels) for term in terms)


def _term(text: str) -> Callable[[Labels], bool]:
    if found := _SET.fullmatch(text):
        key, verb, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        return lambda labels: (labels.get(key) in values) == (verb == "in")
    if "!=" in text:
        key, _, value = text.partition("!=")
        return lambda labels: labels.get(key) != value
    if "=" in text:
        key, _, value = text.replace("==", "=").partition("=")
        return lambda labels: labels.get(key) == value
    if text.startswith("!"):
        return lambda labels: text[1:] not in labels
    return lambda labels: text in labels


def _field(body: Mapping[str, Any], term: str) -> bool:
    path, _, value = term.replace("==", "=").partition("=")
    negated = path.endswith("!")
    found: Any = body
    for part in path.rstrip("!").split("."):
        found = (found or {}).get(part)
    return (str(found or "") == value) != negated
