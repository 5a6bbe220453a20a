"""Discovery of plug-ins: each module of a package that has a certain attribute is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar


class RegistryPlugin(Protocol):
    """A plug-in of a registry."""

    @property
    def name(self) -> str:
        """Name in the registry; unique."""

    @property
    def order(self) -> int:
        """Position in the registry and in texts for users; unique."""


Found = TypeVar("Found", bound=RegistryPlugin)
Key = TypeVar("Key")
Value = TypeVar("Value")


def declared_in(package: str, folder: Iterable[str], attribute: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of each module of a package that has an attribute, with its value, sorted by name.

    Parameters
    ----------
    package, folder
        Name and path of the package.
    attribute
        Name of the attribute.
    """
    for module in pkgutil.iter_modules(folder):
        value = getattr(importlib.import_module(f"{package}.{module.name}"), attribute, None)
        if value is not None:
            yield module.name, value


def plugins_of(package: str, folder: Iterable[str], attribute: str, kind: type[Found]) -> dict[str, Found]:
    """Return the plug-ins of a package by name: each module that has the attribute is one.

    Parameters
    ----------
    package, folder
        Name and path of the package.
    attribute
        Name that a module gives its plug-in.
    kind
        Class of the plug-ins.

    Raises
    ------
    TypeError
        A plug-in is of another class, or two have the same name or the same position.
    """
    found: dict[str, Found] = {}
    for module, plugin in declared_in(package, folder, attribute):
        if not isinstance(plugin, kind):
            raise TypeError(f"{package}.{module}.{attribute} is not a {kind.__name__}")
        taken = [other.name for other in found.values() if plugin.name == other.name or plugin.order == other.order]
        if taken:
            raise TypeError(f"{package}.{module}: name {plugin.name} or order {plugin.order} is taken by {taken[0]}")
        found[plugin.name] = plugin
    return dict(sorted(found.items(), key=lambda entry: entry[1].order))


def merged(what: str, parts: Iterable[Mapping[Key, Value]]) -> dict[Key, Value]:
    """Return the entries of several plug-ins by name.

    Parameters
    ----------
    what
        What the entries are, for the error.

    Raises
    ------
    TypeError
        Two plug-ins have an entry of the same name.
    """
    found: dict[Key, Value] = {}
    for part in parts:
        if taken := found.keys() & part.keys():
            raise TypeError(f"{what}: {', '.join(sorted(map(str, taken)))} is declared twice")
        found.update(part)
    return found


@cache
def registered(registry: str) -> Any:
    """Return a registry by its name, ``module:attribute``; a lower layer reads one of a higher layer like that."""
    module, _, attribute = registry.partition(":")
    return getattr(importlib.import_module(module), attribute)
