"""Nodes that match a HyperNode's members, as Volcano's scheduler matches them.

A regular expression matches anywhere in a node's name; an empty label selector matches nothing. Upstream source:
``GetMembers`` in ``pkg/scheduler/api/hyper_node_info.go`` of Volcano 1.14.1. Go's regular expressions take linear time
and Python's may not, so expressions with possibly exponential time are not evaluated, which is reported.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainyard.scheduling.topology.hypernode_manifests import Node

_GO_ONLY = re.compile(r"\\[zQECpPA]|\[\[:|\(\?[a-zA-Z]*U|\(\?[a-z]*-?[a-z]*\)")
_PYTHON_ONLY = re.compile(r"\(\?(=|!|<=|<!|>|\(|P=|P>|#)|\\[1-9Z]|[*+?}]\+")
_QUANTIFIED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+{]")
_OPTIONAL = re.compile(r"(?<!\()\?")
_LITERAL = re.compile(r"\^([-a-zA-Z0-9_]*)(.?)", re.DOTALL)
_MAX_UNBOUNDED, _MAX_OPTIONAL, _MAX_CHOICES = 2, 6, 3
_MAX_PATTERN = 1000
_BUDGET = 5_000_000
"""Maximum number of comparisons of names with expressions, or labels with selectors; the rest is not evaluated."""


def regex_fault(pattern: str) -> str | None:
    """Return why Go rejects a regular expression; None if it does not, or if that is unknown."""
    text = re.sub(r"\\\\", "", pattern)
    if _PYTHON_ONLY.search(text):
        return "Go's regular expressions have neither lookaround, back references, nor possessive quantifiers"
    if _GO_ONLY.search(text):
        return None
    return None if _compiled(pattern) is not None else "it does not compile"


def is_anchored(pattern: str) -> bool:
    """Return whether a regular expression matches whole names only."""
    text = re.sub(r"\\\\", "", pattern)
    start = text.startswith(("^", r"\A"))
    end = (text.endswith("$") and not text.endswith(r"\$")) or text.endswith(r"\z")
    return start and end and not _top_level_choice(text)


class NodeIndex:
    """Index of the nodes of a cluster by name and label, for selectors.

    Parameters
    ----------
    nodes
        The nodes.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._names = sorted(self.nodes)
        self._left = _BUDGET
        self._by_label: dict[tuple[str, str], list[str]] | None = None
        self._matched: dict[str, list[str] | None] = {}

    def regex(self, pattern: str) -> list[str] | None:
        """Return the names that a regular expression matches; None if unknown."""
        if pattern not in self._matched:
            self._matched[pattern] = self._regex(pattern)
        return self._matched[pattern]

    def labels(self, selector: Mapping[str, Any]) -> list[str] | None:
        """Return the names that a label selector matches; None if it is invalid."""
        wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
        if not isinstance(wanted, Mapping) or not isinstance(expressions, list):
            return None
        if not wanted and not expressions:
            return []
        pairs = [(str(key), str(value)) for key, value in wanted.items()]
        names: Sequence[str] = min((self._labeled(pair) for pair in pairs), key=len) if pairs else self._names
        self._left -= len(names)
        if self._left < 0:
            return None
        found = []
        for name in names:
            labels = self.nodes[name].labels
            verdicts = [_satisfies(labels, expression) for expression in expressions]
            if None in verdicts:
                return None
            if all(verdicts) and all(labels.get(key) == value for key, value in pairs):
                found.append(name)
        return found

    def _regex(self, pattern: str) -> list[str] | None:
        expression = None if _runs_away(pattern) else _compiled(pattern)
        if expression is None:
            return None
        names = self._candidates(pattern)
        self._left -= len(names)
        return None if self._left < 0 else [name for name in names if expression.search(name)]

    def _labeled(self, pair: tuple[str, str]) -> list[str]:
        if self._by_label is None:
            self._by_label = {}
            for name in self._names:
                for item in self.nodes[name].labels.items():
                    self._by_label.setdefault(item, []).append(name)
        return self._by_label.get(pair, [])

    def _candidates(self, pattern: str) -> Sequence[str]:
        match = _LITERAL.match(pattern)
        if match is None or _top_level_choice(pattern):
            return self._names
        prefix = match[1][:-1] if match[2] and match[2] in "*+?{" else match[1]
        if not prefix:
            return self._names
        start = bisect_left(self._names, prefix)
        return self._names[start : bisect_left(self._names, prefix + "\U0010ffff")]


def _runs_away(pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN or _GO_ONLY.search(pattern) or _PYTHON_ONLY.search(pattern):
        return True
    if _QUANTIFIED_GROUP.search(pattern) or len(_UNBOUNDED.findall(pattern)) > _MAX_UNBOUNDED:
        return True
    return len(_OPTIONAL.findall(pattern)) > _MAX_OPTIONAL or ("|" in pattern and pattern.count("(") > _MAX_CHOICES)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError):
        return None


def _top_level_choice(pattern: str) -> bool:
    depth, escaped, inside = 0, False, False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif inside:
            inside = character != "]"
        elif character == "[":
            inside = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            return True
    return False


def _satisfies(labels: Mapping[str, str], expression: object) -> bool | None:
    if not isinstance(expression, Mapping):
        return None
    key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or []
    if not isinstance(key, str) or not isinstance(values, list):
        return None
    present = labels.get(key)
    match operator:
        case "In":
            return present in values
        case "NotIn":
            return present not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return None
