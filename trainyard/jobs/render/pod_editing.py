"""Edits of plain Kubernetes objects: copies without nulls, and insertion by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainyard.api import Body, KubernetesModel
from trainyard.api.constants import TRAINER_PORT

_TCP = "TCP"
_NESTED = (dict, list)


def copied(value: Any) -> Any:
    """Return a deep copy of JSON data without null fields, which Kubernetes treats as unset."""
    if isinstance(value, dict):
        return {
            key: copied(inner) if isinstance(inner, _NESTED) else inner
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [copied(inner) if isinstance(inner, _NESTED) else inner for inner in value]
    return value


def stored(model: KubernetesModel) -> Body:
    """Return an object as the API server stores it: only the set fields of its schema, without nulls."""
    body: Body = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is not None and name in model.model_fields_set:
            body[field.alias or name] = _stored(value)
    return body


def section(body: Body, *names: str) -> Body:
    """Return a nested object; missing levels are created."""
    for name in names:
        body = body.setdefault(name, {})
    return body


def upsert_env(container: Body, variables: Iterable[Body]) -> None:
    """Replace environment variables by name in place, and append new ones.

    If a variable has both a value and a source, the value is dropped.
    """
    environment = container.setdefault("env", [])
    positions = {entry["name"]: index for index, entry in enumerate(environment)}
    for variable in variables:
        entry = {key: inner for key, inner in variable.items() if not (key == "value" and variable.get("valueFrom"))}
        position = positions.get(entry["name"])
        if position is None:
            positions[entry["name"]] = len(environment)
            environment.append(copied(entry))
        else:
            environment[position] = copied(entry)
    _drop_empty(container, "env")


def prepend_env(container: Body, variables: Iterable[Body]) -> None:
    """Insert environment variables at the front, replacing those of the same name.

    Kubernetes expands ``$(NAME)`` only from earlier variables in the list.
    """
    first = [copied(variable) for variable in variables]
    names = {variable["name"] for variable in first}
    container["env"] = [*first, *(entry for entry in container.get("env", ()) if entry["name"] not in names)]


def field_ref_env(name: str, field: str) -> Body:
    """Return an environment variable with a fieldRef."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def add_ports(container: Body, *numbers: int) -> None:
    """Declare TCP ports unless the container already declares them; default: the port of the trainer."""
    ports = container.setdefault("ports", [])
    declared = {port["containerPort"] for port in ports if port.get("protocol", _TCP) == _TCP}
    for number in numbers or (TRAINER_PORT,):
        if number not in declared:
            ports.append({"containerPort": number, "protocol": _TCP})


def upsert_volume(pod: Body, volume: Body) -> None:
    """Replace the pod's volume of the same name in place, or append it."""
    _upsert(pod.setdefault("volumes", []), volume, "name")


def upsert_mount(container: Body, mount: Body) -> None:
    """Replace the container's mount at the same path in place, or append it."""
    _upsert(container.setdefault("volumeMounts", []), mount, "mountPath")


def _upsert(entries: list[Body], entry: Body, key: str) -> None:
    position = next((index for index, old in enumerate(entries) if old.get(key) == entry[key]), len(entries))
    entries[position : position + 1] = [copied(entry)]


def _stored(value: Any) -> Any:
    if isinstance(value, KubernetesModel):
        return stored(value)
    if isinstance(value, list):
        return [_stored(inner) for inner in value]
    return copied(value)


def _drop_empty(body: Body, name: str) -> None:
    if not body[name]:
        del body[name]
