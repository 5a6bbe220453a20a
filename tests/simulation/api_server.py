"""A model of the API server, in memory and without time: what it stores, what it answers, and what watches deliver.

It answers HTTP requests (method, path, query, body), so that the unmodified client can use it, and every answer is
compared with that of the real server by `tests/simulation/test_conformance.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import orjson

from tests.simulation.kinds import NAMESPACES, Kind, kind_of
from tests.simulation.patches import Owners, PatchError, apply, json_patched, merged, owned_after_update
from tests.simulation.selectors import selected
from trainyard.kube.resource import Object

_APPLY, _MERGE, _JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json-patch+json"
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


class RefusedError(Exception):
    """An answer that is an error."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: int | None = None, name: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after
        self.name = name

    def body(self) -> Object:
        """Return the Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.status,
            "reason": self.reason,
            "message": self.message,
            **({"details": {"name": self.name}} if self.name else {}),
        }

    @property
    def payload(self) -> bytes:
        """The body of the response."""
        return orjson.dumps(self.body())


class NotServedError(RefusedError):
    """What answers for a path that nothing serves, and many a proxy: 404 without a Status object."""

    def __init__(self) -> None:
        super().__init__(404, "Not Found", "404 page not found")

    @property
    def payload(self) -> bytes:
        """The body of the response."""
        return b"404 page not found\n"


@dataclass(frozen=True)
class Stored:
    """One version of an object; the body is never changed."""

    kind: Kind
    body: Object
    owners: Owners = field(default_factory=dict, compare=False)

    @functools.cached_property
    def raw(self) -> bytes:
        """The object as JSON."""
        return orjson.dumps(self.body)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the object."""
        return self.body["metadata"]  # type: ignore[no-any-return]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.get("namespace", ""), self.metadata["name"]

    @property
    def version(self) -> int:
        """The resourceVersion."""
        return int(self.metadata["resourceVersion"])


@dataclass(frozen=True)
class Event:
    """One write: what was stored before and after it, and the request."""

    version: int
    old: Stored | None
    new: Stored | None
    last: Stored
    call: Call


@dataclass(frozen=True)
class Call:
    """One request, decoded."""

    verb: str
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    accept: str = ""
    user: str = ""
    sent: int = 0
    """Version of the server when the request was sent."""

    @property
    def writes(self) -> bool:
        """Whether it may change anything."""
        return self.verb not in ("get", "list", "watch")

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name, self.subresource) if part)
        return f"{self.verb} {self.kind.resource.plural} {where}"


class Admission:
    """What is asked before a write: it returns the object, changed or not, or raises `RefusedError`."""

    def mutate(self, call: Call, old: Object | None, new: Object) -> Object:
        """Return the object with defaults."""
        return new

    def validate(self, call: Call, old: Object | None, new: Object | None) -> None:
        """Refuse a write."""


class ApiServer:
    """Objects by kind, and their history.

    Parameters
    ----------
    admission
        Webhooks and policies, in order.
    now
        Returns the time as the API writes it.
    namespaces
        Whether objects are created in existing namespaces only.
    """

    def __init__(
        self,
        *admission: Admission,
        now: Callable[[], str] = lambda: "2026-01-01T00:00:00Z",
        namespaces: bool = True,
    ) -> None:
        self.version = 100
        self.compacted = 0
        self.pruned: dict[str, set[str]] = {}
        """By plural, fields of the status that the CustomResourceDefinition does not know."""
        self._namespaces = namespaces
        self.history: dict[Kind, list[Event]] = {}
        self.listeners: list[Callable[[Event], None]] = []
        self.admission = list(admission)
        self.objects: dict[Kind, dict[tuple[str, str], Stored]] = {}
        self.pages: dict[str, list[Stored]] = {}
        self._uids = 0
        self._now = now

    # Reading

    def find(self, kind: Kind, name: str, namespace: str = "") -> Stored | None:
        """Return an object, None where it does not exist."""
        return self.objects.get(kind, {}).get((namespace, name))

    def all(self, kind: Kind) -> list[Stored]:
        """Return all objects of a kind by key."""
        return [stored for _, stored in sorted(self.objects.get(kind, {}).items())]

    def everything(self) -> Iterator[Stored]:
        """Yield all objects."""
        for stored in self.objects.values():
            yield from list(stored.values())

    def compact(self) -> None:
        """Forget the history: watches and pages from before are answered 410."""
        self.compacted = self.version
        for events in self.history.values():
            events.clear()
        self.pages.clear()

    # Requests

    def handle(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        data: bytes | None,
        *,
        content_type: str = "",
        accept: str = "",
        user: str = "",
    ) -> tuple[int, bytes]:
        """Answer one request; watches are answered by `watch_lines`.

        Raises
        ------
        RefusedError
            For an answer that is an error.
        """
        return self.carry_out(decode(method, path, query, data, content_type=content_type, accept=accept, user=user))

    def carry_out(self, call: Call) -> tuple[int, bytes]:
        """Answer one decoded request."""
        match call.verb:
            case "get":
                stored = self._existing(call)
                if "as=PartialObjectMetadata" in call.accept:
                    kinds = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
                    return 200, orjson.dumps({**kinds, "metadata": stored.metadata})
                return 200, stored.raw
            case "list":
                return 200, self._list(call)
            case "create":
                return 201, self._create(call, call.body).raw
            case "update":
                return 200, self._update(call, lambda old: (call.body, self._updated(call, old)), put=True).raw
            case "patch":
                return self._patch(call)
        return 200, self._delete(call)

    def put(self, kind: Kind, body: Object, call: Call | None = None) -> Stored:
        """Store an object as it is, without admission, or return what is stored if it is the same."""
        metadata = dict(body["metadata"])
        old = self.find(kind, metadata["name"], metadata.get("namespace", ""))
        new = self._without_pruned(kind, {**body, "metadata": metadata})
        if old is not None and new == old.body:
            return old
        if old is None:
            self._uids += 1
            metadata.setdefault("uid", f"00000000-0000-4000-8000-{self._uids:012d}")
            metadata.setdefault("creationTimestamp", self._now())
            metadata["generation"] = 1
        else:
            metadata |= {name: old.metadata[name] for name in ("uid", "creationTimestamp")}
            changed = new.get("spec") != old.body.get("spec")
            metadata["generation"] = old.metadata.get("generation", 1) + (1 if changed else 0)
        call = call or Call("update", kind, user="another client")
        return self._store(call, old, new, self._owners(call, old, new))

    def remove(self, kind: Kind, name: str, namespace: str = "") -> Stored:
        """Remove an object, whatever holds it."""
        stored = self.find(kind, name, namespace)
        assert stored is not None
        return self._remove(Call("delete", kind), stored)

    def watch_lines(self, call: Call, after: int, until: int | None = None) -> tuple[bytes, int]:
        """Return what a watch delivers after a version, and the version up to which it is then complete.

        A watch that lags delivers nothing after a version.

        Raises
        ------
        RefusedError
            With 410 if the history does not reach back so far.
        """
        if after < self.compacted:
            raise RefusedError(410, "Expired", f"too old resource version: {after} ({self.compacted})")
        lines = []
        until = self.version if until is None else until
        for event in reversed(self.history.get(call.kind, ())):
            if event.version <= after:
                break
            line = _line(call, event) if event.version <= until else b""
            if line:
                lines.append(line)
        return b"".join(reversed(lines)), max(after, until)

    def bookmark(self, call: Call) -> bytes:
        """Return a bookmark of now."""
        body = {
            "kind": call.kind.resource.kind,
            "apiVersion": call.kind.resource.api_version,
            "metadata": {"resourceVersion": str(self.version)},
        }
        return orjson.dumps({"type": "BOOKMARK", "object": body}) + b"\n"

    def _existing(self, call: Call) -> Stored:
        stored = self.find(call.kind, call.name, call.namespace)
        if stored is None:
            raise RefusedError(404, "NotFound", f'{call.kind.resource} "{call.name}" not found', name=call.name)
        return stored

    def _list(self, call: Call) -> bytes:
        token = call.query.get("continue")
        if token is not None:
            found = self.pages.pop(token, None)
            if found is None:
                raise RefusedError(410, "Expired", "The provided continue parameter is too old")
            version = token.split("-")[0]
        else:
            found = [
                stored
                for stored in self.all(call.kind)
                if (not call.namespace or stored.key[0] == call.namespace) and selected(stored.body, call.query)
            ]
            version = str(self.version)
        limit = int(call.query.get("limit") or 0) or len(found)
        metadata = {"resourceVersion": version}
        if len(found) > limit:
            metadata["continue"] = f"{version}-{len(self.pages)}-{len(found)}"
            self.pages[metadata["continue"]] = found[limit:]
        if "as=PartialObjectMetadataList" in call.accept:
            items = [orjson.dumps({"metadata": stored.metadata}) for stored in found[:limit]]
        else:
            items = [stored.raw for stored in found[:limit]]
        head = {"kind": f"{call.kind.resource.kind}List", "apiVersion": call.kind.resource.api_version}
        start = orjson.dumps({**head, "metadata": metadata})[:-1]
        return start + b',"items":[' + b",".join(items) + b"]}"

    # Writing

    def _create(self, call: Call, body: Object, owners: Owners | None = None) -> Stored:
        metadata = dict(body["metadata"])
        name = metadata["name"]
        namespace = call.namespace
        if metadata.get("resourceVersion"):
            raise RefusedError(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        resource = call.kind.resource
        if namespace and metadata.setdefault("namespace", namespace) != namespace:
            raise RefusedError(400, "BadRequest", "the namespace of the provided object does not match the request")
        call = replace(call, name=name)
        new: Object = {**body, "metadata": metadata}
        if call.kind.status:
            new.pop("status", None)
        if call.namespace and self._namespaces:
            self._require_namespace(call)
        for admission in self.admission:
            new = admission.mutate(call, None, new)
        if self.find(call.kind, name, namespace) is not None:
            for admission in self.admission:
                admission.validate(call, None, new)
            raise RefusedError(409, "AlreadyExists", f'{resource} "{name}" already exists')
        for admission in self.admission:
            admission.validate(call, None, new)
        self._uids += 1
        metadata = dict(new["metadata"])
        metadata["uid"] = f"00000000-0000-4000-8000-{self._uids:012d}"
        metadata["creationTimestamp"] = self._now()
        if call.kind.counts:
            metadata["generation"] = 1
        if owners is None:
            owners = self._owners(call, None, new)
        return self._store(call, None, {**new, "metadata": metadata}, owners)

    def _require_namespace(self, call: Call) -> None:
        home = self.find(NAMESPACES, call.namespace)
        if home is None:
            raise RefusedError(404, "NotFound", f'namespaces "{call.namespace}" not found', name=call.namespace)
        if home.metadata.get("deletionTimestamp"):
            what = f'{call.kind.resource} "{call.name}" is forbidden'
            raise RefusedError(
                403, "Forbidden", f"{what}: unable to create new content in a namespace being terminated"
            )

    def _updated(self, call: Call, old: Stored) -> Owners:
        return self._owners(call, old, call.body)

    def _patch(self, call: Call) -> tuple[int, bytes]:
        if call.content_type == _APPLY:
            return self._apply(call)

        def change(old: Stored) -> tuple[Object, Owners]:
            try:
                new = json_patched(old.body, call.body) if call.content_type == _JSON else merged(old.body, call.body)
            except PatchError as error:
                text = "the server rejected our request due to an error in our request"
                raise RefusedError(422, "Invalid", text) from error
            return new, self._owners(call, old, new)

        return 200, self._update(call, change).raw

    def _apply(self, call: Call) -> tuple[int, bytes]:
        old = self.find(call.kind, call.name, call.namespace)
        manager, force = _manager(call, "Apply"), call.query.get("force") == "true"
        sent = call.body
        if call.subresource:
            sent = {name: sent[name] for name in ("apiVersion", "kind", "metadata", call.subresource) if name in sent}
        uid = call.body["metadata"].get("uid")
        if old is None:
            if uid:
                text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise self._conflict(call, text)
            body, owners = apply(None, {}, sent, manager, force=force)
            return 201, self._create(call, body, owners).raw

        def change(old: Stored) -> tuple[Object, Owners]:
            try:
                return apply(old.body, old.owners, sent, manager, force=force)
            except PatchError as error:
                raise RefusedError(409, "Conflict", str(error)) from error

        return 200, self._update(call, change).raw

    def _update(self, call: Call, change: Callable[[Stored], tuple[Object, Owners]], *, put: bool = False) -> Stored:
        old = self._existing(call)
        new, owners = change(old)
        sent = dict(new["metadata"])
        if put and sent.get("uid") and sent["uid"] != old.metadata["uid"]:
            text = f"Precondition failed: UID in precondition: {sent['uid']}, UID in object meta: {old.metadata['uid']}"
            raise self._conflict(call, text)
        if not call.subresource:
            for admission in self.admission:
                new = admission.mutate(call, old.body, new)
        version = str(sent.get("resourceVersion") or "")
        if version and version != old.metadata["resourceVersion"]:
            raise self._conflict(call, _LOCK)
        if call.subresource == "status":
            # The status subresource starts from the stored object, so a uid in the request is no precondition.
            status = {"status": new["status"]} if "status" in new else {}
            new = {**{name: value for name, value in old.body.items() if name != "status"}, **status}
            new = self._without_pruned(call.kind, new)
        else:
            new = self._settled(call, old, {**new, "metadata": sent if new["metadata"] is sent else new["metadata"]})
        if not call.subresource:
            for admission in self.admission:
                admission.validate(call, old.body, new)
        if new == old.body:
            if owners != old.owners and call.content_type == _APPLY:
                self.objects[call.kind][old.key] = replace(old, owners=owners)
            return old
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._remove(call, replace(old, body=new))
        return self._store(call, old, new, owners)

    def _settled(self, call: Call, old: Stored, new: Object) -> Object:
        """Return what is stored of an update of the object itself."""
        metadata = dict(new["metadata"])
        if metadata.get("uid") not in (None, "", old.metadata["uid"]):
            text = f'metadata.uid: Invalid value: "{metadata["uid"]}": field is immutable'
            raise RefusedError(422, "Invalid", f'{call.kind.resource.kind} "{call.name}" is invalid: {text}')
        metadata |= {name: old.metadata[name] for name in _KEPT if name in old.metadata}
        if "deletionTimestamp" not in old.metadata:
            metadata.pop("deletionTimestamp", None)
        metadata["resourceVersion"] = old.metadata["resourceVersion"]
        metadata.pop("managedFields", None)
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not metadata.get(name):
                metadata.pop(name, None)
        if call.kind.status:
            new = {name: value for name, value in new.items() if name != "status"}
            new |= {"status": old.body["status"]} if "status" in old.body else {}
        if call.kind.counts:
            changed = {**new, "metadata": 0} != {**old.body, "metadata": 0}
            metadata["generation"] = old.metadata["generation"] + (1 if changed else 0)
        return {**new, "metadata": metadata}

    def _delete(self, call: Call) -> bytes:
        old = self._existing(call)
        asked = call.body or {}
        for name, what in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = (asked.get("preconditions") or {}).get(name)
            if wanted and wanted != old.metadata[name]:
                text = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: "
                raise self._conflict(call, text + old.metadata[name])
        for admission in self.admission:
            admission.validate(call, old.body, None)
        finalizers = [name for name in old.metadata.get("finalizers") or () if name not in (_FOREGROUND, _ORPHAN)]
        extra = {"Foreground": [_FOREGROUND], "Orphan": [_ORPHAN]}.get(asked.get("propagationPolicy", ""), [])
        if not finalizers and not extra:
            self._remove(call, old)
            return orjson.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        metadata = {**old.metadata, "finalizers": [*finalizers, *extra]}
        if "deletionTimestamp" not in metadata:
            metadata |= {"deletionTimestamp": self._now(), "deletionGracePeriodSeconds": 0}
            if call.kind.counts:
                metadata["generation"] += 1
        if metadata == old.metadata:
            return old.raw
        return self._store(call, old, {**old.body, "metadata": metadata}, old.owners).raw

    def _without_pruned(self, kind: Kind, body: Object) -> Object:
        status, pruned = body.get("status"), self.pruned.get(kind.resource.plural)
        if not status or not pruned:
            return body
        return {**body, "status": {name: value for name, value in status.items() if name not in pruned}}

    def _store(self, call: Call, old: Stored | None, body: Object, owners: Owners) -> Stored:
        if call.query.get("dryRun") == "All":
            return Stored(call.kind, body, owners)
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        stored = Stored(call.kind, body, owners)
        self.objects.setdefault(call.kind, {})[stored.key] = stored
        self._tell(Event(self.version, old, stored, stored, call))
        return stored

    def _remove(self, call: Call, old: Stored) -> Stored:
        if call.query.get("dryRun") == "All":
            return old
        self.version += 1
        held = self.objects[call.kind].pop(old.key)
        last = replace(old, body={**old.body, "metadata": {**old.metadata, "resourceVersion": str(self.version)}})
        self._tell(Event(self.version, held, None, last, call))
        return last

    def _tell(self, event: Event) -> None:
        self.history.setdefault(event.last.kind, []).append(event)
        for listener in self.listeners:
            listener(event)

    def _owners(self, call: Call, old: Stored | None, new: Object) -> Owners:
        if not call.kind.owned:
            return {}
        before, body = (old.owners, old.body) if old is not None else ({}, None)
        return owned_after_update(before, body, new, _manager(call, "Update"))

    def _conflict(self, call: Call, text: str) -> RefusedError:
        what = f'Operation cannot be fulfilled on {call.kind.resource} "{call.name}"'
        return RefusedError(409, "Conflict", f"{what}: {text}")


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _manager(call: Call, operation: str) -> str:
    """Return the key of an entry of managedFields: what a client updates and what it applies are two managers."""
    name = call.query.get("fieldManager") or call.user or "unknown"
    return f"{name} {operation} {call.subresource}".strip()


def decode(
    method: str,
    path: str,
    query: Mapping[str, str],
    data: bytes | None,
    *,
    content_type: str = "",
    accept: str = "",
    user: str = "",
    kinds: Callable[[str, str], Kind | None] = kind_of,
) -> Call:
    """Return a request in the terms of the API server.

    Raises
    ------
    RefusedError
        With 404 where nothing is served.
    """
    kind, namespace, name, subresource = _addressed(path, kinds)
    if kind is None or (subresource and not (kind.status and subresource == "status")):
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    if method == "GET":
        verb = "get" if name else "watch" if query.get("watch") == "true" else "list"
    else:
        verb = _VERBS[method]
    body = orjson.loads(data) if data else None
    return Call(verb, kind, namespace, name, subresource, query, body, content_type, accept, user)


@functools.lru_cache(maxsize=4096)
def _addressed(path: str, kinds: Callable[[str, str], Kind | None]) -> tuple[Kind | None, str, str, str]:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    length = 2 if parts[0] == "api" else 3
    prefix, rest = "/" + "/".join(parts[:length]), parts[length:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    padded = [*rest, "", "", ""]
    return kinds(prefix, padded[0]), namespace, padded[1], padded[2]


def _line(call: Call, event: Event) -> bytes:
    """Return what a watch delivers of a write: its selection makes objects come and go."""
    if call.namespace and event.last.key[0] != call.namespace:
        return b""
    before = event.old is not None and selected(event.old.body, call.query)
    after = event.new is not None and selected(event.new.body, call.query)
    if not (before or after):
        return b""
    word = b"MODIFIED" if before and after else b"ADDED" if after else b"DELETED"
    if word == b"DELETED" and event.old is not None:
        metadata = {**event.old.metadata, "resourceVersion": str(event.version)}
        return b'{"type":"DELETED","object":' + orjson.dumps({**event.old.body, "metadata": metadata}) + b"}\n"
    return b'{"type":"' + word + b'","object":' + event.last.raw + b"}\n"
