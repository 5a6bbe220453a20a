"""PyTorch: the PET_* environment that torchrun reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE, JOB_COMPLETION_INDEX_FIELD, TRAINER_PORT
from trainyard.api.ml_policy import EnvInjectionTarget
from trainyard.problem import Problem
from trainyard.render.bodies import add_port, field_ref_env, prepend_env
from trainyard.render.frameworks.base import Framework
from trainyard.render.plan import Plan
from trainyard.render.requests import amounts

__all__ = ["RESERVED", "Torch"]

NODES: Final = "PET_NNODES"
PROCESSES: Final = "PET_NPROC_PER_NODE"
NODE_RANK: Final = "PET_NODE_RANK"
MASTER_ADDRESS: Final = "PET_MASTER_ADDR"
MASTER_PORT: Final = "PET_MASTER_PORT"
RESERVED: Final = frozenset({NODES, PROCESSES, NODE_RANK, MASTER_ADDRESS, MASTER_PORT})
"""Variables that a TrainJob may not set."""

_AUTO: Final = "auto"
_TORCHTUNE: Final = ["tune", "run"]


class Torch(Framework):
    """torchrun on every node."""

    reserved = RESERVED

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield reserved variables, injection targets that do not exist, and torchtune recipes."""
        yield from _missing_targets(plan)
        trainer = plan.spec.trainer
        if trainer is None:
            return
        reserved = sorted(RESERVED & {str(variable.get("name")) for variable in trainer.env or ()})
        if reserved:
            yield Problem(
                "spec.trainer.env",
                f"must not have reserved envs, invalid envs configured: [{' '.join(reserved)}]",
                "remove them: they are set for every torch job",
            )
        if trainer.command == _TORCHTUNE:
            yield Problem(
                "spec.trainer.command",
                "torchtune recipes (tune run) are not supported",
                "use torchrun, or run tune with its recipe and configuration spelled out in the command",
            )

    def apply(self, plan: Plan) -> None:
        """Put the variables first into the training container, so that later ones can refer to them."""
        variables = _variables(plan)
        container = plan.trainer.container(CONTAINER_NODE) if plan.trainer else None
        if container is not None:
            prepend_env(container, variables)
            add_port(container)
        for target, name in _targets(plan):
            pod_set = plan.pod_set(target.job_name)
            injected = pod_set.container(name, init=True) if pod_set else None
            if injected is not None:
                prepend_env(injected, variables)


def _targets(plan: Plan) -> Iterator[tuple[EnvInjectionTarget, str]]:
    injection = plan.ml_policy.torch.env_injection if plan.ml_policy.torch else None
    for target in (injection.targets if injection else None) or ():
        for name in target.container_names:
            yield target, name


def _missing_targets(plan: Plan) -> Iterator[Problem]:
    for target, name in _targets(plan):
        pod_set = plan.pod_set(target.job_name)
        if pod_set is None or pod_set.container(name, init=True) is None:
            yield Problem(
                "spec.runtimeRef",
                f'envInjection target podSet "{target.job_name}" container "{name}" not found in runtime template',
                "correct spec.mlPolicy.torch.envInjection of the runtime",
            )


def _variables(plan: Plan) -> list[Body]:
    trainer = plan.trainer
    group = trainer.name if trainer else CONTAINER_NODE
    subdomain = plan.job_set_spec.get("network", {}).get("subdomain") or plan.name
    return [
        {"name": NODES, "value": str(trainer.count if trainer else 1)},
        {"name": PROCESSES, "value": _processes(plan)},
        field_ref_env(NODE_RANK, JOB_COMPLETION_INDEX_FIELD),
        {"name": MASTER_ADDRESS, "value": f"{plan.name}-{group}-0-0.{subdomain}"},
        {"name": MASTER_PORT, "value": str(TRAINER_PORT)},
    ]


def _processes(plan: Plan) -> str:
    """Return a number, or auto where GPUs are asked for and torchrun counts them itself."""
    trainer = plan.spec.trainer
    if trainer and trainer.num_proc_per_node is not None:
        return str(trainer.num_proc_per_node)
    resources = _node_resources(plan)
    limits, requests = amounts(resources.get("limits", {})), amounts(resources.get("requests", {}))
    if _gpus(requests) or _gpus(limits):
        return _AUTO
    cores = requests.get("cpu") or limits.get("cpu") or Fraction(0)
    return str(max(1, ceil(cores)))


def _node_resources(plan: Plan) -> Body:
    """Return what the TrainJob asks for, else what the runtime's training container does."""
    trainer = plan.spec.trainer
    if trainer and trainer.resources_per_node is not None:
        return trainer.resources_per_node
    container = plan.trainer.container(CONTAINER_NODE) if plan.trainer else None
    resources: Body = (container or {}).get("resources", {})
    return resources


def _gpus(resources: dict[str, Fraction]) -> Fraction:
    return sum((amount for name, amount in resources.items() if "gpu" in name.lower()), Fraction(0))
