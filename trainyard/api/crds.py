"""CustomResourceDefinitions, generated from the models and JobSet's CRD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import GROUP, PLATFORM_GROUP, VERSION
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.runtime import ClusterTrainingRuntime, TrainingRuntime
from trainyard.api.schema import JobSetParts, structural_schema
from trainyard.api.tenancy import Platform, TenantPolicy
from trainyard.api.train_job import TrainJob

_AGE = {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"}
_STATE = {"jsonPath": ".status.conditions[-1:].type", "name": "State", "type": "string"}
_DEFAULT_QUEUE = {"jsonPath": ".spec.defaultQueue", "name": "Default Queue", "type": "string"}


@dataclass(frozen=True)
class _Resource:
    model: type[KubernetesModel]
    group: str
    plural: str
    namespaced: bool
    status: bool = False
    columns: tuple[Body, ...] = ()


_RESOURCES = (
    _Resource(ClusterTrainingRuntime, GROUP, "clustertrainingruntimes", namespaced=False),
    _Resource(TrainingRuntime, GROUP, "trainingruntimes", namespaced=True),
    _Resource(TrainJob, GROUP, "trainjobs", namespaced=True, status=True, columns=(_STATE, _AGE)),
    _Resource(Platform, PLATFORM_GROUP, "platforms", namespaced=False, columns=(_AGE,)),
    _Resource(TenantPolicy, PLATFORM_GROUP, "tenantpolicies", namespaced=True, columns=(_DEFAULT_QUEUE, _AGE)),
)


def build(jobset_crd: Mapping[str, Any], *, descriptions: bool = False) -> list[Body]:
    """Return the five CRDs, sorted by name within each group.

    Parameters
    ----------
    jobset_crd
        JobSet's CustomResourceDefinition; the schema of ``spec.template.spec`` and of patched pod fields comes from it.
    descriptions
        Whether to include the descriptions of JobSet's fields for ``kubectl explain``; they make the CRDs four times as
        large. The descriptions of the modeled fields are always included.
    """
    parts = JobSetParts(jobset_crd, descriptions=descriptions)
    return [_definition(resource, parts) for resource in _RESOURCES]


def _definition(resource: _Resource, parts: JobSetParts) -> Body:
    kind = resource.model.__name__
    version: Body = {
        "name": VERSION,
        "schema": {"openAPIV3Schema": structural_schema(resource.model, parts)},
        "served": True,
        "storage": True,
    }
    if resource.columns:
        version["additionalPrinterColumns"] = [dict(column) for column in resource.columns]
    if resource.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": resource.plural, "singular": kind.lower()},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }
