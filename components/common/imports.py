"""Import of objects of this stack that its state lacks: the state was lost, or the run that created them was killed.

An import keeps the object and its uid, and does not depend on the provider's upsert, which pulumi-kubernetes 4.29
removes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pulumi

from trainyard.api.constants import STACK_LABEL
from trainyard.platform.pulumi_sdk.recorded_objects import lacks_objects
from trainyard.platform.takeover.takeover import address_of

from .ownership import Address, LiveObjects


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
    _found: set[Address] = field(default_factory=set)

    def id_of(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the provider's id of an object of this stack; None if there is none, or it is being deleted."""
        address = address_of(manifest)
        _, _, namespace, name = address
        if namespace and ("v1", "Namespace", "", namespace) not in self.live.metadata:
            return None
        found = (self._namespaced if namespace else self.live).metadata.get(address)
        if found is None or found.get("labels", {}).get(STACK_LABEL) != self.stack or "deletionTimestamp" in found:
            return None
        self._found.add(address)
        return f"{namespace}/{name}" if namespace else name

    def report(self) -> None:
        """Warn if the state has no object of a stack that has some: it may be one of the same name elsewhere."""
        if self._found and lacks_objects():
            pulumi.log.warn(
                f"This state has none of the {len(self._found)} objects of stack {self.stack} that exist; they are "
                "imported, and `destroy` deletes them; is another backend in use?"
            )

    @cached_property
    def _namespaced(self) -> LiveObjects:
        return self.read()
