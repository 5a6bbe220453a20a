"""Deployments of the platform, with the same security context, probes and scheduling."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from .pod_settings import ContainerProgram, LogFlag, PodTable

CONTROLLER_PORT = 9443
"""Container port of the controller's webhooks and of progress reports."""
HOST_PROCESS_LABEL = "trainyard.dev/host-process"
"""Program that the embedded cluster runs as a host process instead of the first container."""

_READINESS: dict[str, Any] = {"periodSeconds": 5}
_LIVENESS: dict[str, Any] = {"initialDelaySeconds": 15, "periodSeconds": 20, "failureThreshold": 5}

# Explicit, because values defaulted by the API server would remain when the strategy type changes.
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


@dataclass(frozen=True)
class ConfigVolume:
    """A mounted ConfigMap; an optional one may be created later."""

    name: str
    path: str
    optional: bool = False


@dataclass(frozen=True)
class SecretVolume:
    """A mounted Secret."""

    name: str
    path: str


@dataclass(frozen=True)
class ScratchVolume:
    """A writable emptyDir that the containers of a pod share."""

    name: str
    path: str


Volume = ConfigVolume | SecretVolume | ScratchVolume


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container of a pod.

    Parameters
    ----------
    program
        Name of the program in the supervisor of the embedded cluster, and of the container.
    image, command, args, env
        Of the container.
    env_fields
        Variables with fields of the pod, such as ``metadata.uid``.
    ports
        Container port by name: ``webhook``, ``metrics``, ``health``.
    readiness, liveness
        Probes.
    memory
        Memory request and limit, in Kubernetes quantities.
    log_flag
        Its flag for the log level; None: it has none.
    """

    program: str
    image: pulumi.Input[str]
    command: tuple[str, ...]
    args: tuple[str, ...]
    ports: Mapping[str, int]
    readiness: Mapping[str, Any]
    liveness: Mapping[str, Any]
    memory: tuple[str, str]
    cpu: str = "100m"
    volumes: tuple[Volume, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_fields: Mapping[str, str] = field(default_factory=dict)
    log_flag: LogFlag | None = None


@dataclass(frozen=True, kw_only=True)
class Workload(Container):
    """A platform program with its Deployment.

    Parameters
    ----------
    name, namespace
        Of the Deployment; its ServiceAccount has the same name.
    pods
        Settings of the platform's pods, which take precedence over the values of the program.
    replicas
        Number of pods.
    single
        Whether two pods must never run at once, because the program has no leader election.
    sidecars
        Further containers of the pod.
    termination_grace_seconds
        Time between SIGTERM and SIGKILL.
    annotations
        Annotations of the pods; a change causes a roll-out.
    tmp_size
        Size limit of /tmp, a Kubernetes quantity; empty: none.
    """

    name: str
    namespace: str
    pods: PodTable
    replicas: int
    single: bool = False
    sidecars: tuple[Container, ...] = ()
    termination_grace_seconds: int = 30
    annotations: Mapping[str, str] = field(default_factory=dict)
    tmp_size: str = ""

    @property
    def selector(self) -> dict[str, str]:
        """Labels that select the pods."""
        return {"app.kubernetes.io/name": self.name}


def deployment(workload: Workload) -> dict[str, Any]:
    """Return the Deployment of a program, with the settings of the platform's pods.

    Raises
    ------
    TrainyardError
        A setting cannot be applied to the program.
    """
    labels = {**workload.selector, HOST_PROCESS_LABEL: workload.program}
    volumes = _volumes(workload, *workload.sidecars)
    main = _container(workload, volumes)
    replicas = workload.pods.replicas(workload.program, workload.replicas)
    main["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"})  # noqa: S108
    scratch = {"sizeLimit": workload.tmp_size} if workload.tmp_size else {}
    pod = {
        "serviceAccountName": workload.name,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": workload.termination_grace_seconds,
        **({"topologySpreadConstraints": [_on_different_nodes(workload)]} if replicas > 1 else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [main, *(_container(sidecar, volumes) for sidecar in workload.sidecars)],
        "volumes": [*volumes.values(), {"name": "tmp", "emptyDir": scratch}],
    }
    annotations = {"annotations": dict(workload.annotations)} if workload.annotations else {}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": workload.namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": workload.selector},
            "strategy": {"type": "Recreate"} if workload.single else _ROLLING,
            "template": {"metadata": {"labels": labels, **annotations}, "spec": pod},
        },
    }
    programs = {each.program: ContainerProgram(each.program, each.log_flag) for each in (workload, *workload.sidecars)}
    return workload.pods.applied(body, programs)


def service(workload: Workload, name: str, ports: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Return a Service of a program.

    Pulumi does not await it, because it awaits the Deployment, before which nothing uses the Service.

    Parameters
    ----------
    workload
        The program.
    name
        Name of the Service.
    ports
        Service port and container port name, by port name.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "type": "ClusterIP",
            "ipFamilyPolicy": "PreferDualStack",
            "selector": workload.selector,
            "ports": [
                {"name": key, "port": port, "targetPort": target, "protocol": "TCP"}
                for key, (port, target) in ports.items()
            ],
        },
    }


def config_map(name: str, namespace_name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return a ConfigMap."""
    metadata = {"name": name, "namespace": namespace_name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def configured_by(text: str) -> dict[str, str]:
    """Return the annotations of a workload that reads a file only at its start: a change must roll out new pods."""
    return {"trainyard.dev/configuration": hashlib.sha256(text.encode()).hexdigest()[:16]}


def namespace(
    name: str, *, pod_security: str = "restricted", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a namespace with its Pod Security level."""
    levels = {f"pod-security.kubernetes.io/{mode}": pod_security for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**(labels or {}), **levels}}}


def _on_different_nodes(workload: Workload) -> dict[str, Any]:
    """Prefer different nodes; only pods of the same template count, so that old pods do not affect a roll-out."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": workload.selector},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _container(container: Container, volumes: Mapping[tuple[type[Volume], str], Mapping[str, Any]]) -> dict[str, Any]:
    request, limit = container.memory
    return {
        "name": container.program,
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(container.command),
        "args": list(container.args),
        **({"env": variables} if (variables := _variables(container)) else {}),
        "ports": [{"name": key, "containerPort": port, "protocol": "TCP"} for key, port in container.ports.items()],
        "readinessProbe": dict(_READINESS) | dict(container.readiness),
        "livenessProbe": dict(_LIVENESS) | dict(container.liveness),
        "resources": {"requests": {"cpu": container.cpu, "memory": request}, "limits": {"memory": limit}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {
                "name": volumes[type(volume), volume.name]["name"],
                "mountPath": volume.path,
                **({} if isinstance(volume, ScratchVolume) else {"readOnly": True}),
            }
            for volume in container.volumes
        ],
    }


def _variables(container: Container) -> list[dict[str, Any]]:
    return [{"name": key, "value": value} for key, value in container.env.items()] + [
        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in container.env_fields.items()
    ]


def _volumes(*containers: Container) -> dict[tuple[type[Volume], str], dict[str, Any]]:
    """Return the volumes of a pod by type and name; containers that name the same volume share it."""
    found: dict[tuple[type[Volume], str], dict[str, Any]] = {}
    for volume in (volume for container in containers for volume in container.volumes):
        key = type(volume), volume.name
        if key not in found:
            found[key] = _volume(f"files-{len(found)}", volume)
    return found


def _volume(name: str, volume: Volume) -> dict[str, Any]:
    if isinstance(volume, ScratchVolume):
        return {"name": volume.name, "emptyDir": {}}
    if isinstance(volume, ConfigVolume):
        optional = {"optional": True} if volume.optional else {}
        return {"name": name, "configMap": {"name": volume.name, **optional}}
    return {"name": name, "secret": {"secretName": volume.name, "defaultMode": 0o440}}
