"""PodGroups, Pods and PriorityClasses of an edited file: only the fields that gangs have, of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard import quantity
from trainyard.cluster_state.body_fields import Body, mapping, sequence, text, whole
from trainyard.scheduling.queues.amounts import Amounts, units


def well_formed(body: Body) -> dict[str, Any]:
    """Return an object as `scheduling.queues.queued_gangs.read_jobs` reads it, without fields of a wrong type."""
    kind, metadata = text(body, "kind"), mapping(body, "metadata")
    own = {name: text(metadata, name) for name in ("name", "namespace", "creationTimestamp", "deletionTimestamp")}
    found: dict[str, Any] = {
        "kind": kind,
        "metadata": {**own, "annotations": _texts(metadata, "annotations"), "labels": _texts(metadata, "labels")},
    }
    if kind == "PriorityClass":
        policy, default = text(body, "preemptionPolicy"), body.get("globalDefault") is True
        return {**found, "value": whole(body, "value"), "preemptionPolicy": policy, "globalDefault": default}
    spec, status = mapping(body, "spec"), mapping(body, "status")
    kept = {"phase": text(status, "phase"), "running": whole(status, "running")}
    return {**found, "spec": (_group if kind == "PodGroup" else _pod)(spec), "status": kept}


def valid_quantities(amounts: Body) -> dict[str, str]:
    """Return the amounts that are quantities."""
    found: dict[str, str] = {}
    for name, amount in amounts.items():
        try:
            quantity.parse(str(amount))
        except ValueError:
            continue
        if isinstance(name, str):
            found[name] = str(amount)
    return found


def amounts_of(value: object) -> Amounts:
    """Return resources in units; invalid quantities are left out."""
    return units(valid_quantities(mapping(value)))


def _group(spec: Body) -> dict[str, Any]:
    policies = [{"networkTopology": mapping(each, "networkTopology")} for each in sequence(spec, "subGroupPolicy")]
    return {
        "minMember": whole(spec, "minMember"),
        "queue": text(spec, "queue"),
        "priorityClassName": text(spec, "priorityClassName"),
        "minResources": valid_quantities(mapping(spec, "minResources")),
        "networkTopology": mapping(spec, "networkTopology"),
        "subGroupPolicy": policies,
    }


def _pod(spec: Body) -> dict[str, Any]:
    return {
        **{name: text(spec, name) for name in ("nodeName", "preemptionPolicy", "priorityClassName")},
        "schedulingGates": sequence(spec, "schedulingGates"),
        "overhead": valid_quantities(mapping(spec, "overhead")),
        "containers": [_container(each) for each in sequence(spec, "containers")],
        "initContainers": [_container(each) for each in sequence(spec, "initContainers")],
    }


def _container(container: Body) -> dict[str, Any]:
    resources = {name: valid_quantities(mapping(container, "resources", name)) for name in ("limits", "requests")}
    return {"restartPolicy": text(container, "restartPolicy"), "resources": resources}


def _texts(metadata: Body, name: str) -> Mapping[str, str]:
    found = mapping(metadata, name).items()
    return {key: value for key, value in found if isinstance(key, str) and isinstance(value, str)}
