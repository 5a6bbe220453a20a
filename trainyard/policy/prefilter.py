"""Prefilter: excludes rules that cannot be violated by a request before the engine is queried.

Most rules concern fields that most objects lack. Searching a request for the required texts of a rule
(:mod:`trainyard.policy.rules.required_texts`) is much cheaper than evaluating the rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

import orjson

from trainyard.jobs.render.accelerators import ACCELERATORS
from trainyard.policy.rules.admission_rule import AdmissionRule, RuleInput
from trainyard.policy.rules.plugins import CHILDREN
from trainyard.policy.rules.required_texts import RequiredTexts

_ANY: Final = b""
"""Part of every request."""
_BRACKETS: Final = ("[", "{", "]", "}")
_VALUES: Final = ".="
_CHILDREN: Final = "data.trainyard.children.*"
_ACCELERATORS: Final = {
    f"data.trainyard.accelerators.{key}.{place}": texts
    for key, patterns in ACCELERATORS.items()
    for place, texts in asdict(patterns).items()
}
"""Patterns of the resource names of accelerators, by their path in Rego."""
_PLATFORMS: Final = 16
"""Cached Platforms; a cluster has one, a repository rarely more than a few."""


class Prefilter:
    """Search strings of a catalog.

    Parameters
    ----------
    rules
        The rules; those without required texts are never excluded.
    parameters
        A stack's overrides of their parameters, by id.

    Attributes
    ----------
    runtime_rules
        Ids of the rules that read a TrainJob's runtime; if all of them are excluded, the runtime is not sent.
    """

    def __init__(self, rules: Iterable[AdmissionRule], parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._rules = [(rule, rule.parameter_values(dict(parameters.get(rule.id, {})))) for rule in rules]
        self.runtime_rules = frozenset(rule.id for rule, _ in self._rules if rule.sees is RuleInput.RUNTIME)
        self._required = {rule.id: rule.texts for rule, _ in self._rules if rule.texts is not None}
        self._fields = sorted({field for texts in self._required.values() for field in texts.platform})
        self._searches = lru_cache(_PLATFORMS)(self._searches_of)

    def excluded(self, request: Mapping[str, Any], platform: Mapping[str, Any] | None) -> dict[str, bool]:
        """Return the excluded rules by id, in the format of the policy server.

        Parameters
        ----------
        request
            The part of the request that rules see.
        platform
            ``spec`` of the Platform.
        """
        subject, listed = request["object"] or request["oldObject"] or {}, platform or {}
        group = str(subject.get("apiVersion", "")).rpartition("/")[0]
        searches = self._searches(encoded([listed.get(field) for field in self._fields]))
        search = searches.get((group, str(subject.get("kind"))))
        if search is None:
            return {}
        return search.excluded(encoded({**request, "runtime": None}), encoded(request["runtime"]))

    def _searches_of(self, listed: bytes) -> dict[tuple[str, str], _Search]:
        """Return the searches by group and kind; ``listed`` is the JSON of the Platform's fields."""
        platform = dict(zip(self._fields, json.loads(listed), strict=True))
        found: dict[tuple[str, str], dict[str, frozenset[bytes]]] = {}
        for rule, values in self._rules:
            if required := self._required.get(rule.id):
                texts = frozenset(searched(required, values, platform))
                # The required texts of some rules are the names of kinds, which listed ones are not.
                for match in (each for each in rule.matches if not each.templates):
                    found.setdefault((match.group, match.kind), {})[rule.id] = texts
        return {kind: _Search(rules, self.runtime_rules) for kind, rules in found.items()}


class _Search:
    """Searches for the strings of some rules.

    Parameters
    ----------
    rules
        Strings by rule id.
    of_runtime
        Rules that also read the runtime.
    """

    def __init__(self, rules: Mapping[str, frozenset[bytes]], of_runtime: frozenset[str]) -> None:
        self._rules = rules
        self._of_runtime = of_runtime & rules.keys()
        self._texts = sorted({text for texts in rules.values() for text in texts})

    def excluded(self, request: bytes, runtime: bytes) -> dict[str, bool]:
        """Return the rules without a match in what they read."""
        present = {text for text in self._texts if text in request}
        excluded = {rule: True for rule, texts in self._rules.items() if texts.isdisjoint(present)}
        for rule in self._of_runtime & excluded.keys():
            if any(text in runtime for text in self._rules[rule]):
                del excluded[rule]
        return excluded


def searched(texts: RequiredTexts, parameters: Mapping[str, Any], platform: Mapping[str, Any]) -> Iterator[bytes]:
    """Return the texts as parts of a request in JSON.

    Parameters
    ----------
    texts
        The required texts of a rule.
    parameters
        The parameters of the rule.
    platform
        ``spec`` of the Platform.
    """
    yield from (encoded(text) for text in texts.strings)
    yield from (encoded(text)[1:-1] for text in texts.parts)
    for path in texts.items:
        source, _, name = path.partition(".")
        if path == _CHILDREN:
            listed: Any = [suffix for suffixes in CHILDREN.values() for suffix in suffixes]
        elif path in _ACCELERATORS:
            listed = _ACCELERATORS[path]
        else:
            name = name.removesuffix(_VALUES)
            listed = platform.get(name) if source == "platform" else parameters.get(name.partition(".")[2])
        yield from _items(listed, values=path.endswith(_VALUES))
    if any(parameters.get(path.split(".")[-1]) not in (None, False) for path in texts.flags):
        yield _ANY


def _items(listed: Any, *, values: bool) -> Iterator[bytes]:
    """Return the items of a list without a final ``*``, or of items ``KEY=VALUE`` the values.

    A value of another type, or an item that may equal a printed list, matches every request.
    """
    items = [] if listed is None else listed if isinstance(listed, list | tuple) else [listed]
    for item in items:
        if not isinstance(item, str) or item.startswith(_BRACKETS) or item.endswith(_BRACKETS):
            yield _ANY
        elif not values:
            yield encoded(item.removesuffix("*"))[1:-1]
        elif "=" in item:
            yield encoded(item.split("=")[1].removesuffix("*"))[1:-1]


def encoded(value: Any) -> bytes:
    """Return a value as it is encoded in a request."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
