"""Plug-in placeholders of rule.yaml: written once, expanded for every framework and gang scheduler.

A match ``{objects: gangs}`` expands to the kinds that describe gangs, and ``{objects: pod-controllers}`` to the kinds
whose pods the controllers of Kubernetes create, beside Job. A parameter ``"{gang}"`` expands to one parameter
per gang scheduler, in which a string ``{attribute}`` is replaced by that attribute of the scheduler; in a CEL variable
with ``each``, ``{each}`` is that string for every scheduler, joined by commas. In the default of a list,
``{frameworks}`` expands to the framework names (the list is then sorted), ``{variables}`` to the variables that they
set, as framework=NAME, and ``{reserved}`` to those of them that a TrainJob must not set. In a CEL variable,
``{children.ConfigMap}`` and ``{children.Secret}`` are the suffixes of the names of a TrainJob's ConfigMaps and Secrets,
as lists. Rego reads them as ``data.trainyard.children``. ``{accelerators.KEY}`` is whether the variable ``name``
matches the patterns of resource names with that key (``jobs/render/accelerators.py``); Rego reads the patterns as
``data.trainyard.accelerators``. ``{unreadable}`` is whether the variable ``amount``, a text, is no quantity or has more
than 64 characters or an exponent of more than two digits beside leading zeros: the API server would calculate with all
digits of the amount. ``{unbounded}`` is whether ``amount``, text, a number or null, has more than 32 characters, an
exponent beyond 18, or more than 8P; ``{unbounded.memory}`` whether it has more than 8E.
Rego reads amounts with ``data.trainyard.lib.quantities``, where they are undefined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trainyard.api.constants import SNAPSHOT_SUFFIX
from trainyard.jobs.render.accelerators import ACCELERATORS, NamePatterns
from trainyard.jobs.render.frameworks import DECLARED, child_suffixes
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.gangs import LISTED
from trainyard.jobs.render.gangs.base import GangScheduler
from trainyard.policy.rules.admission_rule import POD_CONTROLLERS, SCALED
from trainyard.quantity import LONG_EXPONENT, MAX_LENGTH

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigMap": (SNAPSHOT_SUFFIX, *child_suffixes("ConfigMap")),
    "Secret": child_suffixes("Secret"),
}
"""Suffixes of the names of a TrainJob's ConfigMaps and Secrets, by kind."""

_GANG: Final = "{gang}"
_UNREADABLE: Final = '(amount.size() > 64 || amount.matches("[eE][+-]?0*[1-9][0-9]{2}") || !isQuantity(amount))'
_UNBOUNDED: Final = (
    f"(amount != null && [string(amount)].exists(text, text.size() > {MAX_LENGTH}"
    f' || text.matches("{LONG_EXPONENT}") || !isQuantity(text)'
    ' || quantity(text).isGreaterThan(quantity("8P")) || quantity(text).isLessThan(quantity("-8P"))))'
)
_AMOUNTS: Final[Mapping[str, str]] = {
    "{unreadable}": _UNREADABLE,
    "{unbounded}": _UNBOUNDED,
    "{unbounded.memory}": _UNBOUNDED.replace("8P", "8E"),
}
"""Conditions about the variable ``amount``, by their placeholder."""
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
    if isinstance(cel, dict):
        result["cel"] = expand_variables(cel)
    return result


def expand_variables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the placeholders of its CEL variables expanded: ``cel``, or a fragment of policies/lib."""
    variables = document.get("variables")
    if not isinstance(variables, list):
        return dict(document)
    return {**document, "variables": [_variable(each) for each in variables]}


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
    if not isinstance(match, dict) or match.get("objects") not in ("gangs", "pod-controllers", "scales"):
        yield match
        return
    rest = {name: value for name, value in match.items() if name != "objects"}
    if match["objects"] == "pod-controllers":
        for group, kind in POD_CONTROLLERS:
            yield {"group": group, "version": "v1", "kind": kind, "resource": f"{kind.lower()}s", **rest}
        return
    if match["objects"] == "scales":
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale", "operations": ["UPDATE"], **rest}
        yield from ({**scale, "resource": f"{resource}/scale"} for resource in SCALED)
        return
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
    for key, patterns in ACCELERATORS.items():
        expression = variable["expression"].replace(f"{{accelerators.{key}}}", _cel_match(patterns))
        variable = {**variable, "expression": expression}
    for placeholder, condition in _AMOUNTS.items():
        variable = {**variable, "expression": variable["expression"].replace(placeholder, condition)}
    if "each" not in variable:
        return variable
    items = ", ".join(variable["each"].replace(_GANG, gang.name) for gang in LISTED)
    rest = {name: value for name, value in variable.items() if name != "each"}
    return {**rest, "expression": variable["expression"].replace("{each}", items)}


def _cel_match(patterns: NamePatterns) -> str:
    """Return patterns as a condition in CEL on the variable ``name``, the cheapest tests first."""
    tests = [f"name in {json.dumps(patterns.exact)}"] if patterns.exact else []
    functions = {"endsWith": patterns.ends, "startsWith": patterns.starts, "contains": patterns.contains}
    tests += [f"name.{function}({json.dumps(text)})" for function, texts in functions.items() for text in texts]
    return f"({' || '.join(tests)})"
