"""Registry of the components: each module of this package that has a ``COMPONENT`` is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import components
from components.common.declaration import Declaration, Kinds
from components.common.ownership import CLUSTER_KINDS, NAMESPACED_KINDS
from trainyard.discovery import plugins_of

__all__ = ["cluster_kinds", "declarations", "image_repositories", "namespaced_kinds"]


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return the declaration of each component by its name."""
    return plugins_of(components.__name__, components.__path__, "COMPONENT", Declaration)


def image_repositories() -> dict[str, str]:
    """Return the repository of each image by its name."""
    return {name: place for each in declarations().values() for name, place in each.images.items()}


def cluster_kinds() -> Kinds:
    """Return the plural of each cluster-scoped kind that the program declares or reads."""
    own = {kind: plural for each in declarations().values() for kind, plural in each.cluster_kinds.items()}
    return CLUSTER_KINDS | own


def namespaced_kinds() -> Kinds:
    """Return the plural of each namespaced kind that the program declares."""
    own = {kind: plural for each in declarations().values() for kind, plural in each.namespaced_kinds.items()}
    return NAMESPACED_KINDS | own
