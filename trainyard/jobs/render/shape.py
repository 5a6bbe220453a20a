"""Schemas of plain objects that are checked before they are rendered.

The API server guarantees these schemas for stored objects, but manifests in files may violate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.api.structural import SchemaNode


def _object(required: tuple[str, ...] = (), /, **fields: SchemaNode) -> SchemaNode:
    """Return the schema of an object; other fields are allowed."""
    return SchemaNode(kind="object", fields=fields, required=required)


def _list(item: SchemaNode, key: str | None = None) -> SchemaNode:
    """Return the schema of a list; the values of ``key`` are unique."""
    return SchemaNode(kind="array", item=item, keys=(key,) if key else ())


_TEXT: Final = SchemaNode(kind="string")
_NUMBER: Final = SchemaNode(kind="integer")
_TEXTS: Final = SchemaNode(kind="object", values=_TEXT)
_AMOUNTS: Final = SchemaNode(kind="object", values=SchemaNode(amount=True))
_ANY: Final = _object()
_METADATA: Final = _object(name=_TEXT, labels=_TEXTS, annotations=_TEXTS, finalizers=_list(_TEXT))
_NAMED: Final = _object(("name",), name=_TEXT)

ENV: Final = _list(_object(("name",), name=_TEXT, value=_TEXT, valueFrom=_ANY), "name")
"""Environment variables."""

RESOURCES: Final = _object(limits=_AMOUNTS, requests=_AMOUNTS, claims=_list(_NAMED))
"""Compute resources."""

VOLUME_MOUNTS: Final = _list(_object(("name", "mountPath"), name=_TEXT, mountPath=_TEXT))
"""Volume mounts."""

_CONTAINER: Final = _object(
    ("name",),
    name=_TEXT,
    image=_TEXT,
    command=_list(_TEXT),
    args=_list(_TEXT),
    env=ENV,
    envFrom=_list(_ANY),
    ports=_list(_object(("containerPort",), containerPort=_NUMBER, protocol=_TEXT, name=_TEXT)),
    resources=RESOURCES,
    restartPolicy=_TEXT,
    securityContext=_ANY,
    volumeMounts=VOLUME_MOUNTS,
)

_POD_SPEC: Final = _object(
    ("containers",),
    affinity=_ANY,
    containers=_list(_CONTAINER, "name"),
    imagePullSecrets=_list(_object(name=_TEXT)),
    initContainers=_list(_CONTAINER, "name"),
    nodeSelector=_TEXTS,
    overhead=_AMOUNTS,
    priorityClassName=_TEXT,
    resources=RESOURCES,
    schedulerName=_TEXT,
    schedulingGates=_list(_NAMED),
    securityContext=_ANY,
    tolerations=_list(_ANY),
    volumes=_list(_NAMED, "name"),
)

_POD_TEMPLATE: Final = _object(("spec",), metadata=_METADATA, spec=_POD_SPEC)
_JOB_SPEC: Final = _object(
    ("template",), parallelism=_NUMBER, completions=_NUMBER, completionMode=_TEXT, template=_POD_TEMPLATE
)
_REPLICATED_JOB: Final = _object(
    ("name", "template"),
    name=_TEXT,
    groupName=_TEXT,
    replicas=_NUMBER,
    template=_object(("spec",), metadata=_METADATA, spec=_JOB_SPEC),
    dependsOn=_list(_object(("name", "status"), name=_TEXT, status=_TEXT)),
)

_FAILURE_RULE: Final = _object(
    ("action",), name=_TEXT, action=_TEXT, onJobFailureReasons=_list(_TEXT), targetReplicatedJobs=_list(_TEXT)
)

JOB_SET_SPEC: Final = _object(
    replicatedJobs=_list(_REPLICATED_JOB, "name"),
    network=_object(subdomain=_TEXT),
    startupPolicy=_object(startupPolicyOrder=_TEXT),
    successPolicy=_object(operator=_TEXT, targetReplicatedJobs=_list(_TEXT)),
    failurePolicy=_object(restartStrategy=_TEXT, maxRestarts=_NUMBER, rules=_list(_FAILURE_RULE)),
    coordinator=_object(("replicatedJob",), replicatedJob=_TEXT, jobIndex=_NUMBER, podIndex=_NUMBER),
    managedBy=_TEXT,
    volumeClaimPolicies=_list(_object(templates=_list(_object(metadata=_METADATA)))),
)
"""A JobSet specification."""


def pod_fields() -> Mapping[str, SchemaNode]:
    """Return the schemas of pod fields by name, for patches of single fields."""
    return _POD_SPEC.fields
