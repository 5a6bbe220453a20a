"""Ownership check of a cluster whose kubeconfig is unknown while the program runs.

A cluster that the same program creates has no kubeconfig in the first preview. So the declared objects are recorded
and compared with the cluster once the kubeconfig is known, before the provider receives it: after a conflict, nothing
is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.platform.takeover.takeover import address_of

from .adoption_check import conflict, foreign_objects
from .objects import logical_name
from .ownership import LiveObjects


@dataclass
class DeferredOwnership:
    """Records the declared objects, to compare them with the cluster later.

    Parameters
    ----------
    stack
        Value of this stack's label.
    """

    stack: str
    _declared: list[Mapping[str, Any]] = field(default_factory=list)

    def adopt(self, manifest: Mapping[str, Any], component: pulumi.Resource | None = None) -> None:
        """Record an object; nothing is adopted without reading the cluster."""
        self._declared.append({key: manifest[key] for key in ("apiVersion", "kind", "metadata")})

    def patch(self, manifest: Mapping[str, Any]) -> None:
        """Do nothing: nothing is adopted."""

    def check(self, live: LiveObjects) -> None:
        """Fail if a declared object has another owner.

        Raises
        ------
        TrainyardError
            Names each of these objects, or those that this stack has adopted and would not retain any more.
        """
        found = [(each, live.metadata.get(address_of(each))) for each in self._declared]
        owned = [(each, metadata) for each, metadata in found if metadata is not None]
        foreign = [each for each, metadata in owned if metadata.get("labels", {}).get(STACK_LABEL) != self.stack]
        if foreign:
            raise foreign_objects(self.stack, [conflict(each) for each in foreign])
        if adopted := [logical_name(each) for each, metadata in owned if ADOPTED_ANNOTATION in _annotations(metadata)]:
            raise TrainyardError(
                "Adopted objects require a kubeconfig that is known while the program runs",
                findings=[Finding(name, "is adopted and would be deleted on destroy") for name in adopted],
                fix="pass the kubeconfig as a string or a path instead of an output",
            )


def _annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("annotations") or {}
