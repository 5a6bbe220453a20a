"""A framework of the test: one file makes it known everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from trainyard.api import Body
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import prepend_env


class HerdPolicy(KubernetesModel):
    """Herd: a leader and those that follow."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes on one node."""


class Herd(Framework[HerdPolicy]):
    """One herd over all nodes."""

    name = "herd"
    order = 990
    summary = "Herd."
    policy_model = HerdPolicy
    added = "a framework of the test"
    variables = ("HERD_*",)
    one_process_a_device = True
    catalog_runtime = "herd"
    keys = "brand"
    children: ClassVar = {"Secret": ("-herd-brand",)}

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Tell every node how many there are; return the Secret with the brand."""
        nodes, policy = builder.trainer, self.policy(builder)
        container = nodes.main_container if nodes else None
        if nodes is not None and container is not None:
            processes = nodes.count * (policy.num_proc_per_node if policy else 1)
            prepend_env(container, [{"name": "HERD_SIZE", "value": str(processes)}])
        values = builder.context.keys or {"brand": "<brand>"}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": builder.metadata(f"{builder.name}-herd-brand"),
            "stringData": dict(values),
        }
        return (secret,)


FRAMEWORK = Herd()
