"""Every field of a legacy kind's schema, each in a job that sets it.

The files of folder ``schemas`` list the fields of a CustomResourceDefinition with their types, one a line; what is a
type of Kubernetes itself (pod templates, volumes, affinity) is one field. A file is named after its kind, and after the
version if another one has the kind too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.convert.conversions import conversion_of
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.field_finding import FieldFinding

SCHEMAS: Final = Path(__file__).parent / "schemas"
_IMAGE: Final = "docker.io/acme/app:1"
_POD: Final = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": _IMAGE}]}}
_HEAD: Final = {"rayStartParams": {}, "template": _POD}
_CLUSTER: Final = {"headGroupSpec": _HEAD, "workerGroupSpecs": [{"groupName": "w", "replicas": 2, **_HEAD}]}
_APPLICATION: Final = {"image": _IMAGE, "mainApplicationFile": "local:///a.py", "driver": {}, "executor": {}}


def _roles(field: str, *names: str) -> Body:
    return {field: {name: {"replicas": 1, "template": _POD} for name in names}}


_BASES: Final[Mapping[str, tuple[str, Body]]] = {
    "JAXJob": ("kubeflow.org/v1", _roles("jaxReplicaSpecs", "Worker")),
    "MPIJob": ("kubeflow.org/v1", _roles("mpiReplicaSpecs", "Launcher", "Worker")),
    "MPIJob-v2beta1": ("kubeflow.org/v2beta1", _roles("mpiReplicaSpecs", "Launcher", "Worker")),
    "PaddleJob": ("kubeflow.org/v1", _roles("paddleReplicaSpecs", "Worker")),
    "PyTorchJob": ("kubeflow.org/v1", _roles("pytorchReplicaSpecs", "Worker")),
    "TFJob": ("kubeflow.org/v1", _roles("tfReplicaSpecs", "Worker")),
    "XGBoostJob": ("kubeflow.org/v1", _roles("xgbReplicaSpecs", "Worker")),
    "Job": ("batch.volcano.sh/v1alpha1", {"tasks": [{"name": "a", "replicas": 2, "template": _POD}]}),
    "RayCluster": ("ray.io/v1", _CLUSTER),
    "RayJob": ("ray.io/v1", {"entrypoint": "python a.py", "rayClusterSpec": _CLUSTER}),
    "SparkApplication": ("sparkoperator.k8s.io/v1beta2", _APPLICATION),
}
_PARTITIONS: Final = "spec.tasks[].partitionPolicy"
_SAMPLES: Final = {"integer": 2, "boolean": True, "number": 1, "int-or-string": "1Gi", "map": {"a": "b"}, "string": "a"}
_FIELDS: Final[Mapping[str, Any]] = {
    r"template$|submitterPodTemplate$": _POD,
    r"rayClusterSpec$": _CLUSTER,
    r"\.(memory|memoryOverhead|memoryLimit)$": "2g",
    r"\.(coreLimit|coreRequest)$": "2",
    r"memoryOverheadFactor$": "0.2",
    r"\.affinity$": {"nodeAffinity": {}},
    r"\.env$": [{"name": "A", "value": "b"}],
    r"\.envFrom$": [{"configMapRef": {"name": "a"}}],
    r"envSecretKeyRefs$": {"A": {"name": "a", "key": "b"}},
    r"\.(initContainers|sidecars)$": [{"name": "other", "image": _IMAGE}],
    r"\.(podS|s)ecurityContext$": {"runAsUser": 1000},
    r"\.dnsConfig$": {"nameservers": ["10.0.0.1"]},
    r"\.lifecycle$": {"preStop": {"exec": {"command": ["true"]}}},
    r"\.volumes$": [{"name": "v", "emptyDir": {}}],
    r"\.volumeMounts$": [{"name": "v", "mountPath": "/v"}],
    r"\.tolerations$": [{"key": "a", "operator": "Exists"}],
    r"\.hostAliases$": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    r"\.ports$": [{"name": "a", "containerPort": 80}],
    r"\.volumeClaim$": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    r"(configMaps|secrets)\[\]\.name$": "a",
    r"\.path$|mountPath$": "/a",
    r"gpu\.name$": "nvidia.com/gpu",
    r"gpu\.quantity$": 1,
    r"plugins$": {"svc": []},
    r"policies\[\]\.action$": "RestartJob",
    r"policies\[\]\.events$": ["PodFailed"],
    r"policies\[\]\.timeout$|runningEstimate$": "1h",
    r"dependsOn\.name$": ["b"],
    r"topologyPolicy$": "single-numa-node",
    r"totalPartitions$": 1,
    r"(?<=\.)resources$|minResources$": {"cpu": "2"},
    r"(Master|Launcher|Chief)\.replicas$": 1,
    r"ReplicaSpecs\.\w+\.restartPolicy$": "OnFailure",
    r"cleanPodPolicy$": "Running",
    r"launcherCreationPolicy$": "AtStartup",
    r"mainContainer$": "main",
    r"elasticPolicy\.metrics$": [{"type": "Resource"}],
    r"nprocPerNode$": "2",
    r"sshAuthMountPath$": "/home/a/.ssh",
    r"successPolicy$": "AllWorkers",
    r"\.secretType$": "Generic",
    r"ingressTLS$": [{"hosts": ["a"]}],
    r"(ingressRules|egressRules)$": [{}],
    r"submissionMode$": "HTTPMode",
    r"managedBy$": "ray.io/kuberay-operator",
    r"runtimeEnvYAML$": "pip: [a]",
    r"imagePullSecrets$": ["a"],
    r"pythonVersion$": "3",
    r"dynamicAllocation\.\w+Executors$": 2,
    r"spec\.type$": "Python",
    r"mainApplicationFile$": "local:///a.py",
    r"restartPolicy\.type$": "OnFailure",
    r"entrypointResources$": '{"a": 1}',
    r"schedulerName$|batchScheduler$": "volcano",
    r"imagePullPolicy$": "Always",
    r"collectorOptions\.resources$|autoscalerOptions\.resources$": {"limits": {"cpu": "1"}},
    r"\.image$": _IMAGE,
    r"\.rayVersion$": "2.46.0",
    r"clusterSelector$": {"ray.io/cluster": "a"},
}
"""Values of fields whose type says too little, by expressions for their paths."""
_TOGETHER: Final[Mapping[str, Body]] = {
    r"dynamicAllocation\.(?!enabled)": {"spec.dynamicAllocation.enabled": True},
    r"(configMaps|secrets)\[\]": {"name": "a", "path": "/a"},
    r"gpu\.": {"name": "nvidia.com/gpu", "quantity": 1},
    r"volumes\[\]": {"mountPath": "/a"},
    r"tasks\[\]\.partitionPolicy": {f"{_PARTITIONS}.totalPartitions": 1, f"{_PARTITIONS}.partitionSize": 2},
    r"ReplicaSpecs\.\w+\.(replicas|restartPolicy)$": {"template": _POD},
    r"policies\[\]": {"event": "PodFailed", "action": "RestartJob"},
}
"""Siblings that a field needs."""


@cache
def fields_of(kind: str) -> tuple[tuple[str, str], ...]:
    """Return paths and types of the fields of a kind."""
    lines = (SCHEMAS / f"{kind}.txt").read_text().splitlines()
    pairs = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    return tuple((path, kind_of_value) for path, kind_of_value in pairs)


def conversions_of(kind: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, str, Conversion]]:
    """Yield some fields of a kind, with the path that the job has for each, and the conversion of that job."""
    for path, type_ in fields_of(kind)[start:stop]:
        yield path, path.replace("[]", "[0]"), conversion_of(_job(kind, path, type_))


def notes_of(path: str, conversion: Conversion) -> list[FieldFinding]:
    """Return what becomes of a field: the notes on it, on what contains it and on what it contains."""
    found = []
    for note in conversion.notes:
        own = note.path
        inside = own.startswith((f"{path}.", f"{path}["))
        around = path.startswith((f"{own}.", f"{own}[")) and own.count(".") > 0 and note.value is not None
        if own == path or inside or around:
            found.append(note)
    return found


def _job(kind: str, path: str, type_: str) -> Body:
    version, spec = _BASES[kind]
    kind = kind.partition("-")[0]
    body: Body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "language"}}
    body["spec"] = deepcopy(dict(spec))
    if "dependsOn" in path:
        body["spec"]["tasks"].append({"name": "b", "replicas": 1, "template": _POD})
        _set(body, "spec.tasks[].dependsOn.name", ["b"])
    for pattern, siblings in _TOGETHER.items():
        if re.search(pattern, path):
            parent = path.rpartition(".")[0]
            for name, value in siblings.items():
                _set(body, name if name.startswith("spec.") else f"{parent}.{name}", value, weak=True)
    if path.endswith("volumeMounts") and kind == "SparkApplication":
        body["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    _set(body, path, _sample(path, type_))
    return body


def _sample(path: str, type_: str) -> Any:
    for pattern, value in _FIELDS.items():
        if re.search(pattern, path):
            return deepcopy(value)
    kind, _, first = type_.partition("=")
    if first:
        return first
    if kind.startswith("list"):
        return ["a"] if kind == "list-of-string" else [{}]
    return _SAMPLES.get(kind, {"a": "b"})


def _set(body: Body, path: str, value: Any, *, weak: bool = False) -> None:
    place: Any = body
    names = path.split(".")
    for name in names[:-1]:
        listed = name.endswith("[]")
        name = name.removesuffix("[]")
        place = place.setdefault(name, [{}] if listed else {})
        place = place[0] if listed else place
    if not weak or names[-1] not in place:
        place[names[-1]] = value
