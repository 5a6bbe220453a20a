"""Fields that a tenant can write, by type, from the pinned schemas.

A type is one of Kubernetes' own, as recorded, or a part of a pinned CustomResourceDefinition. The fields of a type end
where another type of the ledger begins, so that a field has one entry wherever its type is embedded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.reference.kubernetes_fields import recorded_fields
from trainyard import upstream
from trainyard.api.crds import build
from trainyard.settings.versions import supported_versions

TYPE_NAMES: Final = ("apiVersion", "kind")
"""Fields that select the schema of an object and have no effect of their own."""

_JOB_SET: Final = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"


@dataclass(frozen=True)
class SchemaSource:
    """Where the schema of a type is.

    Parameters
    ----------
    kubernetes
        Name of a recorded type.
    crd
        Component and file of a CustomResourceDefinition.
    own
        Kind of the project's own CustomResourceDefinition.
    at
        Field of the CustomResourceDefinition at which the type begins.
    embeds
        Types of the ledger by the field that has them.
    like
        Type whose entries cover fields of the same name.
    """

    kubernetes: str = ""
    crd: tuple[str, str] | None = None
    own: str = ""
    at: str = ""
    embeds: Mapping[str, str] = field(default_factory=dict)
    like: str = ""


@dataclass(frozen=True)
class Fields:
    """Fields of one type: paths of values without fields, of all nodes, and types of the ledger by path."""

    leaves: tuple[str, ...]
    nodes: frozenset[str]
    embedded: Mapping[str, str]


def fields_of(name: str, sources: Mapping[str, SchemaSource]) -> Fields:
    """Return the fields of a type.

    Parameters
    ----------
    name
        A type of the ledger.
    sources
        The types of the ledger.
    """
    source = sources[name]
    if source.kubernetes:
        recorded = {each.kubernetes: ledger for ledger, each in sources.items() if each.kubernetes}
        found = list(_recorded(source.kubernetes, "", recorded))
    else:
        found = list(_structural(_schema(source), ""))
        found = [(path, "ObjectMeta" if path == "metadata" else target) for path, target in found]
    found = [(path, target) for path, target in found if path not in TYPE_NAMES]
    embedded = {path: target for path, target in found if target}
    leaves = [path for path, target in found if not target]
    for path, target in source.embeds.items():
        below = [leaf for leaf in leaves if inside(leaf, path)]
        if not below:
            raise KeyError(f"{name} has no field {path}")
        embedded[path] = target
    nodes = {prefix for path, _ in found for prefix in _prefixes(path)}
    return Fields(tuple(leaves), frozenset(nodes), embedded)


def inside(path: str, prefix: str) -> bool:
    """Return whether a path is a field or below it."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}[", f"{prefix}{{"))


def _recorded(type_name: str, path: str, ledger: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in recorded_fields()[type_name].items():
        target = text.rstrip("[]{}")
        here = f"{path}.{name}" if path else name
        if not target:
            yield here, ""
        elif target in ledger:
            yield here + text.removeprefix(target), ledger[target]
        else:
            yield from _recorded(target, here + text.removeprefix(target), ledger)


def _structural(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    extra = schema.get("additionalProperties")
    if "items" in schema:
        yield from _structural(schema["items"], f"{path}[]")
    elif isinstance(extra, Mapping):
        yield from _structural(extra, f"{path}{{}}")
    elif schema.get("properties"):
        for name, inner in schema["properties"].items():
            yield from _structural(inner, f"{path}.{name}" if path else name)
    else:
        yield path.rstrip("[]{}"), ""


def _schema(source: SchemaSource) -> Mapping[str, Any]:
    if source.crd:
        component, file = source.crd
        definition = upstream.documents(component, supported_versions(component)[0], file)[0]
    else:
        job_set = upstream.documents("jobset", supported_versions("jobset")[0], _JOB_SET)[0]
        definition = next(each for each in build(job_set) if each["spec"]["names"]["kind"] == source.own)
    version = next(each for each in definition["spec"]["versions"] if each["storage"])
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    for name in source.at.split(".") if source.at else ():
        schema = schema["properties"][name]
    return schema


def _prefixes(path: str) -> Iterator[str]:
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end]).rstrip("[]{}")
