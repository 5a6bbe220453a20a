"""The Pulumi program through the Automation API: the one place that drives Pulumi."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.deploy.operations import destroy, preview, refresh, up
    from trainyard.deploy.result import Change, Result

__all__ = ["Change", "Result", "destroy", "preview", "refresh", "up"]

_HOMES = {"Change": "result", "Result": "result"}


def __getattr__(name: str) -> Any:
    """Import an operation when it is asked for: the policy analyzer, which a preview waits for, needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'operations')}"), name)
