"""Roles of a training operator's job: replicas, template and restart policy by role name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.convert.draft import Draft
from trainyard.convert.part import Part
from trainyard.convert.restarts import apply_restart_policy

__all__ = ["Roles", "require"]


@dataclass(frozen=True)
class Roles:
    """Location of a kind's roles, and the operator's defaults.

    Parameters
    ----------
    path
        Path of the object that holds the roles.
    container
        Name of the container that the operator configures.
    restart_policy
        Default restart policy of a role.
    """

    path: str
    container: str
    restart_policy: str

    def read(
        self, draft: Draft, role: str, name: str, *, restart_policy: str | None = None, mains: Sequence[str] = ()
    ) -> Part | None:
        """Read a role as a part; None if it is missing or has no pods.

        Parameters
        ----------
        role
            Name of the role; case-insensitive.
        name
            Name of the replicatedJob.
        restart_policy
            The operator's default restart policy of this role, if different.
        mains
            Names of the main container, preferred over the kind's.
        """
        source = draft.source
        key = next((key for key in source.keys(self.path) if key.lower() == role.lower()), None)
        if key is None:
            return None
        path = f"{self.path}.{key}"
        source.keys(path)
        replicas = source.integer(f"{path}.replicas")
        if replicas == 0:
            source.changed(path, "left out: it has no pods")
            return None
        source.same(f"{path}.replicas", "number of pods")
        part = draft.read(f"{path}.template", name, replicas or 1, (*mains, self.container))
        limit = source.peek("spec.runPolicy.backoffLimit")
        limit = limit if isinstance(limit, int) and not isinstance(limit, bool) else None
        apply_restart_policy(source, part, restart_policy or self.restart_policy, limit)
        return part


def require(draft: Draft, roles: Roles, part: Part | None, role: str) -> Part:
    """Return a required part."""
    if part is None:
        raise draft.source.malformed(f"{roles.path}.{role}", "is missing, or has no pods")
    return part
