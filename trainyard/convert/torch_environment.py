"""Environment variables of PyTorch programs, started by torchrun or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainyard.api.constants import TRAINER_PORT
from trainyard.convert.draft import Draft
from trainyard.convert.part import Part
from trainyard.convert.variables import (
    GLOBAL_INDEX_FIELD,
    Variable,
    give,
    indexed,
    literal,
    referred,
    set_first,
    words_of,
)

__all__ = ["number_of_processes", "ranks", "tell_nodes", "tell_roles"]

_LAUNCHERS: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "tune run")


def tell_nodes(draft: Draft, node: Part, processes: int, *, always: bool) -> None:
    """Give nodes of one template the variables of the old operators beside those of torchrun."""
    launched = any(launcher in words_of(node.container) for launcher in _LAUNCHERS)
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
    give(draft.source, node, variables, always=always and not launched)


def tell_roles(draft: Draft, master: Part, worker: Part, processes: int | str | None, port: int) -> None:
    """Give master and workers of different templates what torchrun and the old operators' programs read."""
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
        give(draft.source, part, variables, always=True)
        set_first(part, own)


def ranks(address: str, port: int, world: int) -> Iterable[Variable]:
    """Yield what programs read that are told a rank by the index of their Job."""
    yield literal("MASTER_ADDR", address)
    yield literal("MASTER_PORT", port)
    yield literal("WORLD_SIZE", world)
    yield indexed("RANK", GLOBAL_INDEX_FIELD)


def number_of_processes(processes: int | str | None) -> int:
    """Return the processes on a node as the old operator counted them: words count as one."""
    return processes if isinstance(processes, int) else 1
