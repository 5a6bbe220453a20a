"""Field managers of an API server in memory: who owns which field, and what a server-side apply does to it.

A manager is a name, an operation and a subresource, as in ``metadata.managedFields``: a process that patches a field
and later applies it conflicts with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.patches import Owners, apply, owned_after_update

Body = dict[str, Any]


def manager_of(name: str, operation: str, subresource: str = "") -> str:
    """Return the key of an entry of managedFields."""
    return f"{name or 'unknown'} {operation} {subresource}".strip()


class FieldOwnership:
    """Owned fields of the stored objects, by uid: an object that is created again has new owners."""

    def __init__(self) -> None:
        self._owners: dict[str, Owners] = {}

    def of(self, body: Body) -> dict[str, set[str]]:
        """Return the owned fields of an object by manager, as dotted paths."""
        owners = self._owners.get(body["metadata"]["uid"], {})
        return {manager: {".".join(path) for path in paths} for manager, paths in owners.items() if paths}

    def applied(self, held: Body, sent: Body, name: str, *, subresource: str, force: bool) -> Body:
        """Return an object after an apply, and record its owners.

        Raises
        ------
        PatchError
            If another manager owns a field that would change and the apply is not forced.
        """
        uid, manager = held["metadata"]["uid"], manager_of(name, "Apply", subresource)
        new, owners = apply(held, self._owners.get(uid, {}), _settable(sent, subresource), manager, force=force)
        self._owners[uid] = owners
        return new

    def created(self, new: Body, sent: Body, name: str) -> None:
        """Record the owner of an object that an apply created."""
        self._owners[new["metadata"]["uid"]] = apply(None, {}, sent, manager_of(name, "Apply"), force=True)[1]

    def updated(self, old: Body | None, new: Body, manager: str) -> None:
        """Record the owners after a create, update or patch that was not an apply."""
        uid = new["metadata"]["uid"]
        self._owners[uid] = owned_after_update(self._owners.get(uid, {}), old, new, manager)

    def forget(self, uid: str) -> None:
        """Drop the owners of a removed object."""
        self._owners.pop(uid, None)


def _settable(sent: Mapping[str, Any], subresource: str) -> Body:
    """Return what an apply sets: the preconditions are no fields, and a status update changes the status only."""
    if subresource:
        return {name: value for name, value in sent.items() if name in ("apiVersion", "kind", subresource)}
    metadata = {name: value for name, value in sent["metadata"].items() if name not in ("uid", "resourceVersion")}
    return {**sent, "metadata": metadata}
