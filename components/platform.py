"""The Platform object, which admission policies and the controller read, and the PriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from trainyard.policy.engines.vap.facts import PLATFORM_FACTS_NAMESPACE, platform_facts
from trainyard.policy.stack_objects import platform_object
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import PriorityClassSettings

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component

__all__ = ["COMPONENT", "Platform", "PlatformArgs", "priority_class"]


@dataclass(frozen=True)
class PlatformArgs:
    """Arguments of the Platform component: the settings of the stack."""

    settings: StackSettings


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
        declared = self.child(platform, inherit_depends_on=True)
        self.ready: list[pulumi.Resource] = [declared, self.patch(_facts(platform), depends_on=[declared])]
        self.ready += [self.child(priority_class(key, value)) for key, value in settings.priority_classes.items()]
        self.register_outputs({})


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
    return Platform("platform", PlatformArgs(context.settings), context.options_after(*needed.crds, *needed.ready))


COMPONENT: Final = Declaration(
    name="platform",
    order=40,
    install=_install,
    needs=("trainer",),
    cluster_kinds={("trainyard.dev/v1alpha1", "Platform"): "platforms"},
)
