"""Components of the platform: one Pulumi component resource per file, composed of native Kubernetes objects.

The package is ``components`` in a clone and ``trainyard.components`` in the wheel. A process that imported both would
have two classes of each name: checks of types, registries and conventions would silently disagree.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["DISTRIBUTION"]

DISTRIBUTION: Final = "trainyard"
"""Distinguishes this package from another one with the name ``components``."""


def _require_one_name(name: str) -> None:
    other = "components" if name != "components" else f"{DISTRIBUTION}.components"
    loaded = sys.modules.get(other)
    if getattr(loaded, "DISTRIBUTION", None) == DISTRIBUTION:
        raise ImportError(
            f"{name} is already imported as {other} from {getattr(loaded, '__file__', None)}: use one name in a "
            f"process, `{DISTRIBUTION}.components` with the wheel, or `components` in a clone",
            name=name,
        )


_require_one_name(__name__)
