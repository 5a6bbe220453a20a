"""Amounts of a queue in settings: quantities, nodes, GPUs by short name, percentages of the parent.

`trainyard.scheduling.queues.units` converts them to quantities with the queue tree and the fabric.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from trainyard.settings.settings_model import ResourceName, Share, bounded

ALL = "all"
"""Key for all resources of the parent."""

NODES = "nodes"
"""Key for whole nodes of the fabric; ``nodes/<shape>``: nodes of one shape."""


def _mapping(value: object) -> object:
    return {ALL: value} if isinstance(value, str) and value.endswith("%") else value


Shares = Annotated[dict[ResourceName, Share], BeforeValidator(_mapping), AfterValidator(bounded)]
"""Amounts by resource (``cpu``, ``memory``, ``nvidia.com/gpu``, ``gpu``) or ``nodes``; ``50%`` applies to all."""
