"""Amounts of a queue in settings: quantities, nodes, GPUs by short name, percent of the parent.

What they come to is computed in `trainyard.queues.units`, which knows the tree and the fabric.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from trainyard.settings.base import ResourceName, Share

__all__ = ["ALL", "NODES", "Shares"]

ALL = "all"
"""Key that stands for every resource of the parent."""

NODES = "nodes"
"""Key that stands for whole nodes of the fabric; ``nodes/<shape>`` for those of one shape."""


def _mapping(value: object) -> object:
    return {ALL: value} if isinstance(value, str) and value.endswith("%") else value


Shares = Annotated[dict[ResourceName, Share], BeforeValidator(_mapping)]
"""Amounts by resource (``cpu``, ``memory``, ``nvidia.com/gpu`` or ``gpu``) or ``nodes``; ``50%`` alone means all."""
