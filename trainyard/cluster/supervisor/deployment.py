"""What a platform Deployment asks of this machine: programs, version, arguments, variables, volumes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.cluster.stages import HOST_PROCESS_LABEL
from trainyard.problem import TrainyardError

__all__ = ["HostDeployment", "VolumeSource", "local_paths", "parse", "programs", "serves"]

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


@dataclass(frozen=True)
class VolumeSource:
    """A volume of the pod that this machine can provide.

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
        File path by key; None for every key under its own name.
    """

    name: str
    kind: str
    source: str = ""
    optional: bool = False
    items: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class HostDeployment:
    """One container of a Deployment whose pods stand for processes on this machine.

    Parameters
    ----------
    program
        The program of the container.
    version
        Tag of the container image without a leading v.
    arguments
        Command and arguments of the container, variables expanded.
    mounts
        Mount path to (volume, path in the volume).
    template
        Hash of the pod template: a change restarts the process.
    """

    program: str
    namespace: str
    name: str
    replicas: int
    version: str
    service_account: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, tuple[str, str]]
    volumes: tuple[VolumeSource, ...]
    template: str


def programs(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the programs of a Deployment: the label names that of the first container, the others have their own."""
    _, *sidecars = body["spec"]["template"]["spec"]["containers"]
    return (body["metadata"]["labels"][HOST_PROCESS_LABEL], *(container["name"] for container in sidecars))


def parse(body: Mapping[str, Any], program: str | None = None) -> HostDeployment:
    """Read a Deployment.

    Parameters
    ----------
    program
        The program whose container is meant; that of the first one when absent.

    Raises
    ------
    TrainyardError
        It asks for something a process on this machine cannot have.
    """
    metadata, spec = body["metadata"], body["spec"]
    name, namespace = metadata["name"], metadata["namespace"]
    pod = spec["template"]["spec"]
    known = programs(body)
    container = pod["containers"][known.index(program) if program else 0]
    environment = _environment(container.get("env") or (), namespace, name)
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    mounts = {
        mount["mountPath"].rstrip("/"): (mount["name"], mount.get("subPath", ""))
        for mount in container.get("volumeMounts") or ()
    }
    used = {volume for volume, _ in mounts.values()}
    return HostDeployment(
        program=program or known[0],
        namespace=namespace,
        name=name,
        replicas=1 if spec.get("replicas") is None else spec["replicas"],
        version=_version(container["image"]),
        service_account=pod.get("serviceAccountName") or "default",
        arguments=tuple(_expand(argument, environment) for argument in arguments),
        environment=environment,
        mounts=mounts,
        volumes=tuple(
            _volume(volume, f"{namespace}/{name}") for volume in pod.get("volumes") or () if volume["name"] in used
        ),
        template=hashlib.sha256(json.dumps(spec["template"], sort_keys=True).encode()).hexdigest()[:16],
    )


def serves(deployment_body: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod was made from the Deployment's present template, as far as the processes are concerned."""
    wanted, has = deployment_body["spec"]["template"]["spec"]["containers"], pod["spec"]["containers"]
    return len(wanted) == len(has) and all(
        one.get(field) == other.get(field)
        for one, other in zip(wanted, has, strict=True)
        for field in ("image", "command", "args", "env")
    )


def local_paths(text: str, mounts: Mapping[str, Path]) -> str:
    """Replace every path at or below a mount path by the local one; the longest mount wins."""
    if not mounts:
        return text
    longest_first = "|".join(re.escape(mount) for mount in sorted(mounts, key=len, reverse=True))
    pattern = rf"(?<![\w./-])({longest_first})(?=$|[/\s,;:'\"])"
    return re.sub(pattern, lambda found: str(mounts[found[1]]), text)


def _version(image: str) -> str:
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag.removeprefix("v")


def _environment(entries: Any, namespace: str, name: str) -> dict[str, str]:
    fields = {
        "metadata.namespace": namespace,
        "metadata.name": f"{name}-host",
        "spec.nodeName": "platform-0",
        "status.podIP": "127.0.0.1",
    }
    found: dict[str, str] = {}
    for entry in entries:
        if "valueFrom" in entry:
            path = (entry["valueFrom"].get("fieldRef") or {}).get("fieldPath")
            if path not in fields:
                raise TrainyardError(
                    f"Deployment {namespace}/{name}: variable {entry['name']} is not a value or a known field",
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
        f"Deployment {owner}: volume {name} is of a kind a host process cannot have",
        fix="use configMap, secret or emptyDir",
    )
