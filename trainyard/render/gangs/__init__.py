"""Gang schedulers: how a TrainJob's pods are placed together. A new one is a module here and a line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.api import PodGroupPolicy
from trainyard.render.gangs.base import GangScheduler
from trainyard.render.gangs.coscheduling import Coscheduling
from trainyard.render.gangs.kai import Kai
from trainyard.render.gangs.volcano import Volcano

__all__ = ["GANGS", "GangScheduler", "chosen"]

GANGS: Final[Mapping[str, GangScheduler]] = {"coscheduling": Coscheduling(), "volcano": Volcano(), "kai": Kai()}
"""Gang schedulers by the name of their field in podGroupPolicy, in the order in which they are listed to users."""


def chosen(policy: PodGroupPolicy) -> tuple[str, ...]:
    """Return the names of the gang schedulers a policy names; more than one is a mistake."""
    return tuple(
        field.alias or name for name, field in type(policy).model_fields.items() if getattr(policy, name) is not None
    )
