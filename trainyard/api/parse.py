"""Parse objects from text and plain data; every error becomes a finding with its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from trainyard.api.base import Body, KubernetesModel
from trainyard.api.constants import API_VERSION, PLATFORM_API_VERSION
from trainyard.api.runtime import ClusterTrainingRuntime, TrainingRuntime
from trainyard.api.tenancy import Platform, TenantPolicy
from trainyard.api.train_job import TrainJob
from trainyard.problem import Problem, TrainyardError

__all__ = ["MODELS", "documents", "parse", "problems_of"]

_Model = TypeVar("_Model", bound=KubernetesModel)

MODELS: Mapping[tuple[str, str], type[KubernetesModel]] = {
    (API_VERSION, "TrainJob"): TrainJob,
    (API_VERSION, "TrainingRuntime"): TrainingRuntime,
    (API_VERSION, "ClusterTrainingRuntime"): ClusterTrainingRuntime,
    (PLATFORM_API_VERSION, "TenantPolicy"): TenantPolicy,
    (PLATFORM_API_VERSION, "Platform"): Platform,
}
"""The model of each (apiVersion, kind)."""

_DEEPEST = 200

_FIXES = {
    "missing": "add it",
    "greater_than_equal": "use a larger number",
    "less_than_equal": "use a smaller number",
    "literal_error": "use one of the listed values",
}


def parse(model: type[_Model], body: Body) -> _Model:
    """Read one object.

    Raises
    ------
    TrainyardError
        The object does not fit its schema; ``problems`` lists every finding.
    """
    try:
        return model.from_body(body)
    except ValidationError as error:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise TrainyardError(
            f"{model.__name__} {name!r} does not fit its schema", problems=problems_of(error)
        ) from error


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """Return what a validation found, as paths of the Kubernetes object."""
    found: dict[str, Problem] = {}
    for entry in error.errors(include_url=False, include_context=False):
        path = _path(entry["loc"])
        value = entry["input"]
        shown = "" if entry["type"] == "missing" or isinstance(value, dict | list) else f", but is {value!r}"
        message = entry["msg"].removeprefix("Value error, ")
        found.setdefault(path, Problem(path, f"{message}{shown}", _FIXES.get(entry["type"], "correct the value")))
    return tuple(found.values())


def documents(text: str) -> Iterator[Any]:
    """Yield the documents of YAML or JSON text; timestamps stay text, ``List`` objects are unpacked.

    Raises
    ------
    yaml.YAMLError
        The text is neither, or nested deeper than any object is.
    """
    _check_depth(text)
    for document in yaml.load_all(text, Loader=_Loader):
        yield from _unpacked(document)


def _check_depth(text: str) -> None:
    """Refuse text whose nesting would exhaust the stack of the YAML library.

    The exact depth is counted only where a cheap look at the text cannot rule out that it is too great.
    """
    opening = text.count("[") + text.count("{")
    if opening <= _DEEPEST and max(map(_block_depth, text.splitlines()), default=0) <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise yaml.YAMLError(f"more than {_DEEPEST} levels of nesting in line {line}")


def _block_depth(line: str) -> int:
    """Return the most levels of block nesting that can end in a line."""
    return len(line) - len(line.lstrip(" ")) + line.count("- ") + line.count("? ") + 1


def _unpacked(document: Any) -> Iterable[Any]:
    if document is None:
        return ()
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        return tuple(document["items"])
    return (document,)


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}" if path else part
    return path


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that leaves timestamps as they are written, like Kubernetes does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
