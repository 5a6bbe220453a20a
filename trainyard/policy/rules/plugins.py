"""Plug-in placeholders of rule.yaml: written once, expanded for every framework and gang scheduler.

A match ``{objects: gangs}`` expands to the kinds that describe gangs. A parameter ``"{gang}"`` expands to one parameter
per gang scheduler, in which a string ``{attribute}`` is replaced by that attribute of the scheduler; in a CEL variable
with ``each``, ``{each}`` is that string for every scheduler, joined by commas. In the default of a list,
``{frameworks}`` expands to the framework names (the list is then sorted), ``{variables}`` to the variables that they
set, as framework=NAME, and ``{reserved}`` to those of them that a TrainJob must not set. In a CEL variable,
``{children.ConfigMap}`` and ``{children.Secret}`` are the suffixes of the names of a TrainJob's ConfigMaps and Secrets,
as lists. Rego reads them as ``data.trainyard.children``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trainyard.api.constants import SNAPSHOT_SUFFIX
from trainyard.render.frameworks import DECLARED, Framework, child_suffixes
from trainyard.render.gangs import LISTED, GangScheduler

__all__ = ["CHILDREN", "expand_placeholders"]

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigMap": (SNAPSHOT_SUFFIX, *child_suffixes("ConfigMap")),
    "Secret": child_suffixes("Secret"),
}
"""Suffixes of the names of a TrainJob's ConfigMaps and Secrets, by kind."""

_GANG: Final = "{gang}"
_ATTRIBUTE: Final = re.compile(r"\{([a-z_]+)\}")


def expand_placeholders(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a rule.yaml with placeholders expanded."""
    result = dict(document)
    parameters = result.get("parameters")
    if isinstance(parameters, dict):
        result["parameters"] = {
            key: value for name, schema in parameters.items() for key, value in _parameters(name, schema).items()
        }
    if isinstance(result.get("matches"), list):
        result["matches"] = [entry for match in result["matches"] for entry in _matches(match)]
    cel = result.get("cel")
    if isinstance(cel, dict) and isinstance(cel.get("variables"), list):
        result["cel"] = {**cel, "variables": [_variable(each) for each in cel["variables"]]}
    return result


def _parameters(name: str, schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {name: schema}
    if name != _GANG:
        return {name: {key: _listed(value) if key == "default" else value for key, value in schema.items()}}
    return {gang.name: {key: _filled(value, gang) for key, value in schema.items()} for gang in LISTED}


def _listed(default: Any) -> Any:
    if default == "{variables}":
        return _variables(DECLARED.values())
    if default == "{reserved}":
        return _variables(each for each in DECLARED.values() if not each.may_be_set)
    if isinstance(default, list) and "{frameworks}" in default:
        return sorted({*default, *DECLARED} - {"{frameworks}"})
    return default


def _variables(frameworks: Iterable[Framework[Any]]) -> list[str]:
    """Return the variables of some frameworks as framework=NAME, frameworks with a launcher last."""
    ordered = sorted(frameworks, key=lambda framework: framework.launched)
    return [f"{framework.name}={name}" for framework in ordered for name in framework.variables]


def _matches(match: Any) -> Iterator[Any]:
    if not isinstance(match, dict) or match.get("objects") != "gangs":
        yield match
        return
    rest = {name: value for name, value in match.items() if name != "objects"}
    for child in (gang.child for gang in LISTED if gang.child):
        yield {"group": child.group, "version": child.version, "kind": child.kind, "resource": child.plural, **rest}


def _filled(value: Any, gang: GangScheduler[Any]) -> Any:
    found = _ATTRIBUTE.fullmatch(value) if isinstance(value, str) else None
    declared = getattr(gang, found[1]) if found else value
    return list(declared) if isinstance(declared, tuple) else declared


def _variable(variable: Any) -> Any:
    if not isinstance(variable, dict) or not isinstance(variable.get("expression"), str):
        return variable
    for kind, suffixes in CHILDREN.items():
        expression = variable["expression"].replace(f"{{children.{kind}}}", json.dumps(suffixes))
        variable = {**variable, "expression": expression}
    if "each" not in variable:
        return variable
    items = ", ".join(variable["each"].replace(_GANG, gang.name) for gang in LISTED)
    rest = {name: value for name, value in variable.items() if name != "each"}
    return {**rest, "expression": variable["expression"].replace("{each}", items)}
