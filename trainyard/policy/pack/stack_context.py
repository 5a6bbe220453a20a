"""Context of a stack's objects: its tenants, platform and runtimes, as far as known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from trainyard.api.constants import API_VERSION, PLATFORM_API_VERSION
from trainyard.policy.check.world import CheckContext
from trainyard.policy.pack.stack_resources import StackObject
from trainyard.policy.review import platform_controller
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings

_NAMESPACE: Final = ("v1", "Namespace")
_PLATFORM: Final = (PLATFORM_API_VERSION, "Platform")
_TENANT_POLICY: Final = (PLATFORM_API_VERSION, "TenantPolicy")
_CONTEXT_TYPES: Final = frozenset(
    {
        *(_NAMESPACE, _PLATFORM, _TENANT_POLICY, ("scheduling.k8s.io/v1", "PriorityClass")),
        *((API_VERSION, "TrainingRuntime"), (API_VERSION, "ClusterTrainingRuntime")),
    }
)
CONTEXT_KINDS: Final = frozenset(kind for _, kind in _CONTEXT_TYPES)
"""Kinds that are part of the context of other objects."""

_AUTHOR: Final = "user of the Pulumi program"


class StackContext:
    """Context of a stack's objects.

    Parameters
    ----------
    settings
        The settings of the platform's stack; None if unknown.
    objects
        All objects of the stack; they take precedence over the settings.
    """

    def __init__(self, settings: StackSettings | None, objects: Iterable[StackObject]) -> None:
        found = [each for each in objects if _type(each) in _CONTEXT_TYPES and not each.patch]
        self.world = CheckContext(settings, (each.manifests()[0] for each in found))
        platforms = [each for each in found if _type(each) == _PLATFORM]
        self._settings = settings
        self._has_platform = bool(platforms)
        self._doubtful_platform = any(each.unknown for each in platforms)
        self._doubtful_tenants = {
            each.namespace for each in found if _type(each) == _TENANT_POLICY and any(map(_in_spec, each.unknown))
        }
        self._doubtful_namespaces = {
            each.metadata.get("name") for each in found if _type(each) == _NAMESPACE and each.unknown
        }

    @property
    def complete(self) -> bool:
        """Whether all tenants and the platform are known: what is not found does not exist."""
        return self._settings is not None or self._has_platform

    @property
    def exempt_namespaces(self) -> tuple[str, ...]:
        """Namespaces to which tenant rules do not apply."""
        if self._settings is not None:
            return self._settings.exempt_namespaces
        named = (self.world.platform(None)[1] or {}).get("exemptNamespaces")
        return tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()

    @property
    def controller(self) -> dict[str, Any]:
        """User that creates rendered objects, as fields of a review."""
        trainer = TrainerSettings.of(self._settings) if self._settings else TrainerSettings()
        return platform_controller(trainer.namespace)

    def review(self, namespace: str, *, clustered: bool) -> dict[str, Any]:
        """Return the context of an object, as fields of a review."""
        platform = None if self._doubtful_platform else self.world.platform(None)[1]
        # The user that declares the platform is its administrator.
        common = {"user": _AUTHOR, "administrator": self._has_platform, "platform": platform}
        if clustered:
            return common
        tenant = None if namespace in self._doubtful_tenants else self.world.tenant_policy(namespace, None)[1]
        labels = self.world.namespace_labels(namespace, None)[1]
        return common | {"namespace": namespace, "namespace_labels": labels, "tenant_policy": tenant}

    def unknown(self, namespace: str | None) -> bool:
        """Return whether a parameter object that is not found may still exist, or None if the namespace is unknown."""
        doubtful = namespace is None or namespace in self._doubtful_tenants
        return doubtful or self._doubtful_platform or not self.complete

    def unlabelled(self, namespace: str | None) -> bool:
        """Return whether the labels of a namespace are unknown."""
        return namespace is None or namespace in self._doubtful_namespaces


def _type(subject: StackObject) -> tuple[str, str]:
    return str(subject.body.get("apiVersion")), subject.kind


def _in_spec(path: str) -> bool:
    return path.startswith(("spec", "metadata.namespace", "metadata.name")) or path == "metadata"
