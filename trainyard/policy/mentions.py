"""Rules that have nothing to find in a request, seen before anybody is asked.

Most rules speak of fields that most objects do not have. Their rule.yaml names texts of which a request has one where
the rule finds anything, and to look for these takes a hundredth of what asking takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from trainyard.policy.rule import LISTED, Rule

__all__ = ["Mentions"]

_WORD: Final = re.compile(rb'"([^"\\]+)"')

_Texts = tuple[tuple[tuple[bytes, bytes], ...], tuple[str, ...]]
"""Texts, each with the word in quotes that it begins with, and fields of the Platform that list more."""


class Mentions:
    """The texts of a catalogue.

    Parameters
    ----------
    rules
        The rules; one without texts is always asked.
    parameters
        A stack's values of their parameters, by id.
    """

    def __init__(self, rules: Iterable[Rule], parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._of_kind: dict[tuple[str, str], dict[str, _Texts]] = {}
        for rule in rules:
            if rule.mentions:
                texts = _texts(rule, parameters.get(rule.id, {}))
                for match in rule.matches:
                    self._of_kind.setdefault((match.group, match.kind), {})[rule.id] = texts

    def mute(self, request: Mapping[str, Any], platform: Mapping[str, Any] | None) -> dict[str, bool]:
        """Return the rules that find nothing, by id, as the policy server takes them.

        Parameters
        ----------
        request
            What the rules would see of the request.
        platform
            ``spec`` of the Platform.
        """
        subject = request["object"] or request["oldObject"] or {}
        group = str(subject.get("apiVersion", "")).rpartition("/")[0]
        rules = self._of_kind.get((group, str(subject.get("kind"))))
        if not rules:
            return {}
        said, listed = _json(request), platform or {}
        # To look for a word among words takes far less than for a text in a text.
        words = {b"", *said.split(b'"')}
        found = {}
        for rule, (texts, fields) in rules.items():
            for word, text in texts:
                if word in words and text in said:
                    break
            else:
                if not any(text in said for field in fields for text in _quoted(_items(listed.get(field)))):
                    found[rule] = True
        return found


def _texts(rule: Rule, given: Mapping[str, Any]) -> _Texts:
    values = rule.parameter_values(dict(given))
    texts: list[bytes] = []
    fields: list[str] = []
    for mention in rule.mentions:
        listed = LISTED.fullmatch(mention)
        if listed is None:
            texts.append(mention.encode())
        elif listed["source"] == "platform":
            fields.append(listed["name"])
        else:
            texts += _quoted(_items(values[listed["name"]]))
    return tuple((_word(text), text) for text in texts), tuple(fields)


def _word(text: bytes) -> bytes:
    found = _WORD.match(text)
    return found[1] if found else b""


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _quoted(values: Iterable[Any]) -> list[bytes]:
    """Return texts as JSON writes them; what is no text is the name of nothing."""
    return [_json(value)[1:-1] for value in values if isinstance(value, str)]


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
