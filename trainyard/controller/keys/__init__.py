"""Keys of a job, generated once: one module for each kind, which a framework names as its ``keys``.

Rendering is deterministic and keys are random, so they are generated here. They are stored only in a Secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trainyard.discovery import declared_in

GENERATORS: Final[Mapping[str, Callable[[], dict[str, str]]]] = dict(declared_in(__name__, __path__, "generate"))
"""Functions that generate keys, by kind, which is the name of their module."""


def generate(kind: str) -> dict[str, str]:
    """Return new keys as the data of a Secret.

    Parameters
    ----------
    kind
        Name of a module of this package, declared by the framework.
    """
    return GENERATORS[kind]()
