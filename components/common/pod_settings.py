"""Settings of the platform's own pods, applied to a Deployment: one of a `Workload` or of an upstream manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.settings.pod_affinity import AffinitySettings
from trainyard.settings.pods import LogLevel, PlatformPodSettings, ProgramSettings, ResourceSettings

_OF_CONTAINERS = frozenset({"resources", "log_level"})
"""Settings of a container; the others are those of its pod."""

_QUOTA_PODS = "1k"
"""Far above the number of platform pods: the quota only permits the priority class."""


@dataclass(frozen=True)
class LogFlag:
    """Flag of a program for its log level.

    Parameters
    ----------
    name
        Name of the flag.
    values
        Value by level.
    """

    name: str
    values: Mapping[LogLevel, str]

    def applied(self, arguments: Sequence[str], level: LogLevel) -> list[str]:
        """Return arguments with the flag, in its place if it is set already, else at the end."""
        value = self.values[level]
        positions = [index for index, each in enumerate(arguments) if each.lstrip("-").startswith(f"{self.name}=")]
        if not positions:
            return [*arguments, f"--{self.name}={value}"]
        found = list(arguments)
        for index in positions:
            found[index] = f"{found[index].partition('=')[0]}={value}"
        return found


_NAMES: Final = MappingProxyType({level: level.value for level in LogLevel})
KLOG: Final = LogFlag("v", {LogLevel.ERROR: "0", LogLevel.INFO: "2", LogLevel.DEBUG: "5"})
"""Volcano's programs: klog has no level above 0, so `error` still logs some messages of their start."""
ZAP_LOG: Final = LogFlag("zap-log-level", {LogLevel.ERROR: "error", LogLevel.INFO: "2", LogLevel.DEBUG: "5"})
"""Managers of JobSet and Kueue, whose levels 2 and 5 are those of klog."""
OPA_LOG: Final = LogFlag("log-level", _NAMES)
CONTROLLER_LOG: Final = LogFlag("log-level", _NAMES)


@dataclass(frozen=True)
class ContainerProgram:
    """Program of a container.

    Parameters
    ----------
    name
        Name of the program in the settings.
    log_flag
        Its flag for the log level; None: it has none.
    """

    name: str
    log_flag: LogFlag | None = None


@dataclass(frozen=True)
class PodTable:
    """Resolves the pod settings of programs.

    Parameters
    ----------
    settings
        Settings of the stack.
    node_selector
        Labels that the cluster's provider requires of the nodes of platform pods.
    """

    settings: PlatformPodSettings = field(default_factory=PlatformPodSettings)
    node_selector: Mapping[str, str] = field(default_factory=dict)

    def replicas(self, program: str, default: int) -> int:
        """Return the replicas of a program; `default` are those of its component."""
        own = self.settings.of(program).replicas
        return default if own is None else own

    def applied(self, deployment: Mapping[str, Any], programs: Mapping[str, ContainerProgram]) -> dict[str, Any]:
        """Return a Deployment with the settings of its programs.

        Parameters
        ----------
        deployment
            The Deployment; what the settings leave unset is kept.
        programs
            Program by name of the container; that of the first container decides on the pod.

        Raises
        ------
        TrainyardError
            A setting cannot be applied: a pod setting of a sidecar, a log level of a program without one, or a limit
            below the request.
        """
        body: dict[str, Any] = _copy(deployment)
        pod = body["spec"]["template"]["spec"]
        first, *sidecars = pod["containers"]
        owner = programs[first["name"]]
        findings = [
            finding
            for container in sidecars
            for finding in self._pod_settings_of_sidecar(programs[container["name"]].name, owner.name)
        ]
        for container in pod["containers"]:
            findings += self._set_container(container, programs[container["name"]])
        if findings:
            raise TrainyardError(
                "The settings of the platform's pods cannot be applied", findings=list(dict.fromkeys(findings))
            )
        body["spec"]["replicas"] = self.replicas(owner.name, body["spec"].get("replicas", 1))
        self._set_pod(pod, self.settings.of(owner.name), body["spec"]["selector"])
        return body

    def _set_pod(self, pod: dict[str, Any], settings: ProgramSettings, selector: Mapping[str, Any]) -> None:
        if settings.priority_class is not None:
            pod["priorityClassName"] = settings.priority_class
        if nodes := {**pod.get("nodeSelector", {}), **self.node_selector, **(settings.node_selector or {})}:
            pod["nodeSelector"] = nodes
        spread, secrets = _dumped(settings.topology_spread), settings.image_pull_secrets
        replaced: dict[str, Any] = {
            "tolerations": _dumped(settings.tolerations),
            "affinity": None if settings.affinity is None else _affinity(settings.affinity, selector),
            "topologySpreadConstraints": None if spread is None else [each | _same_pods(selector) for each in spread],
            "imagePullSecrets": None if secrets is None else [{"name": name} for name in secrets],
        }
        for key, value in replaced.items():
            if value:
                pod[key] = value
            elif value is not None:
                pod.pop(key, None)

    def _set_container(self, container: dict[str, Any], program: ContainerProgram) -> Iterator[Finding]:
        settings = self.settings.of(program.name)
        before = container.get("resources") or {}
        defaults = ResourceSettings.model_construct(
            requests=before.get("requests", {}), limits=before.get("limits", {})
        )
        resources = settings.resources.over(defaults)
        for name, limit, request in resources.exceeded():
            path = self._resource_path(program.name, name)
            message = f"the limit {limit} of {name} of {program.name} is below the request {request}"
            yield Finding(path, message, f"raise limits.{name}, or lower requests.{name}")
        merged = {"requests": resources.requests, "limits": resources.limits}
        if present := {key: dict(value) for key, value in merged.items() if value}:
            container["resources"] = present
        if settings.log_level is None:
            return
        if program.log_flag is not None:
            container["args"] = program.log_flag.applied(container.get("args", ()), settings.log_level)
        elif self.settings.programs.get(program.name, ProgramSettings()).log_level is not None:
            path = f"trainyard:pods.programs.{program.name}.logLevel"
            yield Finding(path, f"{program.name} has no log level", "remove it")

    def _pod_settings_of_sidecar(self, sidecar: str, owner: str) -> Iterator[Finding]:
        own = self.settings.programs.get(sidecar, ProgramSettings())
        for name in sorted(own.model_fields_set - _OF_CONTAINERS):
            path = f"trainyard:pods.programs.{sidecar}.{type(own).model_fields[name].alias}"
            yield Finding(path, f"{sidecar} runs in the pods of {owner}", f"set it under pods.programs.{owner}")

    def _resource_path(self, program: str, name: str) -> str:
        own = self.settings.programs.get(program, ProgramSettings()).resources
        level = f"pods.programs.{program}" if name in {**own.requests, **own.limits} else "pods"
        return f"trainyard:{level}.resources"


def check_programs(settings: PlatformPodSettings, installed: Mapping[str, bool]) -> list[Finding]:
    """Return findings about settings of programs that this stack does not install.

    Parameters
    ----------
    settings
        Settings of the stack.
    installed
        Whether this program installs it, by name of the program.
    """
    findings = []
    for name in settings.programs:
        path = f"trainyard:pods.programs.{name}"
        if name not in installed:
            findings.append(Finding(path, "unknown program", f"use one of {', '.join(installed)}"))
        elif not installed[name]:
            message = f"{name} is not installed by this stack"
            findings.append(Finding(path, message, "remove it, or set install: true for its component"))
    return findings


def disruption_budget(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the PodDisruptionBudget of a Deployment: one pod at a time may be evicted.

    With one replica it permits the eviction, because a budget that forbids it would block the drain of the node until
    a person deletes the pod. Pods that are not ready may always be evicted.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {key: deployment["metadata"][key] for key in ("name", "namespace")},
        "spec": {
            "maxUnavailable": 1,
            "selector": dict(deployment["spec"]["selector"]),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def priority_class_quota(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ResourceQuota that permits the priority class of a Deployment in its namespace.

    Some clusters, such as those of GKE, reject pods of the system priority classes outside kube-system unless a
    ResourceQuota of the namespace selects their class.
    """
    name = deployment["spec"]["template"]["spec"]["priorityClassName"]
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {key: deployment["metadata"][key] for key in ("name", "namespace")},
        "spec": {"hard": {"pods": _QUOTA_PODS}, "scopeSelector": {"matchExpressions": [scope]}},
    }


def _dumped(values: Iterable[Any] | None) -> list[dict[str, Any]] | None:
    if values is None:
        return None
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in values]


def _affinity(settings: AffinitySettings, selector: Mapping[str, Any]) -> dict[str, Any]:
    """Return the affinity of a pod; a term without a selector selects the pods of the Deployment."""
    body: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    for part in ("podAffinity", "podAntiAffinity"):
        required, preferred = (
            body.get(part, {}).get(f"{strength}DuringSchedulingIgnoredDuringExecution", ())
            for strength in ("required", "preferred")
        )
        for term in (*required, *(each["podAffinityTerm"] for each in preferred)):
            if "labelSelector" not in term:
                term |= _same_pods(selector)
    return {key: value for key, value in body.items() if value}


def _same_pods(selector: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that select the pods of the same template, so that old pods do not block a roll-out."""
    return {"labelSelector": dict(selector), "matchLabelKeys": ["pod-template-hash"]}


def _copy(value: Any) -> Any:
    """Copy dicts and lists; outputs of other resources, such as an image, cannot be copied."""
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value
