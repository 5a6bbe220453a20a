"""Parsed pods of platform Deployments: programs, versions, arguments, variables, volumes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.local.cluster.host_address import HOST
from trainyard.local.cluster.kwok_stages import ENDED_ANNOTATION, HOST_PROCESS_LABEL

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_GRACE = 30.0
_CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Mount path of the token volume that the API server injects; a host process has a kubeconfig instead."""


@dataclass(frozen=True)
class VolumeSource:
    """A volume of a pod.

    Parameters
    ----------
    name
        Name of the volume.
    kind
        ``configMap``, ``secret`` or ``emptyDir``.
    source
        Name of the ConfigMap or Secret.
    optional
        Whether the process may start without it.
    items
        Key and file path; None: all keys under their own names.
    """

    name: str
    kind: str
    source: str = ""
    optional: bool = False
    items: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class HostContainer:
    """A container of a pod that runs as a host process.

    Parameters
    ----------
    program
        The program of the container.
    pod
        Uid of the pod and digest of the container; a change causes a restart.
    version
        Tag of the container image without a leading v.
    arguments
        Command and arguments of the container, with variables expanded.
    mounts
        Mount path to (volume, path in the volume).
    probe_period
        Seconds between two readiness probes.
    probe_failures
        Consecutive failed readiness probes after which the container is not ready.
    """

    program: str
    namespace: str
    pod: str
    version: str
    service_account: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, tuple[str, str]]
    volumes: tuple[VolumeSource, ...]
    probe_period: float = 10.0
    probe_failures: int = 3


def programs(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the programs of a pod or pod template.

    The label names that of the first container; that of a sidecar is the container's name.
    """
    _, *sidecars = pod["spec"]["containers"]
    return (pod["metadata"]["labels"][HOST_PROCESS_LABEL], *(container["name"] for container in sidecars))


def parse(pod: Mapping[str, Any], program: str, host: str = HOST) -> HostContainer:
    """Parse the container of a program in a pod.

    Raises
    ------
    TrainyardError
        It needs something that a host process does not support.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    name, namespace = metadata["name"], metadata["namespace"]
    container = spec["containers"][programs(pod).index(program)]
    environment = _environment(container.get("env") or (), pod, host)
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    mounts = {
        mount["mountPath"].rstrip("/"): (mount["name"], mount.get("subPath", ""))
        for mount in container.get("volumeMounts") or ()
    }
    used = {volume for volume, _ in mounts.values()}
    volumes = [volume for volume in spec.get("volumes") or () if volume["name"] in used]
    if mounts.get(_CREDENTIALS, ("", ""))[0] in {volume["name"] for volume in volumes if "projected" in volume}:
        token, _ = mounts.pop(_CREDENTIALS)
        volumes = [volume for volume in volumes if volume["name"] != token]
    readiness = container.get("readinessProbe") or {}
    return HostContainer(
        program=program,
        namespace=namespace,
        pod=f"{metadata['uid']} {_digest([container.get(field) for field in ('image', 'command', 'args', 'env')])}",
        version=_version(container["image"]),
        service_account=spec.get("serviceAccountName") or "default",
        arguments=tuple(_expand(argument, environment) for argument in arguments),
        environment=environment,
        mounts=mounts,
        volumes=tuple(_volume(volume, f"{namespace}/{name}") for volume in volumes),
        probe_period=float(readiness.get("periodSeconds") or 10),
        probe_failures=int(readiness.get("failureThreshold") or 3),
    )


def owned(pod: Mapping[str, Any], deployment: Mapping[str, Any]) -> bool:
    """Return whether a pod belongs to a Deployment: by its namespace, its labels and its ReplicaSet.

    Tenants can set the label on pods, but not in the platform's namespaces.
    """
    metadata, owner = pod["metadata"], deployment["metadata"]
    labels = metadata.get("labels") or {}
    makers = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    return (
        metadata["namespace"] == owner["namespace"]
        and (deployment["spec"]["selector"].get("matchLabels") or {}).items() <= labels.items()
        and any(each["kind"] == "ReplicaSet" and each["name"].startswith(f"{owner['name']}-") for each in makers)
    )


def ending(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def ended(pod: Mapping[str, Any]) -> bool:
    """Return whether all processes of a pod have stopped and none will start."""
    annotations = pod["metadata"].get("annotations") or {}
    return annotations.get(ENDED_ANNOTATION) == "true" or (pod.get("status") or {}).get("phase") in (
        "Succeeded",
        "Failed",
    )


def grace_period(pod: Mapping[str, Any]) -> float:
    """Return the seconds between the stop request and SIGKILL for the processes of a pod."""
    requested = pod["metadata"].get("deletionGracePeriodSeconds")
    allowed = requested if requested is not None else pod["spec"].get("terminationGracePeriodSeconds")
    return _GRACE if allowed is None else float(allowed)


def unscheduled(pod: Mapping[str, Any]) -> str | None:
    """Return why a pod has no node; None if it has one."""
    if pod["spec"].get("nodeName"):
        return None
    conditions = (pod.get("status") or {}).get("conditions") or ()
    message = next((each.get("message") for each in conditions if each["type"] == "PodScheduled"), None)
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} has no node yet" + (
        f": {message}" if message else ""
    )


def local_paths(text: str, mounts: Mapping[str, Path]) -> str:
    """Replace mount paths with local paths, also as a prefix of longer paths; the longest mount wins."""
    if not mounts:
        return text
    longest_first = "|".join(re.escape(mount) for mount in sorted(mounts, key=len, reverse=True))
    pattern = rf"(?<![\w./-])({longest_first})(?=$|[/\s,;:'\"])"
    return re.sub(pattern, lambda found: str(mounts[found[1]]), text)


def _version(image: str) -> str:
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag.removeprefix("v")


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]


def _environment(entries: Any, pod: Mapping[str, Any], host: str) -> dict[str, str]:
    metadata = pod["metadata"]
    fields = {
        "metadata.namespace": metadata["namespace"],
        "metadata.name": metadata["name"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName") or "",
        "status.podIP": host,
    }
    found: dict[str, str] = {}
    for entry in entries:
        if "valueFrom" in entry:
            path = (entry["valueFrom"].get("fieldRef") or {}).get("fieldPath")
            if path not in fields:
                raise TrainyardError(
                    f"Pod {metadata['namespace']}/{metadata['name']}: "
                    f"variable {entry['name']} is neither a value nor a supported fieldRef",
                    fix=f"use a value or fieldRef to one of {', '.join(fields)}",
                )
            found[entry["name"]] = fields[path]
        else:
            found[entry["name"]] = _expand(entry.get("value") or "", found)
    return found


def _expand(text: str, variables: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text)


def _volume(volume: Mapping[str, Any], owner: str) -> VolumeSource:
    name = volume["name"]
    if "emptyDir" in volume:
        return VolumeSource(name, "emptyDir")
    for kind, field in (("configMap", "name"), ("secret", "secretName")):
        if source := volume.get(kind):
            items = tuple((item["key"], item["path"]) for item in source["items"]) if source.get("items") else None
            return VolumeSource(name, kind, source[field], bool(source.get("optional")), items)
    raise TrainyardError(
        f"Pod {owner}: volume {name} is of a kind that host processes do not support",
        fix="use configMap, secret or emptyDir",
    )
