"""Rules that cannot find anything in a request, excluded before an engine is asked.

Most rules speak of fields that most objects do not have. Their rule.yaml names texts of which a request has one where
the rule finds anything, and to look for these takes far less than asking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from trainyard.policy.admission_rule import LISTED, Rule, Sight

__all__ = ["Mentions"]

_ANY: Final = b""
"""A text that every request has."""

_PLATFORMS: Final = 16
"""Platforms whose texts are kept at a time; a cluster has one, a repository seldom more than a few."""


class Mentions:
    """The texts of a catalog.

    Parameters
    ----------
    rules
        The rules; one without texts is always asked.
    parameters
        A stack's values of their parameters, by id.

    Attributes
    ----------
    seeing_runtime
        Ids of the rules that see the runtime of a TrainJob: where all of them are mute, nobody needs it.
    """

    def __init__(self, rules: Iterable[Rule], parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._rules = [(rule, rule.parameter_values(dict(parameters.get(rule.id, {})))) for rule in rules]
        self.seeing_runtime = frozenset(rule.id for rule, _ in self._rules if rule.sees is Sight.RUNTIME)
        listed = [LISTED.fullmatch(mention) for rule, _ in self._rules for mention in rule.mentions]
        self._fields = sorted({each["name"] for each in listed if each and each["source"] == "platform"})
        self._searches = lru_cache(_PLATFORMS)(self._searches_of)

    def mute(self, request: Mapping[str, Any], platform: Mapping[str, Any] | None) -> dict[str, bool]:
        """Return the rules that find nothing, by id, as the policy server takes them.

        Parameters
        ----------
        request
            What the rules would see of the request.
        platform
            ``spec`` of the Platform.
        """
        subject, listed = request["object"] or request["oldObject"] or {}, platform or {}
        group = str(subject.get("apiVersion", "")).rpartition("/")[0]
        searches = self._searches(_json([listed.get(field) for field in self._fields]))
        search = searches.get((group, str(subject.get("kind"))))
        if search is None:
            return {}
        return search.mute(_json({**request, "runtime": None}), _json(request["runtime"]))

    def _searches_of(self, listed: bytes) -> dict[tuple[str, str], _Search]:
        """Return what is looked for by group and kind; ``listed`` is what the Platform's fields say."""
        platform = dict(zip(self._fields, json.loads(listed), strict=True))
        found: dict[tuple[str, str], dict[str, frozenset[bytes]]] = {}
        for rule, values in self._rules:
            if rule.mentions:
                texts = frozenset(text for mention in rule.mentions for text in _texts(mention, values, platform))
                for match in rule.matches:
                    found.setdefault((match.group, match.kind), {})[rule.id] = texts
        return {kind: _Search(rules, self.seeing_runtime) for kind, rules in found.items()}


class _Search:
    """Looks for the texts of some rules.

    Parameters
    ----------
    rules
        Texts by the id of the rule.
    of_runtime
        The rules that see the runtime too.
    """

    def __init__(self, rules: Mapping[str, frozenset[bytes]], of_runtime: frozenset[str]) -> None:
        self._rules = rules
        self._of_runtime = of_runtime & rules.keys()
        self._texts = sorted({text for texts in rules.values() for text in texts})

    def mute(self, request: bytes, runtime: bytes) -> dict[str, bool]:
        """Return the rules of whose texts there is none in what they see."""
        said = {text for text in self._texts if text in request}
        mute = {rule: True for rule, texts in self._rules.items() if texts.isdisjoint(said)}
        for rule in self._of_runtime & mute.keys():
            if any(text in runtime for text in self._rules[rule]):
                del mute[rule]
        return mute


def _texts(mention: str, values: Mapping[str, Any], platform: Mapping[str, Any]) -> Iterable[bytes]:
    listed = LISTED.fullmatch(mention)
    if listed is None:
        return [mention.encode()]
    value = (platform if listed["source"] == "platform" else values).get(listed["name"])
    if value is True:
        return [_ANY]
    texts = [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
    if listed["pairs"]:
        texts = [text.partition("=")[2].removesuffix("*") for text in texts]
    # As JSON writes them, without the quotes around.
    return [_json(text)[1:-1] for text in texts]


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
