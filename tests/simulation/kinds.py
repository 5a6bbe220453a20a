"""The kinds that the model serves, and how the API server treats each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trainyard.kube import kinds, training_kinds
from trainyard.kube.event_recorder import EVENTS
from trainyard.kube.leader import LEASES
from trainyard.kube.resource import Resource


@dataclass(frozen=True)
class Kind:
    """One served kind.

    Parameters
    ----------
    status
        Whether it has a status subresource.
    counts
        Whether it has a generation.
    owned
        Whether any client applies it, so that the managers of its fields are kept.
    """

    resource: Resource
    status: bool = False
    counts: bool = True
    owned: bool = True


NAMESPACES = Kind(kinds.NAMESPACES, counts=False)
KINDS = (
    Kind(training_kinds.TRAIN_JOBS, status=True),
    Kind(training_kinds.TRAINING_RUNTIMES),
    Kind(training_kinds.CLUSTER_TRAINING_RUNTIMES),
    Kind(training_kinds.TENANT_POLICIES),
    Kind(training_kinds.PLATFORMS),
    Kind(training_kinds.JOB_SETS, status=True),
    Kind(training_kinds.POD_GROUPS),
    Kind(training_kinds.QUEUES, status=True),
    Kind(training_kinds.COMMANDS),
    Kind(kinds.JOBS, status=True),
    Kind(kinds.CONFIG_MAPS, counts=False),
    Kind(kinds.SECRETS, counts=False),
    NAMESPACES,
    Kind(kinds.PRIORITY_CLASSES, counts=True),
    Kind(EVENTS, counts=False, owned=False),
    Kind(LEASES, counts=False, owned=False),
)
_BY_PATH = {kind.resource.path(): kind for kind in KINDS}


def kind_of(group_version: str, plural: str) -> Kind | None:
    """Return the kind served at ``/api/v1`` or ``/apis/group/version``, None where there is none."""
    return _BY_PATH.get(f"{group_version}/{plural}")


@lru_cache(maxsize=256)
def any_kind(group_version: str, plural: str) -> Kind:
    """Return a kind of any name, for servers that serve every path."""
    group, _, version = group_version.removeprefix("/api").removeprefix("s").strip("/").rpartition("/")
    return kind_of(group_version, plural) or Kind(Resource(group, version, plural, plural), status=True)
