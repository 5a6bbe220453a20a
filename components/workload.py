"""The platform's Deployments: one shape, so that every one of them is restricted, probed and placed alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HOST_PROCESS_LABEL", "ConfigVolume", "SecretVolume", "Workload", "deployment", "namespace", "service"]

HOST_PROCESS_LABEL = "trainyard.dev/host-process"
"""Names the program that the embedded cluster runs as a process of this machine instead of a container."""

_READINESS: dict[str, Any] = {"periodSeconds": 5}
_LIVENESS: dict[str, Any] = {"initialDelaySeconds": 15, "periodSeconds": 20, "failureThreshold": 5}

# Written out, because a default that the API server filled in would stay behind when the type changes.
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


@dataclass(frozen=True)
class ConfigVolume:
    """A ConfigMap as files."""

    name: str
    path: str


@dataclass(frozen=True)
class SecretVolume:
    """A Secret as files."""

    name: str
    path: str


@dataclass(frozen=True)
class Workload:
    """One platform program.

    Parameters
    ----------
    name, namespace
        Of the Deployment; its ServiceAccount has the same name.
    program
        Program as the supervisor of the embedded cluster knows it; also the container's name.
    image, command, args, env
        Of the container.
    replicas
        Number of pods.
    ports
        Container port by name: ``webhook``, ``metrics``, ``health``.
    readiness, liveness
        Probes.
    memory
        Requested memory and its limit, in Kubernetes quantities.
    single
        Whether two pods must never run at once, because nothing elects a leader between them.
    """

    name: str
    namespace: str
    program: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    replicas: int
    ports: Mapping[str, int]
    readiness: Mapping[str, Any]
    liveness: Mapping[str, Any]
    memory: tuple[str, str]
    cpu: str = "100m"
    volumes: tuple[ConfigVolume | SecretVolume, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    single: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def selector(self) -> dict[str, str]:
        """Labels that select the pods."""
        return {"app.kubernetes.io/name": self.name}


def deployment(workload: Workload) -> dict[str, Any]:
    """Return the Deployment of a program."""
    labels = {**workload.selector, HOST_PROCESS_LABEL: workload.program}
    request, limit = workload.memory
    container: dict[str, Any] = {
        "name": workload.program,
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(workload.command),
        "args": list(workload.args),
        **({"env": [{"name": key, "value": value} for key, value in workload.env.items()]} if workload.env else {}),
        "ports": [{"name": key, "containerPort": port, "protocol": "TCP"} for key, port in workload.ports.items()],
        "readinessProbe": dict(_READINESS) | dict(workload.readiness),
        "livenessProbe": dict(_LIVENESS) | dict(workload.liveness),
        "resources": {"requests": {"cpu": workload.cpu, "memory": request}, "limits": {"memory": limit}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *({"name": f"files-{n}", "mountPath": v.path, "readOnly": True} for n, v in enumerate(workload.volumes)),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        ],
    }
    pod = {
        "serviceAccountName": workload.name,
        "priorityClassName": "system-cluster-critical",
        **({"nodeSelector": dict(workload.node_selector)} if workload.node_selector else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            *(_volume(f"files-{number}", volume) for number, volume in enumerate(workload.volumes)),
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": workload.namespace, "labels": labels},
        "spec": {
            "replicas": workload.replicas,
            "selector": {"matchLabels": workload.selector},
            "strategy": {"type": "Recreate"} if workload.single else _ROLLING,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def service(workload: Workload, name: str, ports: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Return a Service of a program.

    Its readiness is not awaited: the Deployment's is, and nothing uses the Service before.

    Parameters
    ----------
    workload
        The program.
    name
        Name of the Service.
    ports
        Service port and container port name, by name.
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
            "selector": workload.selector,
            "ports": [
                {"name": key, "port": port, "targetPort": target, "protocol": "TCP"}
                for key, (port, target) in ports.items()
            ],
        },
    }


def namespace(
    name: str, *, pod_security: str = "restricted", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a namespace with its Pod Security level."""
    levels = {f"pod-security.kubernetes.io/{mode}": pod_security for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**(labels or {}), **levels}}}


def _volume(name: str, volume: ConfigVolume | SecretVolume) -> dict[str, Any]:
    if isinstance(volume, ConfigVolume):
        return {"name": name, "configMap": {"name": volume.name}}
    return {"name": name, "secret": {"secretName": volume.name, "defaultMode": 0o440}}
