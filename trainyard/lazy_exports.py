"""Public names of a package whose modules are imported at their first use.

Importing all modules of the API, the settings and the renderer takes longer than most commands run, and most commands
need few of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562).

    A name must not also be a module of the package: the import system would set the attribute to the module.

    Parameters
    ----------
    package
        Name of the package.
    modules
        Names by module of the package, separated by spaces.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> Any:
        module = places.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
