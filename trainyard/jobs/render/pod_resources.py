"""Resource requests of one pod, computed as by the API server's defaults and the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from trainyard import quantity
from trainyard.api import Body

Amounts = dict[str, Fraction]
"""Exact amounts by resource."""

_ALWAYS: Final = "Always"
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """Return a resource list as exact amounts."""
    return {name: quantity.parse(value) for name, value in resources.items()}


def container_requests(container: Body) -> Amounts:
    """Return the requests of a container; as in the API server, requests default to limits."""
    resources = container.get("resources", {})
    return amounts({**resources.get("limits", {}), **resources.get("requests", {})})


def pod_requests(pod: Body) -> Amounts:
    """Return the effective requests of a pod: containers, sidecars, init containers, pod-level resources, overhead.

    Parameters
    ----------
    pod
        A pod specification, before the API server sets its defaults.
    """
    total = _of_containers(pod)
    if "resources" in pod:
        _set_pod_level(total, pod["resources"])
    if "overhead" in pod:
        _add(total, amounts(pod["overhead"]))
    return total


def _of_containers(pod: Body) -> Amounts:
    total: Amounts = {}
    for container in pod.get("containers", ()):
        _add(total, container_requests(container))
    sidecars: Amounts = {}
    largest_step: Amounts = {}
    for container in pod.get("initContainers", ()):
        requests = container_requests(container)
        if container.get("restartPolicy") == _ALWAYS:
            _add(total, requests)
            _add(sidecars, requests)
            step = sidecars
        else:
            step = dict(requests)
            _add(step, sidecars)
        for name, amount in step.items():
            largest_step[name] = max(largest_step.get(name, amount), amount)
    for name, amount in largest_step.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def _set_pod_level(total: Amounts, resources: Mapping[str, Any]) -> None:
    """Replace the containers' requests by those of the pod.

    A limit of the pod is its request only where neither the pod nor a container requests that resource. Huge pages
    cannot be overcommitted: there, the limit is the request.
    """
    requests = amounts(resources.get("requests", {}))
    for name, amount in {**amounts(resources.get("limits", {})), **requests}.items():
        if not (name in _POD_LEVEL or name.startswith(_HUGE_PAGES)):
            continue
        if name in requests or name not in total or name.startswith(_HUGE_PAGES):
            total[name] = amount


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
