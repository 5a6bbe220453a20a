"""Stand-in for ``pulumi_gcp.container``, with its type tokens and names, so that tests need no provider package.

In a program of your own write ``from pulumi_gcp import container as gke`` instead.
"""

from __future__ import annotations

from typing import Any

import pulumi


class Cluster(pulumi.CustomResource):
    """A GKE cluster."""

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    master_auth: pulumi.Output[Any]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        outputs = {"endpoint": None, "master_auth": None, "name": None}
        super().__init__("gcp:container/cluster:Cluster", name, {**outputs, **inputs}, opts)


class NodePool(pulumi.CustomResource):
    """Nodes of a GKE cluster."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None:
        super().__init__("gcp:container/nodePool:NodePool", name, inputs, opts)
