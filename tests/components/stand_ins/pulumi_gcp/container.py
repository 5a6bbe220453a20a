"""Clusters and node pools with the type tokens, arguments and outputs of ``pulumi_gcp.container``."""

from __future__ import annotations

from typing import Any, TypedDict

import pulumi


class ClusterMasterAuth(TypedDict):
    """Credentials of a cluster."""

    cluster_ca_certificate: str


class NodePoolNodeConfigArgsDict(TypedDict, total=False):
    """Properties of the nodes of a pool."""

    machine_type: str
    labels: dict[str, str]


class _Resource(pulumi.CustomResource):
    def __init__(self, token: str, name: str, opts: pulumi.ResourceOptions | None, inputs: dict[str, Any]) -> None:
        given = {key: value for key, value in inputs.items() if value is not None}
        super().__init__(f"gcp:container/{token}", name, {**dict.fromkeys(type(self).__annotations__), **given}, opts)


class Cluster(_Resource):
    """A GKE cluster."""

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    master_auth: pulumi.Output[ClusterMasterAuth]

    def __init__(
        self,
        resource_name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        location: pulumi.Input[str] | None = None,
        initial_node_count: pulumi.Input[int] | None = None,
        remove_default_node_pool: pulumi.Input[bool] | None = None,
    ) -> None:
        inputs = {
            "location": location,
            "initial_node_count": initial_node_count,
            "remove_default_node_pool": remove_default_node_pool,
        }
        super().__init__("cluster:Cluster", resource_name, opts, inputs)


class NodePool(_Resource):
    """Nodes of a GKE cluster."""

    name: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        cluster: pulumi.Input[str] | None = None,
        node_count: pulumi.Input[int] | None = None,
        node_config: pulumi.Input[NodePoolNodeConfigArgsDict] | None = None,
    ) -> None:
        inputs = {"cluster": cluster, "node_count": node_count, "node_config": node_config}
        super().__init__("nodePool:NodePool", resource_name, opts, inputs)
