"""Record of a release: what its program declares for the shipped stacks, and the fields that decide about replacement.

make record-release

An upgrade keeps the settings of a stack, so the record contains them: `tests.components.release_changes` runs the
present program with the recorded settings and compares. ``RELEASE.json.xz`` has the objects of stack ``local`` in full
(`tests.components.release_objects`), with which a test on the control plane starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.components.recording import Recording, Registered, embedded_access, record, service_access, stack_config
from tests.components.release_objects import write_objects

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent / "releases"
STACKS: Final = {"local": embedded_access, "production": service_access}
"""How each recorded stack reaches its cluster."""

Record = dict[str, dict[str, dict[str, Any]]]
"""Deciding fields by type (with the types of the parents) and name."""

DECIDING_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    # The provider deletes and creates (pulumi-kubernetes, pkg/provider/diff.go, forceNew).
    "ClusterRoleBinding": ("roleRef",),
    "DaemonSet": ("spec.selector",),
    "Deployment": ("spec.selector",),
    "PersistentVolumeClaim": ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    "ResourceQuota": ("spec.scopes",),
    "RoleBinding": ("roleRef",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP",),
    # The API server rejects a change.
    "CustomResourceDefinition": ("spec.group", "spec.names.kind", "spec.names.plural", "spec.scope"),
    "PriorityClass": ("value", "preemptionPolicy"),
    # The API server takes over a policy and its binding one after the other; while their parameters differ, it denies.
    "ValidatingAdmissionPolicy": ("spec.paramKind",),
    # The program requests the replacement (`replace_on_changes`); the annotation is a hash of the spec.
    "ClusterTrainingRuntime": ("metadata.annotations.trainyard.dev/released",),
    "LocalQueue": ("spec.clusterQueue",),
}
_LONGEST: Final = 120
"""Longer values are recorded as a digest."""
_ANNOTATION: Final = "metadata.annotations."


def recorded_stack(stack: str, settings: Mapping[str, Any], *, schemas: bool = False) -> Recording:
    """Run the present program for a stack with the given settings; parameters as for `record`."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with pytest.MonkeyPatch.context() as patch:
            return record(settings, patch, access=STACKS[stack](), stack=stack, policies=True, schemas=schemas)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def declared(recording: Recording) -> Record:
    """Return what a program declared, as it is recorded."""
    found: Record = {}
    for each in sorted(recording.resources.values(), key=lambda each: urn_tail(each.urn)):
        kind, _, name = urn_tail(each.urn).partition("::")
        found.setdefault(kind, {})[name] = deciding_fields(each)
    return found


def urn_tail(urn: str) -> str:
    """Return a URN without stack and project: the types of the parents and its own, and the name."""
    return urn.split("::", 2)[2].removeprefix("pulumi:pulumi:Stack$")


def deciding_fields(resource: Registered) -> dict[str, Any]:
    """Return the fields of a resource with whose change it is replaced, or requests are rejected."""
    inputs = resource.inputs
    if resource.type == "pulumi:providers:kubernetes":
        return {"clusterIdentifier": inputs["clusterIdentifier"]}
    if not resource.type.startswith("kubernetes:"):
        return {}
    metadata = inputs["metadata"]
    identity = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    fields: dict[str, Any] = {} if resource.name.partition("/")[2] == identity else {"identity": identity}
    if resource.protect:
        fields["protect"] = True
    if resource.type.endswith("Patch"):
        return fields
    for path in DECIDING_FIELDS.get(inputs["kind"], ()):
        if (value := _at(inputs, path)) is not None:
            fields[path] = _short(value)
    if inputs["kind"] == "CustomResourceDefinition":
        fields["served"] = [version["name"] for version in inputs["spec"]["versions"] if version["served"]]
    if inputs.get("immutable"):
        fields["content"] = _digest(json.dumps([inputs.get("data"), inputs.get("binaryData")], sort_keys=True))
    return fields


def record_release(release: str, folder: Path = FOLDER) -> Path:
    """Write the record of a release, and the empty list of the changes since.

    Raises
    ------
    FileExistsError
        The release is recorded already: a record is never changed.
    """
    file = folder / f"{release}.yaml"
    with file.open("x") as out:
        stacks = {}
        for stack in STACKS:
            settings = stack_config(stack)
            stacks[stack] = {"settings": settings, "declares": _sorted(declared(recorded_stack(stack, settings)))}
        out.write("# Written by `make record-release`; never edited.\n")
        yaml.safe_dump({"stacks": stacks}, out, sort_keys=False, default_flow_style=None, width=110)
    write_objects(release, recorded_stack("local", stack_config("local"), schemas=True), folder)
    changes = folder / f"since-{release}.yaml"
    if not changes.exists():
        changes.write_text("removed: []\nadded: []\nchanged: []\n")
    return file


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    if path.startswith(_ANNOTATION):
        return inputs["metadata"].get("annotations", {}).get(path.removeprefix(_ANNOTATION))
    value: Any = inputs
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= _LONGEST else _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _sorted(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))


if __name__ == "__main__":
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        print(record_release(version))
    except FileExistsError as error:
        sys.exit(f"{error.filename} exists. Fix: set the new version in pyproject.toml; a record is never changed")
