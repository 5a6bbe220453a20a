"""Objects of the local path provisioner: a claim gets a folder of the node on which its first pod runs; pure."""

from __future__ import annotations

import json
from typing import Any

import yaml

from trainyard.kube.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
)
from trainyard.local.cluster.node.node_objects import (
    LABELS,
    SYSTEM,
    Objects,
    binding,
    restricted_container,
    restricted_pod,
)

PROVISIONER = "local-path-provisioner"
"""Name of the Deployment in ``kube-system``."""

_FOLDER = "/var/lib/volumes"
"""On each node; it is in the folder of the cluster."""
_CONFIGURATION = "/etc/provisioner"
_COMMAND = "/volume-folders"
_SELECTOR = {"app.kubernetes.io/name": PROVISIONER}


def storage_objects(image: str, helper: str) -> Objects:
    """Return the objects, with the default StorageClass.

    Parameters
    ----------
    image, helper
        References of the provisioner's image, and of that of the pods that create and remove folders.
    """
    metadata = {"name": PROVISIONER, "namespace": SYSTEM, "labels": LABELS}
    subject = {"kind": "ServiceAccount", "name": PROVISIONER, "namespace": SYSTEM}
    return [
        (SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        (CLUSTER_ROLES, _role()),
        (CLUSTER_ROLE_BINDINGS, binding(PROVISIONER, PROVISIONER, subject)),
        (CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _files(helper)}),
        (DEPLOYMENTS, _deployment(metadata, image, helper)),
        (STORAGE_CLASSES, _storage_class()),
    ]


def _role() -> dict[str, Any]:
    read, write = ["get", "list", "watch"], ["create", "patch", "update", "delete"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": PROVISIONER, "labels": LABELS},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["nodes", "persistentvolumeclaims", "configmaps", "pods/log"],
                "verbs": read,
            },
            {"apiGroups": [""], "resources": ["persistentvolumes", "pods"], "verbs": [*read, *write]},
            {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
            {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": read},
        ],
    }


def _files(helper: str) -> dict[str, str]:
    paths = [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [_FOLDER]}]
    configuration = {"nodePathMap": paths, "setupCommand": _COMMAND, "teardownCommand": _COMMAND}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "volume-folders"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "volume-folders", "image": helper, "imagePullPolicy": "Never"}],
        },
    }
    return {"config.json": json.dumps(configuration), "helperPod.yaml": yaml.safe_dump(pod, sort_keys=False)}


def _deployment(metadata: dict[str, Any], image: str, helper: str) -> dict[str, Any]:
    container = {
        "name": PROVISIONER,
        "image": image,
        "imagePullPolicy": "Never",
        "args": [
            "start",
            f"--config={_CONFIGURATION}/config.json",
            f"--configmap-name={PROVISIONER}",
            f"--service-account-name={PROVISIONER}",
            f"--namespace={SYSTEM}",
            f"--helper-image={helper}",
        ],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "CONFIG_MOUNT_PATH", "value": f"{_CONFIGURATION}/"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "configuration", "mountPath": _CONFIGURATION, "readOnly": True}],
        **restricted_container(),
    }
    pod = {
        "serviceAccountName": PROVISIONER,
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": PROVISIONER}}],
        **restricted_pod(),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _SELECTOR},
            "template": {"metadata": {"labels": _SELECTOR}, "spec": pod},
        },
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "labels": LABELS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "rancher.io/local-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
