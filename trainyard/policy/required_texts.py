"""Required texts: of these, each request that violates a rule contains at least one.

``trainyard policy texts`` derives them from the Rego of the shipped rules and writes them to
``policies/lib/required-texts.json``. An entry is valid for the Rego that it was derived from: after a change, the rule
is evaluated for every request until the file is written again. The same holds for the rules of other folders.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import Field, TypeAdapter

from trainyard.data import data_folder
from trainyard.jobs.render.accelerators import ACCELERATORS
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.policy.rules.plugins import CHILDREN
from trainyard.policy.rules.rule_catalog import rego_source
from trainyard.settings.settings_model import SettingsModel

REQUIRED_TEXTS: Final = "lib/required-texts.json"
"""The file, in the folder of the shipped rules."""

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


class RequiredTexts(SettingsModel):
    """Required texts of one rule.

    Parameters
    ----------
    rego
        Digest of the Rego that they are derived from.
    strings
        Keys or values.
    parts
        Parts of keys or values.
    items
        Settings with lists of parts: a field of the Platform, a parameter of the rule, the suffixes of the names of
        a TrainJob's objects, or patterns of the names of accelerators. With ``.=`` at the end, the parts are the values
        of items ``KEY=VALUE``.
    flags
        Parameters of the rule that make it apply to every request, unless they are false.
    """

    rego: str
    strings: list[str] = Field(default=[])
    parts: list[str] = Field(default=[])
    items: list[str] = Field(default=[])
    flags: list[str] = Field(default=[])

    @staticmethod
    def readable(path: str, rule_id: str) -> bool:
        """Return whether the search knows the value of a setting."""
        steps = path.removesuffix(_VALUES).split(".")
        return path == _CHILDREN or path in _ACCELERATORS or steps[:-1] in (["platform"], ["parameters", rule_id])

    @property
    def platform(self) -> Iterator[str]:
        """Fields of the Platform among the items."""
        return (path.partition(".")[2] for path in self.items if path.startswith("platform."))

    def searched(self, parameters: Mapping[str, Any], platform: Mapping[str, Any]) -> Iterator[bytes]:
        """Return the texts as parts of a request in JSON.

        Parameters
        ----------
        parameters
            The parameters of the rule.
        platform
            ``spec`` of the Platform.
        """
        yield from (encoded(text) for text in self.strings)
        yield from (encoded(text)[1:-1] for text in self.parts)
        for path in self.items:
            source, _, name = path.partition(".")
            if path == _CHILDREN:
                listed: Any = [suffix for suffixes in CHILDREN.values() for suffix in suffixes]
            elif path in _ACCELERATORS:
                listed = _ACCELERATORS[path]
            else:
                name = name.removesuffix(_VALUES)
                listed = platform.get(name) if source == "platform" else parameters.get(name.partition(".")[2])
            yield from _items(listed, values=path.endswith(_VALUES))
        if any(parameters.get(path.split(".")[-1]) not in (None, False) for path in self.flags):
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


def valid_texts(rules: Iterable[AdmissionRule]) -> dict[str, RequiredTexts]:
    """Return the required texts of the rules whose Rego has not changed since, by id."""
    folder = data_folder("policies")
    path = folder / REQUIRED_TEXTS
    found = TypeAdapter(dict[str, RequiredTexts]).validate_json(path.read_bytes()) if path.is_file() else {}
    return {
        rule.id: found[rule.id]
        for rule in rules
        if rule.id in found and found[rule.id].rego == rego_digest(rule, folder)
    }


def rego_digest(rule: AdmissionRule, folder: Path) -> str:
    """Return the digest of a rule's Rego and of the shared one; empty if the folder does not have the rule."""
    own = folder / rule.family / f"{rule.id}-{rule.slug}"
    if not own.is_dir():
        return ""
    return hashlib.sha256(_shared(folder) + rego_source(rule, own).encode()).hexdigest()[:16]


@lru_cache(4)
def _shared(folder: Path) -> bytes:
    digest = hashlib.sha256()
    for path in sorted((folder / "lib").glob("*.rego")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()
