"""Roles of a training operator's job: replicas, template and restart policy by role name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.operator_labels import OperatorLabels, label_part
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.restarts import apply_restart_policy

_PREFIX: Final = "training.kubeflow.org/"
_OPERATOR: Final = f"{_PREFIX}operator-name"
_JOB: Final = f"{_PREFIX}job-name"
_TYPE: Final = f"{_PREFIX}replica-type"
_INDEX: Final = f"{_PREFIX}replica-index"
_ROLE: Final = f"{_PREFIX}job-role"
_MASTER: Final = "master"


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
    operator
        Name of the operator in the labels of its pods.
    masters
        Roles whose pods have the label for a master.
    leads
        Whether the first worker has that label if the job has none of these roles.
    launched
        Whether the label contains the name of the role instead, as the MPI operator sets it.
    """

    path: str
    container: str
    restart_policy: str
    operator: str
    masters: tuple[str, ...] = ("master",)
    leads: bool = False
    launched: bool = False

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
        label_part(draft, part, self._labels(draft, key.lower()))
        limit = source.peek("spec.runPolicy.backoffLimit")
        limit = limit if isinstance(limit, int) and not isinstance(limit, bool) else None
        # The launcher of the MPI operator is a Job with its default limit; its workers are pods.
        unlimited = not self.launched or key.lower() == "worker"
        apply_restart_policy(source, part, restart_policy or self.restart_policy, limit, unlimited=unlimited)
        return part

    def _labels(self, draft: Draft, role: str) -> OperatorLabels:
        """Return the labels that the operator sets on the pods of a role."""
        source = draft.source
        static = {_OPERATOR: self.operator, _JOB: str(source.peek("metadata.name") or draft.name)}
        if self.launched:
            # With the launcher as a worker, the operator counts the workers from 1.
            counted = role == "worker" and not source.peek("spec.runLauncherAsWorker")
            return OperatorLabels(_PREFIX, static | {_ROLE: role}, (_INDEX,) if counted else ())
        static[_TYPE] = role
        if role in self.masters:
            return OperatorLabels(_PREFIX, static | {_ROLE: _MASTER}, (_INDEX,))
        led = any(key.lower() in self.masters for key in source.keys(self.path))
        first = {_ROLE: _MASTER} if self.leads and role == "worker" and not led else None
        return OperatorLabels(_PREFIX, static, (_INDEX,), first)


def require(draft: Draft, roles: Roles, part: Part | None, role: str) -> Part:
    """Return a required part."""
    if part is None:
        raise draft.source.malformed(f"{roles.path}.{role}", "is missing, or has no pods")
    return part
