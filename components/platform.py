"""What the platform offers, as objects that policies and the controller read; and the priority classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi

from components.objects import Component
from trainyard.api.tenancy import Platform as PlatformObject
from trainyard.api.tenancy import PlatformSpec, Tier
from trainyard.scheduler import preset
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import PriorityClassSettings
from trainyard.topology import compile_fabric

__all__ = ["Platform", "platform_object", "priority_class", "scheduler_features"]


class Platform(Component):
    """The object ``platform`` and the PriorityClasses.

    Parameters
    ----------
    after
        The trainer's CustomResourceDefinitions.

    Attributes
    ----------
    ready
        Both; policies and tenants come after them.
    """

    def __init__(
        self,
        name: str,
        settings: StackSettings,
        *,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform", name, opts)
        self.ready = [self.child(platform_object(settings), after=after)]
        self.ready += [self.child(priority_class(key, value)) for key, value in settings.priority_classes.items()]
        self.register_outputs({})


def platform_object(settings: StackSettings) -> dict[str, Any]:
    """Return the object that tells policies what the platform offers."""
    spec = PlatformSpec(
        leaf_queues=list(settings.leaf_queues),
        accelerator_resources=list(settings.accelerator_resources),
        tiers=[Tier(name=name, tier=number) for name, number in compile_fabric(settings.fabric).tiers],
        scheduler_features=scheduler_features(settings),
        exempt_namespaces=list(settings.exempt_namespaces),
    )
    body = PlatformObject(spec=spec).model_dump(by_alias=True, exclude_none=True, mode="json")
    return {**body, "metadata": {"name": "platform"}}


def scheduler_features(settings: StackSettings) -> list[str]:
    """Return the names of the scheduler's actions and plug-ins that are on, sorted."""
    chosen = preset(settings.scheduler.preset, accelerators=settings.accelerator_resources)
    names = {action.name for action in chosen.actions} | {plugin.name for tier in chosen.tiers for plugin in tier}
    return sorted(names)


def priority_class(name: str, settings: PriorityClassSettings) -> dict[str, Any]:
    """Return one PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": settings.value,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority" if settings.preempts else "Never",
        **({"description": settings.description} if settings.description else {}),
    }
