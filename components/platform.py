"""The Platform object, which policies and the controller read, and the PriorityClasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from components.objects import Component
from trainyard.policy.facts import PLATFORM_FACTS_NAMESPACE, platform_facts
from trainyard.policy.stack import platform_object
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import PriorityClassSettings

__all__ = ["Platform", "priority_class"]


class Platform(Component):
    """The object ``platform``, what policies read of it, and the PriorityClasses.

    Parameters
    ----------
    after
        The trainer's CustomResourceDefinitions; and its controller, which takes back what policies read when the
        object is deleted.

    Attributes
    ----------
    ready
        All of them; policies and tenants come after.
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
        offer = platform_object(settings)
        offered = self.child(offer, after=after)
        self.ready: list[pulumi.Resource] = [offered, self.patch(_facts(offer), after=[offered])]
        self.ready += [self.child(priority_class(key, value)) for key, value in settings.priority_classes.items()]
        self.register_outputs({})


def _facts(offer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations by which the API server's policies judge; the controller keeps them from then on."""
    metadata = {"name": PLATFORM_FACTS_NAMESPACE, "annotations": platform_facts(offer["spec"])}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


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
