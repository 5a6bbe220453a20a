"""What the platform offers, as objects that policies and the controller read; and the priority classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi

from components.objects import Component
from trainyard.policy.stack import platform_object
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import PriorityClassSettings

__all__ = ["Platform", "priority_class"]


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
