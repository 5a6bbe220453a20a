"""A control plane with the kinds that the rules review."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.policy.listed_cases import LISTED
from tests.support import LiveCluster, require
from trainyard.api import crds
from trainyard.upstream import read

UPSTREAM = (
    ("volcano", "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"),
    ("volcano", "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml"),
    ("volcano", "config/crd/volcano/bases/batch.volcano.sh_cronjobs.yaml"),
    ("volcano", "config/crd/jobflow/bases/flow.volcano.sh_jobflows.yaml"),
    ("volcano", "config/crd/jobflow/bases/flow.volcano.sh_jobtemplates.yaml"),
    ("volcano", "config/crd/volcano/bases/bus.volcano.sh_commands.yaml"),
    ("volcano", "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"),
    ("volcano", "config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml"),
    ("jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
)


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def stand_in(group: str, version: str, kind: str, plural: str, **annotations: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind of another project, whose spec may have any field."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    version_of_it = {"name": version, "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{**version_of_it, "subresources": {"scale": SCALE}}],
        },
    }


UNAPPROVED = {"api-approved.kubernetes.io": "unapproved, stands in for the plug-in's own"}
COSCHEDULING_POD_GROUP = stand_in("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", **UNAPPROVED)
STAND_INS = (
    COSCHEDULING_POD_GROUP,
    *(stand_in(each.group, each.version, each.kind, each.resource) for each in LISTED),
)


@pytest.fixture(scope="module")
def kinds(cluster: LiveCluster) -> Iterator[LiveCluster]:
    """The bare control plane with the kinds that the rules review."""
    from trainyard.settings.versions import supported_versions

    upstream = [yaml.safe_load(read(component, supported_versions(component)[0], path)) for component, path in UPSTREAM]
    definitions = [*upstream, *STAND_INS, *crds.build(upstream[-1])]
    text = "\n---\n".join(json.dumps(each) for each in definitions)
    require(cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text))
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    require(cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names))
    yield cluster
    require(cluster.kubectl("delete", "--timeout=60s", *names))
