"""Record the schema of the pinned JobSet in compact notation: ``python -m tools.reference.job_set_schema``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard import upstream
from trainyard.api.job_set_schema import FILE, ROOT, RULES, SCALARS
from trainyard.api.kubernetes_model import Body
from trainyard.api.schema import JobSetParts
from trainyard.settings.versions import supported_versions

_CRD: Final = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
_JSON: Final = {"default": "default", "maxItems": "max", "minimum": "min"}
_WORDS: Final = {"enum": "enum", "x-kubernetes-list-map-keys": "keys"}
_PLAIN: Final = {"x-kubernetes-list-type": "list", "x-kubernetes-map-type": "map"}
_VALIDATIONS: Final = "x-kubernetes-validations"
_RULE_NAMES: Final = {rule.expression: name for name, rule in RULES.items()}


def pinned_schema() -> Body:
    """Return the schema of a JobSet specification without descriptions, from the pinned CRD."""
    crd = next(iter(upstream.documents("jobset", supported_versions("jobset")[0], _CRD)))
    return JobSetParts(crd, descriptions=False).part("spec")


def recorded(schema: Mapping[str, Any]) -> Body:
    """Return a schema in compact notation.

    Raises
    ------
    KeyError
        The schema has a part for which the notation has no word.
    """
    writer = _Writer()
    text = writer.text(schema, ROOT)
    return {"schema": text, "types": dict(sorted(writer.types.items()))}


class _Writer:
    def __init__(self) -> None:
        self.types: dict[str, dict[str, str]] = {}

    def text(self, schema: Mapping[str, Any], name: str) -> str:
        """Return a type in compact notation, and note the object types that it refers to."""
        attributes = {key: value for key, value in schema.items() if key in _JSON | _WORDS | _PLAIN}
        rules = [_RULE_NAMES[rule["rule"]] for rule in schema.get(_VALIDATIONS, ())]
        rest = {key: value for key, value in schema.items() if key not in attributes and key != _VALIDATIONS}
        return " ".join([self._base(rest, name), *_attributes(attributes), *_named("rules", rules)])

    def _base(self, schema: Body, name: str) -> str:
        if "items" in schema:
            return f"[{_joined(self.text(schema['items'], name))}]"
        if "additionalProperties" in schema:
            return f"{{{_joined(self.text(schema['additionalProperties'], name))}}}"
        if "properties" in schema:
            return self._type(schema, name)
        return next(word for word, scalar in SCALARS.items() if scalar == schema)

    def _type(self, schema: Body, name: str) -> str:
        required = set(schema.get("required", ()))
        fields = {
            f"{field}!" if field in required else field: self.text(inner, _capitalized(field))
            for field, inner in schema["properties"].items()
        }
        number = 1
        chosen = name
        while self.types.setdefault(chosen, fields) != fields:
            number += 1
            chosen = f"{name}{number}"
        return chosen


def _attributes(found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        if key in _JSON:
            yield f"{_JSON[key]}={json.dumps(value)}"
        elif key in _WORDS:
            yield f"{_WORDS[key]}={','.join(value)}"
        else:
            yield f"{_PLAIN[key]}={value}"


def _named(key: str, values: list[str]) -> Iterator[str]:
    if values:
        yield f"{key}={','.join(values)}"


def _joined(text: str) -> str:
    return text.replace(" ", "~")


def _capitalized(name: str) -> str:
    return name[0].upper() + name[1:]


if __name__ == "__main__":
    FILE.write_text(json.dumps(recorded(pinned_schema()), indent=1) + "\n")
