"""Registry of the components: each module of this package that has a ``COMPONENT`` is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import components
from components.common.declaration import Declaration, Kinds
from components.common.ownership import CLUSTER_KINDS, NAMESPACED_KINDS
from trainyard.discovery import merged, plugins_of

__all__ = ["cluster_kinds", "declarations", "image_repositories", "namespaced_kinds"]


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return the declaration of each component by its name."""
    return plugins_of(components.__name__, components.__path__, "COMPONENT", Declaration)


def image_repositories() -> dict[str, str]:
    """Return the repository of each image by its name."""
    return merged("images", [each.images for each in declarations().values()])


def cluster_kinds() -> Kinds:
    """Return the plural of each cluster-scoped kind that the program declares or reads."""
    return merged("kinds", [CLUSTER_KINDS, *(each.cluster_kinds for each in declarations().values())])


def namespaced_kinds() -> Kinds:
    """Return the plural of each namespaced kind that the program declares."""
    return merged("kinds", [NAMESPACED_KINDS, *(each.namespaced_kinds for each in declarations().values())])
