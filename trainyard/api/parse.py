"""Parse objects from text and plain data; each error is a finding with its path."""

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
"""Models by (apiVersion, kind)."""

_MAX_DEPTH = 200

_FIXES = {
    "missing": "add it",
    "greater_than_equal": "use a larger number",
    "less_than_equal": "use a smaller number",
    "literal_error": "use one of the listed values",
}


def parse(model: type[_Model], body: Body) -> _Model:
    """Parse one object.

    Raises
    ------
    TrainyardError
        If the object does not match its schema; ``problems`` lists every finding.
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
    """Return findings of a validation error, with paths in the Kubernetes object."""
    found: dict[str, Problem] = {}
    for entry in error.errors(include_url=False, include_context=False):
        path = _path(entry["loc"])
        value = entry["input"]
        shown = "" if entry["type"] == "missing" or isinstance(value, dict | list) else f", but is {value!r}"
        message = entry["msg"].removeprefix("Value error, ")
        found.setdefault(path, Problem(path, f"{message}{shown}", _FIXES.get(entry["type"], "correct the value")))
    return tuple(found.values())


def documents(text: str) -> Iterator[Any]:
    """Yield the documents of YAML or JSON text; timestamps remain strings, ``List`` objects are unpacked.

    Raises
    ------
    yaml.YAMLError
        If the text is neither, or nested too deeply.
    """
    _check_depth(text)
    for document in yaml.load_all(text, Loader=_Loader):
        yield from _unpacked(document)


def _check_depth(text: str) -> None:
    """Reject text whose nesting would overflow the stack of the YAML library.

    The exact depth is counted only if a fast upper bound exceeds the limit.
    """
    opening = text.count("[") + text.count("{")
    if opening <= _MAX_DEPTH and max(map(_block_depth, text.splitlines()), default=0) <= _MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise yaml.YAMLError(f"more than {_MAX_DEPTH} levels of nesting in line {line}")


def _block_depth(line: str) -> int:
    """Return an upper bound of the block nesting levels of a line."""
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
    """Safe loader that does not parse timestamps, like Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
