"""Environment variables of PyTorch programs, with or without torchrun."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from trainyard.api.constants import TRAINER_PORT
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.variables import (
    GLOBAL_INDEX_FIELD,
    Variable,
    indexed,
    literal,
    referred,
    set_first,
    set_variables,
    words_of,
)

MASTER_PORT: Final = 23456
"""Default port of the master of a PyTorchJob, and of Volcano's plug-in pytorch."""

_NODES: Final = re.compile(r"--(?:nnodes|num[_-]machines)(?:=|\s+)['\"]?(\d+)(?![\d:])")
_PROCESSES: Final = re.compile(r"--nproc[-_]per[-_]node(?:=|\s)")
_LAUNCHERS: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "tune run")


def set_node_variables(draft: Draft, node: Part, processes: int, *, always: bool) -> None:
    """Set the legacy operator's variables on nodes with one template, in addition to those of torchrun."""
    launched = is_launched(node)
    total = node.pods * processes
    world = literal("WORLD_SIZE", total)
    variables = [
        referred(literal("MASTER_ADDR", node.first_host(draft.name)), "PET_MASTER_ADDR"),
        referred(literal("MASTER_PORT", TRAINER_PORT), "PET_MASTER_PORT"),
        referred(world, "PET_NNODES") if processes == 1 else world,
        referred(indexed("RANK"), "PET_NODE_RANK"),
    ]
    if "elasticPolicy" in draft.policy["torch"]:
        variables = [Variable(each.name, each.entry) for each in variables]
    set_variables(draft.source, node, variables, always=always and not launched)


def set_role_variables(draft: Draft, master: Part, worker: Part, processes: int | str | None, port: int) -> None:
    """Set the variables of torchrun and of the legacy operator on master and workers with different templates."""
    number = number_of_processes(processes)
    address = master.first_host(draft.name)
    nodes = master.total + worker.total
    for part in (master, worker):
        variables = list(ranks(address, port, nodes * number))
        own = [
            literal("PET_NNODES", nodes),
            literal("PET_NPROC_PER_NODE", 1 if processes is None else processes),
            indexed("PET_NODE_RANK", GLOBAL_INDEX_FIELD),
            literal("PET_MASTER_ADDR", address),
            literal("PET_MASTER_PORT", port),
        ]
        set_variables(draft.source, part, variables, always=True)
        set_first(part, own)


def ranks(address: str, port: int, world: int) -> Iterable[Variable]:
    """Yield the variables of programs whose rank is the global index of their Job."""
    yield literal("MASTER_ADDR", address)
    yield literal("MASTER_PORT", port)
    yield literal("WORLD_SIZE", world)
    yield indexed("RANK", GLOBAL_INDEX_FIELD)


def fixed_nodes(node: Part) -> int | None:
    """Return the number of nodes in the arguments of torchrun or accelerate; None if they have no number or a range."""
    found = _NODES.search(words_of(node.container))
    return int(found.group(1)) if found else None


def names_processes(node: Part) -> bool:
    """Return whether the arguments of torchrun have a number of processes, over the variable of the framework."""
    return _PROCESSES.search(words_of(node.container)) is not None


def is_launched(node: Part) -> bool:
    """Return whether torchrun starts the processes of a node."""
    return any(launcher in words_of(node.container) for launcher in _LAUNCHERS)


def number_of_processes(processes: int | str | None) -> int:
    """Return the processes per node as the legacy operator counts them: keywords such as auto count as one."""
    return processes if isinstance(processes, int) else 1
