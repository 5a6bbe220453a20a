"""Generate docs/reference/api.md from the models: ``make generate``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.reference.upstream_versions import DIFFERENCES, RELEASES, TRAIN_JOB, added, releases_of, runtime
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.runtime import TrainingRuntime
from trainyard.api.schema import structural_schema
from trainyard.api.tenancy import Platform, TenantPolicy
from trainyard.api.train_job import TrainJob

_INTRODUCTION = f"""\
# API

The fields of `trainer.kubeflow.org/v1alpha1` and `trainyard.dev/v1alpha1`, compared with each release of Kubeflow
Trainer ({", ".join(RELEASES)}). Fields of all releases are included. In the columns of the releases, `✔` means the same
limits as here, `–` that the release lacks the field, and any other text is the limits of that release. `[]` is an item
of a list, `{{}}` a value of a mapping. A list *by name* has unique names and is merged by name; a list without a key is
replaced as a whole. Fields of Kubernetes or JobSet types show their type and have the limits of the pinned JobSet
release.

Generated from the models by `python -m tools.reference.api`.
"""
_PARTS: Final = {
    "spec": "JobSetSpec",
    "container.env": "list of EnvVar, by name",
    "container.resources": "ResourceRequirements",
    "container.securityContext": "SecurityContext",
    "container.volumeMounts": "list of VolumeMount",
    "pod.affinity": "Affinity",
    "pod.imagePullSecrets": "list of LocalObjectReference, by name",
    "pod.schedulingGates": "list of PodSchedulingGate, by name",
    "pod.securityContext": "PodSecurityContext",
    "pod.tolerations": "list of Toleration",
    "pod.volumes": "list of Volume, by name",
}
"""Type names of embedded parts of JobSet's schema."""
_PART: Final = "x-trainyard-part"
_HIDDEN: Final = frozenset({"apiVersion", "kind", "metadata"})
_IMMUTABLE: Final = "self == oldSelf"


class _Named:
    """Placeholder of JobSet's CRD that replaces each part by its type name."""

    def part(self, name: str) -> Body:
        return {"type": "object", _PART: _PARTS[name]}


@dataclass(frozen=True)
class Field:
    """One field of an object.

    Parameters
    ----------
    path
        Path of the field; ``[]`` is an item, ``{}`` a value.
    schema
        Its schema.
    """

    path: str
    schema: Mapping[str, Any]


def reference() -> str:
    """Return the API reference as Markdown."""
    lines = [_INTRODUCTION]
    lines.extend(_compared("TrainJob", TrainJob, TRAIN_JOB))
    lines.extend(_compared("TrainingRuntime and ClusterTrainingRuntime", TrainingRuntime, runtime()))
    for model in (TenantPolicy, Platform):
        lines.extend(_own(model))
    lines.extend(_differences())
    return "\n".join(lines) + "\n"


def fields(model: type[KubernetesModel]) -> Iterator[Field]:
    """Yield the fields of an object without its metadata, in the order of the models."""
    for name, inner in structural_schema(model, _Named())["properties"].items():
        if name not in _HIDDEN:
            yield from _below(name, inner)


def limits(schema: Mapping[str, Any]) -> str:
    """Return default, bounds and rules of a schema as text; empty if there are none."""
    return ", ".join(_limits(schema))


def _below(path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    yield Field(path, schema)
    for name, inner in schema.get("properties", {}).items():
        yield from _below(f"{path}.{name}", inner)
    items = schema.get("items")
    if isinstance(items, dict) and ("properties" in items or limits(items)):
        inside = _below(f"{path}[]", items)
        if "description" in items or "properties" not in items:
            yield from inside
        else:
            next(inside)
            yield from inside


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string"):
        yield "number or text"
    if "default" in schema:
        yield f"default `{json.dumps(schema['default'])}`"
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " fields"),
    ):
        if least in schema and most in schema:
            yield f"{schema[least]} to {schema[most]}{unit}"
        elif least in schema:
            yield "not empty" if unit and schema[least] == 1 else f"at least {schema[least]}{unit}"
        elif most in schema:
            yield f"at most {schema[most]}{unit}"
    if "enum" in schema:
        yield " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("required"):
        yield f"requires {', '.join(sorted(schema['required']))}"
    for rule in schema.get("x-kubernetes-validations", ()):
        yield "immutable" if rule["rule"] == _IMMUTABLE else f"rule “{rule['message']}”"


def _compared(title: str, model: type[KubernetesModel], table: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| field | type | {' | '.join(RELEASES)} | here | meaning |"
    yield f"|---|---|{'---|' * len(RELEASES)}---|---|"
    for field in fields(model):
        cells = [_cell(text) for text in releases_of(table, field.path)]
        yield _row(f"`{field.path}`", _type(field.schema), *cells, limits(field.schema), _meaning(field))
    yield ""


def _own(model: type[KubernetesModel]) -> Iterator[str]:
    yield f"## {model.__name__}"
    yield ""
    yield f"{structural_schema(model, _Named())['description']}"
    yield ""
    yield "| field | type | limits | meaning |"
    yield "|---|---|---|---|"
    for field in fields(model):
        yield _row(f"`{field.path}`", _type(field.schema), limits(field.schema), _meaning(field))
    yield ""


def _differences() -> Iterator[str]:
    yield "## Schema differences from upstream"
    yield ""
    yield "A test compares the schemas path by path with those of every release and fails for differences that are not"
    yield "in this list. Numbers such as #3809 are issues and pull requests of kubeflow/trainer."
    yield ""
    yield "| kind | field | what differs | why |"
    yield "|---|---|---|---|"
    for kind, differences in DIFFERENCES.items():
        for each in differences:
            yield _row(kind, f"`{each.path}`", ", ".join(f"`{key}`" for key in sorted(each.keys)), each.reason)
    for kind, found in added().items():
        yield from (_row(kind, f"`{path}`", "added", reason) for path, reason in found.items())


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cell(text: str) -> str:
    return {"": "–", "=": "✔"}.get(text, text)


def _meaning(field: Field) -> str:
    return str(field.schema.get("description", "")).replace("\n", " ")


def _type(schema: Mapping[str, Any]) -> str:
    if _PART in schema:
        key = schema.get("x-kubernetes-list-map-keys")
        return f"{schema[_PART]}{f', by {key[0]}' if key else ''}"
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    if schema["type"] == "array":
        key = schema.get("x-kubernetes-list-map-keys")
        kind = f", by {key[0]}" if key else ", each once" if schema.get("x-kubernetes-list-type") == "set" else ""
        return f"list of {_type(schema['items'])}{kind}"
    if "additionalProperties" in schema:
        return f"mapping of {_type(schema['additionalProperties'])}"
    formats = {"date-time": "time", "int32": "number", "int64": "number (64 bits)"}
    return formats.get(schema.get("format", "")) or _WORDS[schema["type"]]


_WORDS: Final = {"string": "text", "integer": "number", "boolean": "true or false", "object": "object"}


if __name__ == "__main__":
    print(reference(), end="")
