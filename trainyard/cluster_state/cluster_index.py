"""Index of a recorded cluster: objects by kind and name, children by owner, events by object; built in one pass."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from trainyard.api.constants import GROUP_NAME_ANNOTATION, PLATFORM_NAME
from trainyard.cluster_state.body_fields import Body, mapping, name_of, namespace_of, sequence, text, time
from trainyard.cluster_state.observed import Kind, Observed

_FINISHED = frozenset({"Succeeded", "Failed"})


def kind_of(body: Body) -> str:
    """Return the kind of an object with its API group, as in `Kind`."""
    return _kind(text(body, "apiVersion"), text(body, "kind"))


@lru_cache(maxsize=1024)
def _kind(api_version: str, kind: str) -> str:
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


class ClusterIndex:
    """Objects of a recorded cluster.

    Parameters
    ----------
    observed
        The state.
    """

    def __init__(self, observed: Observed) -> None:
        self.observed = observed
        self._objects: defaultdict[str, dict[tuple[str, str], Body]] = defaultdict(dict)
        self._children: defaultdict[tuple[str, str, str], list[tuple[str, Body]]] = defaultdict(list)
        for body in observed.objects:
            metadata = mapping(body, "metadata")
            name, namespace = text(metadata, "name"), text(metadata, "namespace")
            if not name:
                continue
            kind = kind_of(body)
            self._objects[kind][(namespace, name)] = body
            for owner in sequence(metadata, "ownerReferences"):
                above = (namespace, _kind(text(owner, "apiVersion"), text(owner, "kind")), text(owner, "name"))
                self._children[above].append((kind, body))

    def knows(self, kind: str) -> bool:
        """Return whether all objects of a kind were read."""
        return kind not in self.observed.unread

    def reads(self, kind: str, namespace: str) -> bool:
        """Return whether the objects of a kind in a namespace were read: all were, or some of these are here."""
        return self.knows(kind) or (kind, namespace) in self._present

    @cached_property
    def _present(self) -> frozenset[tuple[str, str]]:
        return frozenset((kind, namespace) for kind, found in self._objects.items() for namespace, _ in found)

    def find(self, kind: str, name: str, namespace: str = "") -> Body | None:
        """Return an object."""
        return self._objects[kind].get((namespace, name))

    def of(self, kind: str) -> Iterable[Body]:
        """Return the objects of a kind."""
        return self._objects[kind].values()

    def children(self, body: Body, kind: str) -> list[Body]:
        """Return the objects of a kind that an object owns."""
        owner = (namespace_of(body), kind_of(body), name_of(body))
        return [child for found, child in self._children.get(owner, ()) if found == kind]

    def owner(self, body: Body) -> Body | None:
        """Return the object that controls another, or None if it was not read, or there is none."""
        owners = sequence(body, "metadata", "ownerReferences")
        chosen = next((each for each in owners if each.get("controller")), owners[0] if owners else None)
        if chosen is None:
            return None
        kind = _kind(text(chosen, "apiVersion"), text(chosen, "kind"))
        return self.find(kind, text(chosen, "name"), namespace_of(body))

    def events(self, body: Body) -> list[Body]:
        """Return the events about an object, oldest first, without those about an earlier object of its name."""
        uid = text(body, "metadata", "uid")
        found = self._events.get((namespace_of(body), text(body, "kind"), name_of(body)), ())
        return [each for each in found if not uid or text(each, "involvedObject", "uid") in ("", uid)]

    @cached_property
    def _events(self) -> dict[tuple[str, str, str], list[Body]]:
        found: defaultdict[tuple[str, str, str], list[Body]] = defaultdict(list)
        for event in self.of(Kind.EVENT):
            about = mapping(event, "involvedObject")
            namespace = text(about, "namespace") or namespace_of(event)
            found[(namespace, text(about, "kind"), text(about, "name"))].append(event)
        for events in found.values():
            events.sort(key=_when)
        return found

    @cached_property
    def unfinished_pods(self) -> list[Body]:
        """Pods that are not finished."""
        return [pod for pod in self.of(Kind.POD) if text(pod, "status", "phase") not in _FINISHED]

    @cached_property
    def members(self) -> dict[tuple[str, str], list[Body]]:
        """Pods by namespace and name of their PodGroup."""
        found: defaultdict[tuple[str, str], list[Body]] = defaultdict(list)
        for pod in self.of(Kind.POD):
            group = text(pod, "metadata", "annotations", GROUP_NAME_ANNOTATION)
            if group:
                found[(namespace_of(pod), group)].append(pod)
        return found

    @staticmethod
    def gang_of(pod: Body) -> str:
        """Return namespace and name of the gang of a pod, as in `trainyard.scheduling.queues.queued_gangs.Job`."""
        return f"{namespace_of(pod) or 'default'}/{text(pod, 'metadata', 'annotations', GROUP_NAME_ANNOTATION)}"

    @cached_property
    def newest_time(self) -> datetime.datetime | None:
        """Newest time of Leases, events and heartbeats of nodes, by the cluster's own clock, or None without any."""
        times = [time(lease, "spec", "renewTime") for lease in self.of(Kind.LEASE)]
        times += [time({"when": _when(event)}, "when") for event in self.of(Kind.EVENT)]
        for node in self.of(Kind.NODE):
            times += [time(each, "lastHeartbeatTime") for each in sequence(node, "status", "conditions")]
        return max((each for each in times if each is not None), default=None)

    @cached_property
    def features(self) -> frozenset[str] | None:
        """Enabled features of the scheduler, or None if they are unknown, as an empty list is the default."""
        platform = self.find(Kind.PLATFORM, PLATFORM_NAME)
        found: Any = mapping(platform, "spec").get("schedulerFeatures") if platform is not None else None
        names = frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()
        return names or None


def _when(event: Body) -> str:
    times = (text(event, "lastTimestamp"), text(event, "eventTime"), text(event, "metadata", "creationTimestamp"))
    return next((each for each in times if each), "")
