"""The state of a stack as the last operation left it; read once for all checks before an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from trainyard.platform.deploy.engine_events import address_of, resource_of
from trainyard.platform.deploy.recovery import compressed_state, has_former_layout, state_file
from trainyard.platform.deploy.workspace import PROJECT

if TYPE_CHECKING:
    from pulumi.automation import Stack


class RecordedState:
    """The resources in the state of a stack.

    Parameters
    ----------
    stack
        The opened stack.
    folder
        Folder of a file backend, in which the state is read without the CLI; None for other backends.
    """

    def __init__(self, stack: Stack, folder: Path | None) -> None:
        self.stack = stack.name
        self._opened = stack
        self._folder = folder

    @property
    def resources(self) -> Sequence[Mapping[str, Any]]:
        """The resources, as `pulumi stack export` prints them; empty for a stack that does not exist yet."""
        return self._deployment.get("resources") or ()

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Type and name of each resource; those that only remain to be deleted are left out."""
        return frozenset((each["type"], resource_of(each["urn"])) for each in self.resources if not each.get("delete"))

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """API version and kind of the objects."""
        addresses = (address_of(each["urn"]) for each in self.resources)
        return frozenset(address[:2] for address in addresses if address is not None)

    @property
    def pending(self) -> bool:
        """Whether a killed run has left operations of unknown result."""
        return bool(self._deployment.get("pending_operations"))

    @cached_property
    def _deployment(self) -> Mapping[str, Any]:
        if self._folder is None:
            return self._exported()
        file = state_file(self._folder, PROJECT, self.stack)
        if compressed_state(self._folder, PROJECT, self.stack):
            return self._exported()
        if not file.is_file():
            return self._exported() if has_former_layout(self._folder, self.stack) else {}
        return orjson.loads(file.read_bytes())["checkpoint"]["latest"] or {}

    def _exported(self) -> Mapping[str, Any]:
        return self._opened.export_stack().deployment or {}
