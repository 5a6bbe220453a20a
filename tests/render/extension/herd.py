"""A framework that nobody has: one file makes it known everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from trainyard.api import Body
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.render.frameworks.base import Framework
from trainyard.render.pod_editing import prepend_env
from trainyard.render.working_state import Plan


class HerdPolicy(KubernetesModel):
    """Herd: a leader and those that follow."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes on one node."""


class Herd(Framework[HerdPolicy]):
    """One herd over all nodes."""

    name = "herd"
    order = 95
    summary = "Herd."
    policy_model = HerdPolicy
    added = "a framework of the test"
    variables = ("HERD_*",)
    one_process_a_device = True
    keys = "brand"
    children: ClassVar = {"Secret": ("-herd-brand",)}

    def apply(self, plan: Plan) -> None:
        """Tell every node how many there are."""
        nodes, policy = plan.trainer, self.policy(plan)
        container = nodes.main_container if nodes else None
        if nodes is not None and container is not None:
            processes = nodes.count * (policy.num_proc_per_node if policy else 1)
            prepend_env(container, [{"name": "HERD_SIZE", "value": str(processes)}])

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the Secret with the brand."""
        values = plan.context.keys or {"brand": "<brand>"}
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": plan.metadata(f"{plan.name}-herd-brand"),
            "stringData": dict(values),
        }


FRAMEWORK = Herd()
