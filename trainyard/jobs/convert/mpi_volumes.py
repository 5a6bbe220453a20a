"""Volumes and files that the MPI operators add to their pods, where the job's own containers use them."""

from __future__ import annotations

import re
from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.source import LegacySource
from trainyard.jobs.render.frameworks.mpi_implementations import HOST_FILE_DIRECTORY, HOST_FILE_NAME
from trainyard.jobs.render.frameworks.ssh_launch import HOST_FILE_VOLUME, KEYS_VOLUME
from trainyard.jobs.render.pod_set import LAUNCHER

_CONFIGURATION: Final = "mpi-job-config"
_KEYS: Final = "ssh-auth"
_KUBECTL: Final = "mpi-job-kubectl"
_HOST_FILE: Final = f"{HOST_FILE_DIRECTORY}/{HOST_FILE_NAME}"
_DISCOVERY: Final = "discover_hosts.sh"
_DISCOVERY_WORD: Final = re.compile(rf"(?<![\w.-]){re.escape(_DISCOVERY)}(?![\w-])")
_SCRIPTS: Final = {
    _DISCOVERY: f"read the hosts from {_HOST_FILE}; the launcher starts when they are ready",
    "kubexec.sh": "use SSH, which mpirun takes by itself",
}
_SUB_PATHS: Final = ("subPath", "subPathExpr")


def map_operator_volumes(source: LegacySource, part: Part, name: str) -> None:
    """Replace volumes of the operator by those of the MPI framework, and note what is no longer there.

    Parameters
    ----------
    name
        Name of the TrainJob.
    """
    _rename_objects(source, part, name)
    declared = {volume["name"] for volume in part.pod.get("volumes", ())}
    new = {_KEYS: KEYS_VOLUME}
    if part.name == LAUNCHER:
        new[_CONFIGURATION] = HOST_FILE_VOLUME
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(part.pod.get(kind, ())):
            path = f"{part.path}.spec.{kind}[{index}]"
            mounts = container.get("volumeMounts", ())
            kept = []
            for number, mount in enumerate(mounts):
                volume = mount["name"]
                own = f"{path}.volumeMounts[{number}].name"
                if volume in declared or volume not in (_CONFIGURATION, _KEYS, _KUBECTL):
                    kept.append(mount)
                elif volume in new and not _script(mount):
                    kept.append({**mount, "name": new[volume]})
                    source.changed(own, f"volume {new[volume]} of the MPI framework")
                else:
                    fix = _SCRIPTS.get(_script(mount), f"read the hosts from {_HOST_FILE} on the launcher")
                    source.lost(own, "the volume of the old operator is not there: not mounted", fix)
            if mounts:
                container["volumeMounts"] = kept
            if mounts and not kept:
                del container["volumeMounts"]
            _note_scripts(source, container, path)


def _rename_objects(source: LegacySource, part: Part, name: str) -> None:
    """Replace names of the operator's ConfigMap and Secret in the job's own volumes; their keys are the same."""
    old = source.peek("metadata.name")
    for index, volume in enumerate(part.pod.get("volumes", ())):
        path = f"{part.path}.spec.volumes[{index}]"
        sources = [(path, volume)]
        projected = volume.get("projected", {}).get("sources", ())
        sources += [(f"{path}.projected.sources[{number}]", each) for number, each in enumerate(projected)]
        for own, each in sources:
            for kind, former, new in (
                ("configMap", f"{old}-config", f"{name}-{HOST_FILE_VOLUME}"),
                ("secret", f"{old}-ssh", f"{name}-{KEYS_VOLUME}"),
            ):
                reference = each.get(kind, {})
                field = "secretName" if "secretName" in reference else "name"
                if reference.get(field) == former:
                    reference[field] = new
                    source.changed(f"{own}.{kind}.{field}", f"{new}, which the framework creates")


def _script(mount: Body) -> str:
    """Return the script of the operator that a mount takes out of the volume; empty if none."""
    paths = [str(mount.get(name, "")).rpartition("/")[2] for name in _SUB_PATHS]
    return next((path for path in paths if path in _SCRIPTS), "")


def _note_scripts(source: LegacySource, container: Body, path: str) -> None:
    for field in ("command", "args", "env"):
        if _DISCOVERY_WORD.search(str(container.get(field, ""))):
            message = f"names {_DISCOVERY} of the old operator, which is not there any more"
            note = FieldFinding.of(f"{path}.{field}", _DISCOVERY, Fidelity.LOST, message, _SCRIPTS[_DISCOVERY])
            source.notes.append(note)
