"""Requests of a pod, as Kubernetes counts them and as Volcano counts them.

Upstream sources: ``PodRequests`` of ``k8s.io/component-helpers/resource``, after the defaults of the API server, and
``GetPodResourceRequest`` in ``pkg/scheduler/api/pod_info.go`` of Volcano 1.14.1. Everything that a job declares, such
as ``minResources``, is what Kubernetes counts. Everything that predicts or explains the scheduler is what Volcano
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeVar

from trainyard import quantity
from trainyard.scheduling.queues.amounts import Amounts, units

ExactAmounts = dict[str, Fraction]
"""Exact amounts by resource."""

_N = TypeVar("_N", int, Fraction)
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def exact(resources: Mapping[str, Any]) -> ExactAmounts:
    """Return a resource list as exact amounts."""
    return {name: quantity.parse(value) for name, value in resources.items()}


def requests_of(pod: Mapping[str, Any]) -> ExactAmounts:
    """Return what Kubernetes counts for a pod: its containers, init containers, pod-level resources and overhead.

    Parameters
    ----------
    pod
        Specification of a pod, before or after the API server has set its defaults.
    """
    running, starting = _phases(pod, exact)
    result = _largest(running, starting)
    _set_pod_level(result, pod.get("resources") or {})
    _add(result, exact(pod.get("overhead") or {}))
    return result


def counted_by_volcano(pod: Mapping[str, Any]) -> Amounts:
    """Return what Volcano counts for a pod, from its creation to its end, in units.

    It is what `requests_of` returns, but Volcano ignores pod-level resources, does not add the overhead to the init
    containers, and rounds up each container by itself.
    """
    running, starting = _phases(pod, units)
    _add(running, units(pod.get("overhead") or {}))
    return _largest(running, starting)


def _phases(
    pod: Mapping[str, Any], read: Callable[[Mapping[str, Any]], dict[str, _N]]
) -> tuple[dict[str, _N], dict[str, _N]]:
    """Return what the containers request while the pod runs, and the most that they request while it starts."""
    running: dict[str, _N] = {}
    for container in pod.get("containers") or ():
        _add(running, read(_declared(container)))
    sidecars: dict[str, _N] = {}
    starting: dict[str, _N] = {}
    for container in pod.get("initContainers") or ():
        step = read(_declared(container))
        if container.get("restartPolicy") == "Always":
            _add(running, step)
            _add(sidecars, step)
            step = sidecars
        else:
            _add(step, sidecars)
        starting = _largest(starting, step)
    return running, starting


def _declared(container: Mapping[str, Any]) -> Mapping[str, Any]:
    # As in the API server, requests default to limits.
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _set_pod_level(amounts: ExactAmounts, resources: Mapping[str, Any]) -> None:
    """Replace the requests of the containers by those of the pod.

    A limit of the pod is its request only where neither the pod nor a container requests that resource. Huge pages
    cannot be overcommitted: there, the limit is the request.
    """
    requests = exact(resources.get("requests") or {})
    for name, amount in {**exact(resources.get("limits") or {}), **requests}.items():
        if not (name in _POD_LEVEL or name.startswith(_HUGE_PAGES)):
            continue
        if name in requests or name not in amounts or name.startswith(_HUGE_PAGES):
            amounts[name] = amount


def _largest(some: Mapping[str, _N], others: Mapping[str, _N]) -> dict[str, _N]:
    return {**some, **{name: max(some.get(name, amount), amount) for name, amount in others.items()}}


def _add(amounts: dict[str, _N], more: Mapping[str, _N]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts[name] + amount if name in amounts else amount
