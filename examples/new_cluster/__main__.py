"""A GKE cluster with two node pools, and the training platform on it.

The kubeconfig is unknown in the first preview.
"""

from typing import Any

import pulumi
from pulumi_gcp import container as gke
from trainyard.components.training_platform import TrainingPlatform, TrainingPlatformArgs


def kubeconfig(values: dict[str, Any]) -> dict[str, Any]:
    """Return the kubeconfig of the cluster; the plug-in takes the credentials from the environment."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "gke-gcloud-auth-plugin",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    authority = values["auth"]["cluster_ca_certificate"]
    server = {"server": f"https://{values['endpoint']}", "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gke",
        "clusters": [{"name": "gke", "cluster": server}],
        "contexts": [{"name": "gke", "context": {"cluster": "gke", "user": "gke"}}],
        "users": [{"name": "gke", "user": {"exec": plugin}}],
    }
    return document


config = pulumi.Config()
cluster = gke.Cluster("training", location="europe-west4", initial_node_count=1, remove_default_node_pool=True)
system = gke.NodePool("system", cluster=cluster.name, node_count=3, node_config={"machine_type": "e2-standard-8"})
gpu = gke.NodePool(
    "gpu",
    cluster=cluster.name,
    node_count=2,
    node_config={"machine_type": "a3-highgpu-8g", "labels": {"example.com/rack": "a"}},
)

args = TrainingPlatformArgs(
    kubeconfig=pulumi.Output.all(endpoint=cluster.endpoint, auth=cluster.master_auth).apply(kubeconfig),
    settings={
        "pods": {"priorityClassQuota": True},
        "fabric": {
            "tierNames": ["rack"],
            "domains": [{"name": "rack-a", "nodes": {"matchLabels": {"example.com/rack": "a"}, "count": 2}}],
        },
        "queues": {"vision": {"deserved": {"nvidia.com/gpu": "16"}}},
        "tenants": {"vision": {"queues": ["vision"], "roles": {"submit": ["vision-team"]}}},
    },
    images={"trainyard-controller": config.require("controllerImage")},
)
platform = TrainingPlatform("training", args, pulumi.ResourceOptions(depends_on=[system, gpu]))
pulumi.export("namespaces", platform.namespace_names)
