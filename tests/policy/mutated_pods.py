"""Jobs and other controllers of pods with random defects in their pod templates."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

Body = dict[str, Any]

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, 0, 1, -1, 1.5, 70000, 2**31, 2**63),
    *("", "x", "A b", "1", "500m", "-1", "1Gi", "10x", "Always", "Never", "a/b", "a.io/b", "../x", "/", "x" * 64),
    *([], {}, [None], [{}], {"a": 1}, {"name": "x"}),
)
_ADDED: Final[dict[str, tuple[Any, ...]]] = {
    "containers": ({"name": "main", "image": "i"}, {"name": "other"}, {"name": "other", "image": " i"}),
    "volumes": (
        {"name": "data", "emptyDir": {}},
        {"name": "two", "emptyDir": {}, "hostPath": {"path": "/"}},
        {"name": "host", "hostPath": {"path": "/a/../b", "type": "Folder"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": ""}},
        {"name": "map", "configMap": {"items": [{"key": "a", "path": "/b"}]}},
        {"name": "none"},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o1777}},
        {"name": "info", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}},
    ),
    "volumeMounts": (
        {"name": "unknown", "mountPath": "/u"},
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "a:b"},
        {"name": "data", "mountPath": "/s", "subPath": "../a"},
        {"name": "data", "mountPath": "/p", "mountPropagation": "Sideways"},
    ),
    "env": (
        {"name": "A=B", "value": "1"},
        {"name": "", "value": "1"},
        {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
        {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}},
        {"name": "V", "value": "1", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
        {"name": "K", "valueFrom": {"secretKeyRef": {"name": "A", "key": "b c"}}},
    ),
    "ports": (
        {"containerPort": 0},
        {"containerPort": 80, "name": "Http"},
        {"containerPort": 81, "name": "web"},
        {"containerPort": 82, "hostPort": 83, "protocol": "QUIC"},
    ),
    "tolerations": (
        {"operator": "Is", "key": "a"},
        {"operator": "Exists", "key": "a", "value": "b"},
        {"key": "a", "tolerationSeconds": 5},
        {"operator": "Equal"},
        {"key": "a b"},
    ),
    "topologySpreadConstraints": (
        {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "Maybe"},
    ),
    "limits": ({"nvidia.com/gpu": "2"}, {"cpu": "1"}, {"gpu": "1"}, {"memory": "-1"}, {"hugepages-2Mi": "3Mi"}),
    "requests": ({"nvidia.com/gpu": "1"}, {"cpu": "3"}, {"example.com/x": "1.5"}, {"memory": "1e3"}),
    "main": (
        {"livenessProbe": {}},
        {"readinessProbe": {"httpGet": {"port": "p q"}, "successThreshold": 2}},
        {"startupProbe": {"tcpSocket": {"port": 0}, "exec": {"command": ["a"]}}},
        {"lifecycle": {"preStop": {}}},
        {"securityContext": {"runAsUser": -1}},
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
        {"resizePolicy": [{"resourceName": "gpu", "restartPolicy": "x"}]},
        {"restartPolicy": "Always"},
        {"envFrom": [{"configMapRef": {"name": "A"}, "secretRef": {"name": "b"}}]},
        {"workingDir": "", "terminationMessagePath": "", "terminationMessagePolicy": "Some"},
        {"imagePullPolicy": "Sometimes"},
        {"image": " spaced "},
        {"stdin": True, "unknownField": 1},
    ),
    "pod": (
        {"restartPolicy": "Always"},
        {"dnsPolicy": "None"},
        {"hostNetwork": True},
        {"hostname": "A_b"},
        {"nodeSelector": {"a b": "c"}},
        {"priorityClassName": "A"},
        {"activeDeadlineSeconds": 0},
        {"terminationGracePeriodSeconds": -1},
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        {"securityContext": {"sysctls": [{"name": "Kernel", "value": "1"}], "fsGroup": -2}},
        {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
        {"hostAliases": [{"ip": "300.1.1.1"}]},
        {"imagePullSecrets": [{"name": ""}]},
        {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}},
        {"ephemeralContainers": [{"name": "debug", "image": "i"}]},
        {"resourceClaims": [{"name": "a"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}},
        {"serviceAccountName": "A"},
        {"overhead": {"cpu": "1"}},
        {"readinessGates": [{"conditionType": "a b"}]},
        {"shareProcessNamespace": True, "hostPID": True},
    ),
}


_SELECTOR: Final = {"selector": {"matchLabels": {"a": "b"}}}
_SPECS: Final[dict[str, tuple[str, Body]]] = {
    "Job": ("batch/v1", {"completionMode": "Indexed", "completions": 1, "suspend": True}),
    "CronJob": ("batch/v1", {}),
    "Deployment": ("apps/v1", _SELECTOR),
    "StatefulSet": ("apps/v1", {**_SELECTOR, "serviceName": "a"}),
    "DaemonSet": ("apps/v1", _SELECTOR),
    "ReplicaSet": ("apps/v1", _SELECTOR),
}
"""API version, and fields beside the pod template, of each kind."""


def template() -> Body:
    """Return a valid pod template with many kinds of fields."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 5}
    main = {
        "name": "main",
        "image": "registry.example/train:1.0",
        "command": ["train"],
        "env": [{"name": "A", "value": "1"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "web", "containerPort": 8080}],
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": probe,
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    pod = {
        "restartPolicy": "Never",
        "containers": [main],
        "initContainers": [{"name": "first", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "map", "configMap": {"name": "m"}}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"pool": "gpu"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ],
    }
    return {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": pod}


def mutated_objects(count: int, seed: int) -> Iterator[tuple[list[str], Body]]:
    """Yield objects with one to three changes, and what was changed."""
    source = random.Random(seed)
    for number in range(count):
        pods = template()
        changes = [_change(source, pods) for _ in range(source.choice((1, 1, 2, 3)))]
        kind = source.choice(("Job", "Job", "Job", *_SPECS))
        api_version, fields = _SPECS[kind]
        if kind != "Job" and isinstance(pods.get("spec"), dict) and pods["spec"].get("restartPolicy") == "Never":
            pods["spec"]["restartPolicy"] = "OnFailure" if kind == "CronJob" else "Always"
        spec = {"template": pods, **fields}
        if kind == "CronJob":
            spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": spec}}
        metadata = {"name": f"job-{number}", "namespace": "default"}
        yield [kind, *changes], {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _change(source: random.Random, pods: Body) -> str:
    if source.random() < 0.6:
        return _added(source, pods)
    places = [*_places(pods, "")]
    holder, key, path = source.choice(places)
    match source.choice(("replace", "replace", "delete", "double")):
        case "delete":
            del holder[key]
            return f"without {path}"
        case "double" if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
            return f"{path} twice"
    holder[key] = copy.deepcopy(source.choice(_ODD))
    return f"{path} = {holder[key]!r}"


def _added(source: random.Random, pods: Body) -> str:
    name = source.choice(list(_ADDED))
    value = copy.deepcopy(source.choice(_ADDED[name]))
    pod = pods.get("spec") if isinstance(pods.get("spec"), dict) else {}
    containers = pod.get("containers")
    main = containers[0] if isinstance(containers, list) and containers and isinstance(containers[0], dict) else {}
    resources = main.setdefault("resources", {}) if isinstance(main.get("resources", {}), dict) else {}
    if name in ("main", "pod"):
        (main if name == "main" else pod).update(value)
    elif name in ("limits", "requests"):
        if isinstance(resources.setdefault(name, {}), dict):
            resources[name].update(value)
    else:
        holder = main if name in ("volumeMounts", "env", "ports") else pod
        if isinstance(holder.setdefault(name, []), list):
            holder[name].append(value)
    return f"{name} + {value!r}"


def _places(value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key, f"{path}.{key}"
            yield from _places(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index, f"{path}[{index}]"
            yield from _places(inner, f"{path}[{index}]")
