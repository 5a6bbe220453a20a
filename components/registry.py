"""Registry of the components: each module of this package that has a ``COMPONENT`` is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from trainyard.discovery import merged, plugins_of

from . import __name__ as package
from . import __path__ as folder
from .common.declaration import Declaration, Group, Kinds
from .common.ownership import CLUSTER_KINDS, NAMESPACED_KINDS

__all__ = ["cluster_kinds", "declarations", "image_repositories", "installation_order", "namespaced_kinds", "needed_by"]


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return the declaration of each component by its name."""
    return plugins_of(package, folder, "COMPONENT", Declaration)


def needed_by(component: Declaration, declared: Mapping[str, Declaration]) -> list[str]:
    """Return the names of the components that one needs, in the order of the declarations.

    Raises
    ------
    TypeError
        It needs a component that does not exist.
    """
    if unknown := set(component.needs) - declared.keys():
        raise TypeError(f"components.{component.name} needs {min(unknown)}, which is not a component")
    members = {each.name for each in declared.values() if _is_member(each, component.needs_all)}
    return [name for name in declared if name in members.union(component.needs) and name != component.name]


def _is_member(component: Declaration, group: Group | None) -> bool:
    match group:
        case Group.WEBHOOK_SERVERS:
            return component.webhooks is not None
        case Group.CONTROLLERS:
            return component.has_settings
        case Group.OTHERS:
            return True
    return False


def installation_order(declared: Mapping[str, Declaration]) -> list[str]:
    """Return the names of components, each after those that it needs, else in the order of the declarations.

    Raises
    ------
    TypeError
        A component needs one that does not exist, or itself through others.
    """
    order: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise TypeError(f"components.{name} needs itself: {' -> '.join((*path[path.index(name) :], name))}")
        if name not in order:
            for needed in needed_by(declared[name], declared):
                visit(needed, (*path, name))
            order[name] = None

    for name in declared:
        visit(name, ())
    return list(order)


def image_repositories() -> dict[str, str]:
    """Return the repository of each image by its name."""
    return merged("images", [each.images for each in declarations().values()])


def cluster_kinds() -> Kinds:
    """Return the plural of each cluster-scoped kind that the program declares or reads."""
    return merged("kinds", [CLUSTER_KINDS, *(each.cluster_kinds for each in declarations().values())])


def namespaced_kinds() -> Kinds:
    """Return the plural of each namespaced kind that the program declares."""
    return merged("kinds", [NAMESPACED_KINDS, *(each.namespaced_kinds for each in declarations().values())])
