"""Base class of the hooks that write objects before Pulumi does; shows these writes in previews and logs them.

Such writes are no steps of the engine: it neither plans nor records them, and its targets do not limit them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pulumi

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.platform.pulumi_sdk.targets import has_targets

from ..common.threads import run_with_client
from .base import BeforeChangeHook


@dataclass(frozen=True)
class PlannedWrite:
    """One write that precedes those of Pulumi.

    Parameters
    ----------
    name
        Name of the object.
    body
        What is sent.
    fields
        The changed fields, before and after.
    """

    name: str
    body: Mapping[str, Any]
    fields: str


class MigrationHook(BeforeChangeHook):
    """Writes live objects once, before Pulumi creates or updates the first object of a kind."""

    kind: ClassVar[str]
    """Kind of the objects."""

    touches_others: ClassVar[bool] = True
    """Whether objects other than the one that Pulumi is about to write are written."""

    @abstractmethod
    async def plan(self, client: Client) -> Sequence[PlannedWrite]:
        """Return the writes that lead from the live objects to those that Pulumi can update."""

    @abstractmethod
    async def execute(self, client: Client, write: PlannedWrite) -> None:
        """Make one write."""

    async def prepare(self, client: Client) -> None:
        """Make the writes, and log each.

        Raises
        ------
        TrainyardError
            The run is limited to targets, but other objects must be written first.
        """
        planned = await self.plan(client)
        if planned and self.touches_others and has_targets():
            raise TrainyardError(
                f"This change writes {self.kind}s before Pulumi does, which --target and --exclude would not limit",
                findings=[Finding(f"{self.kind}/{each.name}", each.fields) for each in planned],
                fix="run without --target and --exclude",
            )
        for each in planned:
            await self.execute(client, each)
            pulumi.log.info(f"{self.kind}/{each.name} was written before the update: {each.fields}")

    def announce(self, component: pulumi.Resource) -> None:
        """Report in a preview what `prepare` would write, or that a targeted run would be rejected for it.

        Without the kind in the cluster, there is nothing to migrate.

        Raises
        ------
        TrainyardError
            The update would fail here, after other objects were written.
        """
        if not pulumi.runtime.is_dry_run():
            return
        targeted = self.touches_others and has_targets()

        try:
            planned = run_with_client(self._access, self.plan)
        except TrainyardError as error:
            # The targets need not contain an object of this kind; then nothing of this is written.
            if not targeted:
                raise
            pulumi.log.warn(f"`up` is rejected if it changes a {self.kind}: {error}", component)
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.not_found:
                return
            pulumi.log.warn(f"What is written before the {self.kind}s are updated is unknown: {error}", component)
        else:
            for each in planned:
                text = f"is written first, so that each update is accepted: {each.fields}"
                if targeted:
                    rejection = f"`up` with --target or --exclude is rejected if it changes a {self.kind}"
                    text = f"must be written first ({each.fields}): {rejection}"
                pulumi.log.warn(f"{self.kind}/{each.name} {text}", component)


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the fields that differ, with their former and new values."""
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {_text(before.get(name))} -> {_text(after.get(name))}" for name in names)


def _text(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
