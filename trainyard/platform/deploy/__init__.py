"""Operations on stacks through Pulumi's Automation API; the only package that drives Pulumi."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.platform.deploy.operation_result import Change, Result
    from trainyard.platform.deploy.operations import destroy, preview, refresh, up

__all__ = ["Change", "Result", "destroy", "preview", "refresh", "up"]

_MODULES = dict.fromkeys(("Change", "Result"), "operation_result")


def __getattr__(name: str) -> Any:
    """Import operations lazily: the policy analyzer, for which a preview waits, needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'operations')}"), name)
