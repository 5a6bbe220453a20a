"""Objects of a former installation, as they were before a takeover, and the record of them in the cluster.

The record is a Secret of the cluster: `destroy` may run on another machine, and a Deployment may contain passwords in
its variables. The data of Secrets is not part of it: no Secret is taken over.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard.api.constants import STACK_FIELD_MANAGER
from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.kinds import SECRETS
from trainyard.kube.resource import Object, Resource

RECORD_NAMESPACE: Final = "kube-system"
"""Namespace of the records: every cluster has it, and no `destroy` deletes it."""

STACK_MANAGERS: Final = frozenset({STACK_FIELD_MANAGER, f"{STACK_FIELD_MANAGER}-room"})
"""Field managers of the stack: of its objects and patches, and of the writes that precede those of Pulumi."""

_TYPE, _KEY = "trainyard.dev/takeover-record", "objects.json.gz"
_LIMIT = 1 << 20
"""Bytes of the data of a Secret (``MaxSecretSize`` of Kubernetes)."""
_METADATA = ("name", "namespace", "labels", "annotations")
_BY_CONTROLLERS = frozenset({"deployment.kubernetes.io/revision"})
_SECTIONS = frozenset({"apiVersion", "kind", "metadata", "status"})
_METADATA_ONLY = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds of which only labels and annotations are recorded: their other fields are not given back."""
_MANAGER = "trainyard-takeover"


@dataclass(frozen=True)
class FormerObject:
    """An object before its takeover.

    Parameters
    ----------
    resource
        Its resource.
    uid
        Its uid, by which an object that is still the same is recognized.
    manifest
        The object without what the API server sets, and without its status.
    patched
        Whether the stack sets only some of its fields, without its label; when they are deleted, no trace of it stays.
    reached
        Whether the stack has changed it already when it was read; not part of the record.
    """

    resource: Resource
    uid: str
    manifest: Object
    patched: bool = False
    reached: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, resource: Resource, live: Mapping[str, Any], *, patched: bool = False) -> FormerObject:
        """Return a live object as a former one."""
        uid = str(live["metadata"].get("uid") or "")
        return cls(resource, uid, cleaned(resource, live), patched, is_managed(live))

    @property
    def namespace(self) -> str | None:
        """Namespace; None for cluster-scoped kinds."""
        namespace: str | None = self.manifest["metadata"].get("namespace")
        return namespace

    @property
    def name(self) -> str:
        """Name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def address(self) -> tuple[str, str, str | None, str]:
        """API version, kind, namespace and name."""
        return self.resource.api_version, self.resource.kind, self.namespace, self.name

    @property
    def object(self) -> str:
        """``Kind namespace/name``, or ``Kind name``."""
        return f"{self.resource.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    @property
    def metadata_only(self) -> bool:
        """Whether only its labels and annotations are recorded."""
        return self.resource.kind in _METADATA_ONLY

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        entry = {"plural": self.resource.plural, "uid": self.uid, "manifest": self.manifest}
        return entry | ({"patched": True} if self.patched else {})

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> FormerObject:
        """Return the object of a JSON shape."""
        manifest = entry["manifest"]
        group, _, version = manifest["apiVersion"].rpartition("/")
        namespaced = "namespace" in manifest["metadata"]
        resource = Resource(group, version, entry["plural"], manifest["kind"], namespaced=namespaced)
        return cls(resource, entry["uid"], manifest, entry.get("patched", False))


def is_managed(live: Mapping[str, Any], managers: Collection[str] = STACK_MANAGERS) -> bool:
    """Return whether field managers, by default those of the stack, have set fields of a live object."""
    managed = live["metadata"].get("managedFields") or ()
    return any(each.get("manager") in managers for each in managed)


def cleaned(resource: Resource, live: Mapping[str, Any]) -> Object:
    """Return an object without its status and what the API server and the controller of its kind set."""
    annotations = {k: v for k, v in (live["metadata"].get("annotations") or {}).items() if k not in _BY_CONTROLLERS}
    values = {**live["metadata"], "annotations": annotations}
    metadata = {key: values[key] for key in _METADATA if values.get(key)}
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if resource.kind not in _METADATA_ONLY:
        body |= {key: value for key, value in live.items() if key not in _SECTIONS}
    return body


def record_name(stack: str) -> str:
    """Return the name of the Secret that is the record of a stack."""
    plain = re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-")
    suffix = "" if plain == stack else f"-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"
    return f"trainyard-takeover-{plain[:200]}{suffix}"


async def read_record(client: Client, stack: str) -> list[FormerObject]:
    """Return the objects that a stack has taken over or replaced, as they were; empty: there is no record."""
    found = await client.find(SECRETS, record_name(stack), namespace=RECORD_NAMESPACE)
    return _decoded(found) if found is not None else []


async def save_record(client: Client, stack: str, objects: Iterable[FormerObject]) -> None:
    """Add objects to the record of a stack; those that an interrupted takeover has changed stay as they were first.

    An object that the takeover did not reach, or another one of the same name, replaces the former entry.

    Raises
    ------
    TrainyardError
        The record would be too large.
    ApiError
        It cannot be read or written.
    """
    found = await client.find(SECRETS, record_name(stack), namespace=RECORD_NAMESPACE)
    recorded = {each.address: each for each in (_decoded(found) if found is not None else ())}
    added = {each.address: each for each in objects if _replaces(recorded.get(each.address), each)}
    if not added:
        return
    await _save(client, stack, found, (recorded | added).values())


async def forget_objects(client: Client, stack: str, addresses: Collection[tuple[str, str, str | None, str]]) -> None:
    """Remove objects from the record of a stack: they are deleted on purpose, and not given back.

    Parameters
    ----------
    addresses
        API version, kind, namespace and name of each.
    """
    found = await client.find(SECRETS, record_name(stack), namespace=RECORD_NAMESPACE)
    recorded = _decoded(found) if found is not None else []
    kept = [each for each in recorded if each.address not in addresses]
    if len(kept) < len(recorded):
        await _save(client, stack, found, kept)


async def _save(client: Client, stack: str, found: Object | None, objects: Iterable[FormerObject]) -> None:
    data = _encoded(objects)
    if len(data) > _LIMIT:
        raise TrainyardError(
            f"The former objects of a takeover by stack {stack} need {len(data)} bytes, and a record holds {_LIMIT}",
            fix="set install: existing for one of the components, whose objects are then not taken over, or delete "
            "objects that are not needed",
        )
    metadata: dict[str, Any] = {"name": record_name(stack), "namespace": RECORD_NAMESPACE}
    metadata |= {"labels": {"app.kubernetes.io/managed-by": "trainyard"}}
    body: Object = {"apiVersion": "v1", "kind": "Secret", "type": _TYPE, "metadata": metadata}
    if found is not None:
        metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
    await client.apply(SECRETS, {**body, "data": {_KEY: base64.b64encode(data).decode()}}, field_manager=_MANAGER)


async def delete_record(client: Client, stack: str) -> None:
    """Delete the record of a stack."""
    await client.delete(SECRETS, record_name(stack), namespace=RECORD_NAMESPACE)


def _replaces(recorded: FormerObject | None, read: FormerObject) -> bool:
    return recorded is None or recorded.uid != read.uid or not (read.reached or recorded == read)


def _encoded(objects: Iterable[FormerObject]) -> bytes:
    text = json.dumps([each.as_json() for each in objects], separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def _decoded(secret: Object) -> list[FormerObject]:
    try:
        entries = json.loads(gzip.decompress(base64.b64decode(secret["data"][_KEY])))
        return [FormerObject.from_json(entry) for entry in entries]
    except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
        name = secret["metadata"]["name"]
        raise TrainyardError(
            f"Secret {RECORD_NAMESPACE}/{name} is no record of a takeover: {error or type(error).__name__}",
            fix=f"restore it, or delete it to give up the former objects: kubectl delete secret -n {RECORD_NAMESPACE} "
            f"{name}",
        ) from error
