"""The Platform object, which admission policies and the controller read, and the PriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from trainyard.policy.engines.vap.facts import PLATFORM_FACTS_NAMESPACE, platform_facts
from trainyard.policy.stack_objects import platform_object
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import PriorityClassSettings

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component

__all__ = ["COMPONENT", "Platform", "PlatformArgs", "priority_class"]


@dataclass(frozen=True)
class PlatformArgs:
    """Arguments of the Platform component.

    Parameters
    ----------
    settings
        The settings of the stack.
    removed_queues
        Retired queues that exist, and that the settings no longer contain.
    """

    settings: StackSettings
    removed_queues: pulumi.Input[Sequence[str]] = ()


class Platform(Component):
    """The Platform ``platform``, the annotations that admission policies read, and the PriorityClasses.

    The Platform inherits ``opts.depends_on``: the trainer's CustomResourceDefinitions, and its controller, which
    removes the annotations when the Platform is deleted.

    Attributes
    ----------
    ready
        All objects; dependencies of policies and tenants.
    """

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("platform", name, opts)
        settings = args.settings
        platform = platform_object(settings)
        declared = self.child(_with_removed(platform, args.removed_queues), inherit_depends_on=True)
        self.ready = [declared, self.patch(_facts(platform), depends_on=[declared])]
        self.ready += [self.child(priority_class(key, value)) for key, value in settings.priority_classes.items()]
        self.register_outputs({})


def _with_removed(platform: Mapping[str, Any], removed: pulumi.Input[Sequence[str]]) -> dict[str, Any]:
    """Return the Platform with queues that are removed, so that the controller keeps them closed until they are."""
    spec = platform["spec"]

    def listed(names: Sequence[str]) -> list[str]:
        return sorted({*spec["retiredQueues"], *names})

    known = (
        listed(removed)
        if isinstance(removed, Sequence)
        else pulumi.Output.all(removed).apply(lambda found: listed(found[0]))
    )
    return {**platform, "spec": {**spec, "retiredQueues": known}}


def _facts(platform: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations that admission policies read; the controller maintains them from then on."""
    metadata = {"name": PLATFORM_FACTS_NAMESPACE, "annotations": platform_facts(platform["spec"])}
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


def _install(context: Installation, needed: Resources) -> Platform:
    args = PlatformArgs(context.settings, context.removed_queues)
    return Platform("platform", args, context.options_after(*needed.crds, *needed.ready))


COMPONENT: Final = Declaration(
    name="platform",
    order=40,
    install=_install,
    needs=("trainer",),
    cluster_kinds={("trainyard.dev/v1alpha1", "Platform"): "platforms"},
)
