"""KWOK configuration: the life cycle of simulated nodes and pods.

A pod on a simulated node becomes ready at once. A pod of a batch Job completes after the duration in its annotation
``trainyard.dev/simulated-duration``. A pod of a platform Deployment whose program runs as a host process is ready only
while the supervisor marks it healthy. As with a kubelet, a deleted pod terminates before it is removed; a pod of a
platform Deployment terminates once the supervisor reports that its processes have stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

HOST_PROCESS_LABEL = "trainyard.dev/host-process"
HEALTHY_ANNOTATION = "trainyard.dev/host-process-healthy"
ENDED_ANNOTATION = "trainyard.dev/host-process-ended"
_DURATION_ANNOTATION = "trainyard.dev/simulated-duration"

_DEFAULT_DURATION_MS = 2000

_PRESENT, _ABSENT, _IN, _NOT_IN = "Exists", "DoesNotExist", "In", "NotIn"
_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_HOST = f'.metadata.labels["{HOST_PROCESS_LABEL}"]'
_HEALTHY = f'.metadata.annotations["{HEALTHY_ANNOTATION}"]'
_ENDED = f'.metadata.annotations["{ENDED_ANNOTATION}"]'
_DELETED = ".metadata.deletionTimestamp"
_PHASE = ".status.phase"


def stages_document() -> str:
    """Return the configuration file of KWOK."""
    configuration = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "enableDebuggingHandlers": False,
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 8,
            "nodeLeaseParallelism": 8,
        },
    }
    return yaml.safe_dump_all([configuration, *stages()], sort_keys=False, width=1000)


def stages() -> list[dict[str, Any]]:
    """Return the Stage objects, for nodes and pods."""
    return [*_of_nodes(), *_of_simulated_pods(), *_of_host_processes(), *_of_deleted_pods()]


def _of_nodes() -> list[dict[str, Any]]:
    return [
        _stage("node-start", "Node", [_expression(_READY, _NOT_IN, "True")], status=_NODE_START),
        _stage(
            "node-heartbeat",
            "Node",
            [_expression(_READY, _IN, "True")],
            status=_NODE_CONDITIONS,
            delay={"durationMilliseconds": 240_000, "jitterDurationMilliseconds": 300_000},
        ),
    ]


def _of_simulated_pods() -> list[dict[str, Any]]:
    return [
        _stage("pod-run", "Pod", [*_active("Pending"), _expression(_HOST, _ABSENT)], status=_pod_running(ready=True)),
        _stage(
            "pod-ready-again",
            "Pod",
            [*_active("Running"), _expression(_HOST, _ABSENT), _expression(_READY, _NOT_IN, "True")],
            status=_pod_readiness(ready=True),
        ),
        _stage(
            "pod-complete",
            "Pod",
            [
                *_active("Running"),
                _expression(_READY, _IN, "True"),
                _expression(".metadata.ownerReferences.[].kind", _IN, "Job"),
            ],
            status=_pod_ended("Succeeded", 0, "Completed"),
            delay={
                "durationMilliseconds": _DEFAULT_DURATION_MS,
                "durationFrom": {"expressionFrom": f'.metadata.annotations["{_DURATION_ANNOTATION}"]'},
            },
        ),
    ]


def _of_host_processes() -> list[dict[str, Any]]:
    return [
        _stage(
            "host-process-pod-run",
            "Pod",
            [*_active("Pending"), _expression(_HOST, _PRESENT)],
            status=_pod_running(ready=False),
        ),
        _stage(
            "host-process-pod-ready",
            "Pod",
            [
                *_active("Running"),
                _expression(_HOST, _PRESENT),
                _expression(_HEALTHY, _IN, "true"),
                _expression(_READY, _NOT_IN, "True"),
            ],
            status=_pod_readiness(ready=True),
        ),
        _stage(
            "host-process-pod-unready",
            "Pod",
            [
                *_active("Running"),
                _expression(_HOST, _PRESENT),
                _expression(_HEALTHY, _NOT_IN, "true"),
                _expression(_READY, _IN, "True"),
            ],
            status=_pod_readiness(ready=False),
        ),
    ]


def _of_deleted_pods() -> list[dict[str, Any]]:
    return [
        _stage(
            "pod-terminate",
            "Pod",
            [*_deleted(), _expression(_HOST, _ABSENT)],
            status=_pod_ended("Failed", 137, "Error"),
        ),
        _stage(
            "host-process-pod-terminate",
            "Pod",
            [*_deleted(), _expression(_HOST, _PRESENT), _expression(_ENDED, _IN, "true")],
            status=_pod_ended("Succeeded", 0, "Completed"),
        ),
        _stage(
            "pod-remove",
            "Pod",
            [
                _expression(_DELETED, _PRESENT),
                _expression(_PHASE, _IN, "Succeeded", "Failed"),
                _expression(".metadata.finalizers", _ABSENT),
            ],
            delete=True,
        ),
    ]


def _active(phase: str) -> list[dict[str, Any]]:
    return [_expression(_DELETED, _ABSENT), _expression(_PHASE, _IN, phase)]


def _deleted() -> list[dict[str, Any]]:
    return [_expression(_DELETED, _PRESENT), _expression(_PHASE, _IN, "Pending", "Running")]


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _stage(
    name: str,
    kind: str,
    conditions: list[dict[str, Any]],
    *,
    status: str | None = None,
    delete: bool = False,
    delay: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            **({"delay": dict(delay)} if delay else {}),
            "next": {"delete": True} if delete else {"statusTemplate": status},
        },
    }


_NODE_CONDITIONS = """\
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ or $.metadata.creationTimestamp $now | Quote }}
{{ end }}
"""

_NODE_START = (
    _NODE_CONDITIONS
    + """\
phase: Running
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
- type: Hostname
  address: {{ .metadata.name | Quote }}
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  bootID: ""
  machineID: ""
  systemUUID: ""
  osImage: simulated
  kernelVersion: simulated
  containerRuntimeVersion: {{ printf "kwok://%s" Version | Quote }}
  kubeletVersion: {{ printf "kwok-%s" Version | Quote }}
  kubeProxyVersion: {{ printf "kwok-%s" Version | Quote }}
"""
)


def _condition(kind: str, status: str, reason: str = "") -> str:
    text = f'- type: {kind}\n  status: "{status}"\n  lastTransitionTime: {{{{ $now | Quote }}}}\n'
    return text + (f"  reason: {reason}\n" if reason else "")


_POD_KEY = (
    '( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" )'
)


def _pod_running(*, ready: bool) -> str:
    verdict, reason = ("True", "") if ready else ("False", "ContainersNotReady")
    return (
        "{{ $now := Now }}\nphase: Running\nstartTime: {{ $now | Quote }}\nconditions:\n"
        + _condition("Initialized", "True")
        + _condition("ContainersReady", verdict, reason)
        + _condition("Ready", verdict, reason)
        + "{{ range .spec.readinessGates }}\n"
        + _condition("{{ .conditionType | Quote }}", "True")
        + "{{ end }}\n"
        + f"""\
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: {str(ready).lower()}
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
initContainerStatuses:
{{{{ range .spec.initContainers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: true
  restartCount: 0
  {{{{ if eq (or .restartPolicy "") "Always" }}}}
  started: true
  state:
    running:
      startedAt: {{{{ $now | Quote }}}}
  {{{{ else }}}}
  started: false
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
  {{{{ end }}}}
{{{{ end }}}}
hostIP: {{{{ NodeIPWith .spec.nodeName | Quote }}}}
podIP: {{{{ PodIPWith .spec.nodeName {_POD_KEY} | Quote }}}}
"""
    )


def _pod_readiness(*, ready: bool) -> str:
    verdict, reason = ("True", "") if ready else ("False", "ContainersNotReady")
    return (
        "{{ $now := Now }}\n{{ $root := . }}\nconditions:\n"
        + _condition("ContainersReady", verdict, reason)
        + _condition("Ready", verdict, reason)
        + f"""\
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: {str(ready).lower()}
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{{{ or $root.status.startTime $now | Quote }}}}
{{{{ end }}}}
"""
    )


def _pod_ended(phase: str, exit_code: int, reason: str) -> str:
    return (
        "{{ $now := Now }}\n{{ $root := . }}\nconditions:\n"
        + _condition("ContainersReady", "False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
        + _condition("Ready", "False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
        + f"""\
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {exit_code}
      reason: {reason}
      startedAt: {{{{ or $root.status.startTime $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
phase: {phase}
"""
    )
