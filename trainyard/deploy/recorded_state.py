"""The state of a stack as the last operation left it; read once for all checks before an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from trainyard.deploy.recovery import state_file
from trainyard.deploy.workspace import PROJECT

if TYPE_CHECKING:
    from pulumi.automation import Stack

__all__ = ["RecordedState"]

_COMPRESSED = ".json.gz"


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

    @cached_property
    def resources(self) -> Sequence[Mapping[str, Any]]:
        """The resources, as `pulumi stack export` prints them; empty for a stack that does not exist yet."""
        if self._folder is None:
            return self._exported()
        file = state_file(self._folder, PROJECT, self.stack)
        if file.with_suffix(_COMPRESSED).is_file():
            return self._exported()
        if not file.is_file():
            return ()
        deployment = orjson.loads(file.read_bytes())["checkpoint"]["latest"] or {}
        return deployment.get("resources") or ()

    def _exported(self) -> Sequence[Mapping[str, Any]]:
        deployment = self._opened.export_stack().deployment or {}
        return deployment.get("resources") or ()
