"""Resources that the option ``depends_on`` names, awaited as the SDK awaits them before a registration."""

from __future__ import annotations

import pulumi
from pulumi.runtime._depends_on import _resolve_depends_on_urns


async def await_dependencies(opts: pulumi.ResourceOptions, dependent: pulumi.Resource) -> None:
    """Wait until the resources exist; those of a component are its descendants, because it exists at once itself.

    Parameters
    ----------
    opts
        Options with ``depends_on``.
    dependent
        The resource with these options, for the SDK's error about circular dependencies.
    """
    await _resolve_depends_on_urns(opts._depends_on_list(), from_resource=dependent)
