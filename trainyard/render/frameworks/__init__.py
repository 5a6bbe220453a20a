"""Frameworks: what each one puts into the training pods. A new one is a module here and a line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.api import MLPolicy
from trainyard.render.frameworks.base import Framework
from trainyard.render.frameworks.plain import Plain
from trainyard.render.frameworks.torch import Torch

__all__ = ["FRAMEWORKS", "PLAIN", "Framework", "chosen"]

PLAIN: Final = "plain"
"""The framework of a runtime whose mlPolicy names none."""

FRAMEWORKS: Final[Mapping[str, Framework]] = {"torch": Torch(), PLAIN: Plain()}
"""Frameworks by the name of their field in mlPolicy, in the order in which they are listed to users."""


def chosen(policy: MLPolicy) -> tuple[str, ...]:
    """Return the names of the frameworks a policy names; more than one is a mistake."""
    sources = (field.alias or name for name, field in type(policy).model_fields.items() if name != "num_nodes")
    known = [name for name in sources if getattr(policy, name) is not None]
    return tuple(known) or (PLAIN,)
