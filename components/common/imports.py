"""Import of objects of this stack that its state lacks: the state was lost, or the run that created them was killed.

An import keeps the object and its uid, and does not depend on the provider's upsert, which pulumi-kubernetes 4.29
removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.live.takeover import address_of

from .ownership import LiveObjects

__all__ = ["Imports"]


@dataclass
class Imports:
    """Ids of the live objects of a stack.

    Parameters
    ----------
    stack
        Value of this stack's label.
    live
        The objects that exist, without the namespaced ones of the stack's own namespaces.
    read
        Reads the namespaced objects of the stack; called for the first one that the state lacks.
    """

    stack: str
    live: LiveObjects
    read: Callable[[], LiveObjects]

    def id_of(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the provider's id of an object of this stack; None if there is none, or it is being deleted."""
        address = address_of(manifest)
        _, _, namespace, name = address
        if namespace and ("v1", "Namespace", "", namespace) not in self.live.metadata:
            return None
        found = (self._namespaced if namespace else self.live).metadata.get(address)
        if found is None or found.get("labels", {}).get(STACK_LABEL) != self.stack or "deletionTimestamp" in found:
            return None
        return f"{namespace}/{name}" if namespace else name

    @cached_property
    def _namespaced(self) -> LiveObjects:
        return self.read()
