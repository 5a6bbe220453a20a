"""Parse objects from text and plain data; each error is a finding with its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from trainyard.api.constants import API_VERSION, PLATFORM_API_VERSION
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.runtime import ClusterTrainingRuntime, TrainingRuntime
from trainyard.api.tenancy import Platform, TenantPolicy
from trainyard.api.train_job import TrainJob
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError

_Model = TypeVar("_Model", bound=KubernetesModel)

MODELS: Mapping[tuple[str, str], type[KubernetesModel]] = {
    (API_VERSION, "TrainJob"): TrainJob,
    (API_VERSION, "TrainingRuntime"): TrainingRuntime,
    (API_VERSION, "ClusterTrainingRuntime"): ClusterTrainingRuntime,
    (PLATFORM_API_VERSION, "TenantPolicy"): TenantPolicy,
    (PLATFORM_API_VERSION, "Platform"): Platform,
}
"""Models by (apiVersion, kind)."""

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
        If the object does not match its schema; ``findings`` lists every finding.
    """
    try:
        return model.from_body(body)
    except ValidationError as error:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise TrainyardError(
            f"{model.__name__} {name!r} does not fit its schema", findings=findings_of(error)
        ) from error


def findings_of(error: ValidationError) -> tuple[Finding, ...]:
    """Return findings of a validation error, with paths in the Kubernetes object."""
    found: dict[str, Finding] = {}
    for entry in error.errors(include_url=False, include_context=False):
        path = _path(entry["loc"])
        value = entry["input"]
        shown = "" if entry["type"] == "missing" or isinstance(value, dict | list) else f", but is {value!r}"
        message = entry["msg"].removeprefix("Value error, ")
        found.setdefault(path, Finding(path, f"{message}{shown}", _FIXES.get(entry["type"], "correct the value")))
    return tuple(found.values())


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}" if path else part
    return path
