"""Recorded state of a cluster: its ports and the programs it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import ClusterFolder, require_ownership, write_private
from trainyard.local.cluster.host_address import ADDRESSES, DEFAULT_FAMILY, Addresses, IpFamily

_FORMAT = 1


@dataclass(frozen=True)
class ProgramFile:
    """Version and file of a program that a cluster runs."""

    version: str
    path: str


@dataclass(frozen=True)
class ClusterState:
    """The content of ``cluster.json``.

    Parameters
    ----------
    ports
        Port by use (``kube-apiserver/secure``), allocated when the cluster was created.
    programs
        Program by name; updated by every ``up``.
    nodes
        Size class of the largest fleet so far.
    kubelets
        Names of the nodes that have a kubelet on this machine, in the order of their addresses; empty: all nodes are
        simulated.
    ip_family
        Address family, chosen when the cluster was created.
    """

    ports: Mapping[str, int]
    programs: Mapping[str, ProgramFile] = field(default_factory=dict)
    nodes: int = 0
    kubelets: tuple[str, ...] = ()
    ip_family: IpFamily = DEFAULT_FAMILY

    @property
    def addresses(self) -> Addresses:
        """Its addresses on this machine."""
        return ADDRESSES[self.ip_family]


def load_state(folder: ClusterFolder) -> ClusterState | None:
    """Return the state of a cluster, or None if the cluster does not exist.

    Raises
    ------
    TrainyardError
        The file belongs to another user, is damaged, or was written by a newer Trainyard.
    """
    require_ownership(folder.root)
    require_ownership(folder.state)
    try:
        document = json.loads(folder.state.read_bytes())
    except FileNotFoundError:
        if folder.etcd.exists():
            raise _damaged(folder, "it is missing, but etcd has data") from None
        return None
    except OSError as error:
        raise TrainyardError(f"{folder.state} cannot be read: {error.strerror}", fix="check its permissions") from error
    except ValueError as error:
        raise _damaged(folder, "it is not JSON") from error
    try:
        if document["format"] > _FORMAT:
            raise TrainyardError(
                f"{folder.state} was written by a newer Trainyard (format {document['format']})",
                fix="use that version, or another --name",
            )
        programs = {
            name: ProgramFile(str(program["version"]), str(program["path"]))
            for name, program in document["programs"].items()
        }
        ports = {name: int(port) for name, port in document["ports"].items()}
        kubelets = tuple(map(str, document.get("kubelets", ())))
        family = IpFamily(document.get("ipFamily", DEFAULT_FAMILY))
        return ClusterState(ports, programs, int(document.get("nodes", 0)), kubelets, family)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder, "parts of it are missing") from error


def save_state(folder: ClusterFolder, state: ClusterState) -> None:
    """Write the state of a cluster atomically."""
    document = {
        "format": _FORMAT,
        "ports": dict(sorted(state.ports.items())),
        "nodes": state.nodes,
        "programs": {name: asdict(program) for name, program in sorted(state.programs.items())},
        **({"kubelets": list(state.kubelets)} if state.kubelets else {}),
        **({"ipFamily": state.ip_family} if state.ip_family != DEFAULT_FAMILY else {}),
    }
    write_private(folder.state, json.dumps(document, indent=2) + "\n")


def _damaged(folder: ClusterFolder, why: str) -> TrainyardError:
    return TrainyardError(
        f"The state of cluster {folder.name} is damaged: {folder.state}: {why}",
        fix=f"remove the cluster with `trainyard cluster down --delete --name {folder.name}` and start it again",
    )
