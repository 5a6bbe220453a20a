"""A small JobSet CRD: every part that our CRDs take over, with recognizable schemas."""

from __future__ import annotations

from typing import Any

_NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "description": "a name"}}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list_map(key: str, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
        "description": "a list",
    }


def jobset_crd() -> dict[str, Any]:
    container = _object(
        name={"type": "string"},
        env=_list_map("name", _NAMED),
        volumeMounts=_list_map("mountPath", _object(mountPath={"type": "string"}, name={"type": "string"})),
        resources=_object(limits={"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}),
        securityContext=_object(runAsUser={"type": "integer"}),
    )
    pod = _object(
        containers=_list_map("name", container),
        volumes=_list_map("name", _NAMED),
        imagePullSecrets=_list_map("name", _NAMED),
        securityContext=_object(fsGroup={"type": "integer"}),
        affinity=_object(),
        tolerations={"type": "array", "x-kubernetes-list-type": "atomic", "items": _object(key={"type": "string"})},
        schedulingGates=_list_map("name", _NAMED),
    )
    job = _object(spec=_object(template=_object(spec=pod)))
    replicated_job = _object(name={"type": "string"}, template=job, replicas={"type": "integer", "default": 1})
    spec = {
        **_object(replicatedJobs=_list_map("name", replicated_job)),
        "x-kubernetes-validations": [{"rule": "true", "message": "a rule of JobSet"}],
    }
    return {"spec": {"versions": [{"storage": True, "schema": {"openAPIV3Schema": _object(spec=spec)}}]}}
