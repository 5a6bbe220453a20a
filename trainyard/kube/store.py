"""Cache of one resource: versions never go back, and writes of this process are read back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from trainyard.kube.resource import Key, Object, key_of, version_of

_LOG = logging.getLogger(__name__)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNNAMED: Key = ("", "")
Index = Callable[[Object], Iterable[str]]


@dataclass(frozen=True)
class StoreChange:
    """One change of an object in the cache.

    Parameters
    ----------
    key
        Namespace and name.
    old
        Previous version; None if the object was added.
    new
        New version; None if the object was deleted.
    initial
        Whether it comes from a list instead of a watch, and is therefore less urgent.
    """

    key: Key
    old: Object | None
    new: Object | None
    initial: bool = False


class Store:
    """Objects by (namespace, name); returned objects are read-only.

    resourceVersions order all versions of a resource, so an event or a response is stored only if it is newer than the
    stored object. ``observed`` is the version up to which the watch has delivered all events, so a late write response
    for an object that was deleted meanwhile is ignored too.

    No method raises because of an object: an object that cannot be stored (invalid metadata, or the transform or an
    index raises) is skipped, and its stored version is dropped because it is stale.

    Parameters
    ----------
    indexes
        Functions that return the index values of an object.
    transform
        Applied to each object before it is stored, without managedFields and kubectl's last-applied annotation;
        must keep namespace, name and resourceVersion.
    name
        Name of the store in logs.

    Attributes
    ----------
    observed
        resourceVersion up to which all events were delivered.
    skipped
        Currently skipped objects by key, with their errors.
    skips
        Number of times an object was skipped.
    """

    def __init__(
        self,
        indexes: Mapping[str, Index] | None = None,
        transform: Callable[[Object], Object] | None = None,
        *,
        name: str = "store",
    ) -> None:
        self._objects: dict[Key, Object] = {}
        self._indexes = dict(indexes or {})
        self._entries: dict[str, dict[str, set[Key]]] = {index: {} for index in self._indexes}
        self._values: dict[Key, list[tuple[str, str]]] = {}
        self._transform = transform
        self._name = name
        self._removed: dict[Key, int] | None = None
        self.observed = 0
        self.skipped: dict[Key, str] = {}
        self.skips = 0

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> Object | None:
        """Return an object, or None if it is not stored."""
        return self._objects.get((namespace, name))

    def keys(self) -> list[Key]:
        """Return all keys."""
        return list(self._objects)

    def indexed(self, index: str, value: str) -> list[Object]:
        """Return the objects with an index value, ordered by key."""
        return [self._objects[key] for key in sorted(self._entries[index].get(value, ()))]

    def keys_of(self, body: Object) -> set[Key]:
        """Return the key of an object; empty if its metadata is invalid."""
        try:
            return {_checked_key(body)}
        except Exception:
            return set()

    def put(self, body: Object, *, initial: bool = False) -> StoreChange | None:
        """Store an object of a list or of an ADDED or MODIFIED event; return None if it is not newer."""
        key, version = _UNNAMED, 0
        try:
            key = _checked_key(body)
            version = version_of(body)
            stored = self._objects.get(key)
            if stored is not None and version_of(stored) >= version:
                return None
            if stored is None and not initial and version <= self.observed:
                return None
            if initial and version <= (self._removed or {}).get(key, -1):
                return None
            prepared = self._prepared(body, key, version)
            values = [(index, value) for index, function in self._indexes.items() for value in set(function(prepared))]
        except Exception as error:
            return self._skip(key, version, error)
        return self._set(key, prepared, values, initial=initial)

    def record_write(self, body: Object) -> StoreChange | None:
        """Store the response of a write of this process, unless the watch has already delivered a newer state."""
        return self.put(body)

    def remove(self, body: Object) -> StoreChange | None:
        """Process a DELETED event; return None if the object is not stored or a newer one of that name is."""
        key = _UNNAMED
        try:
            key = _checked_key(body)
            version = version_of(body)
        except Exception as error:
            return self._skip(key, 0, error)
        stored = self._objects.get(key)
        self.skipped.pop(key, None)
        if self._removed is not None:
            self._removed[key] = version
        if stored is None or version_of(stored) > version:
            return None
        return self._drop(key)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Record removals while a list is in progress, so that its stale objects are not stored again."""
        self._removed = {}
        try:
            yield
        finally:
            self._removed = None

    def retain(self, listed: Iterable[Key], version: int) -> list[StoreChange]:
        """Drop the objects missing from a complete list, except objects written after the list."""
        keys = set(listed)
        self.skipped = {key: why for key, why in self.skipped.items() if key in keys}
        gone = [key for key, body in self._objects.items() if key not in keys and version_of(body) <= version]
        return [self._drop(key) for key in gone]

    def clear(self) -> list[StoreChange]:
        """Drop all objects."""
        self.skipped.clear()
        return [self._drop(key) for key in list(self._objects)]

    def observe(self, version: int) -> None:
        """Record that all events up to this version were delivered."""
        self.observed = max(self.observed, version)

    def _prepared(self, body: Object, key: Key, version: int) -> Object:
        prepared = _trimmed(body)
        if self._transform is None:
            return prepared
        prepared = self._transform(prepared)
        if (_checked_key(prepared), version_of(prepared)) != (key, version):
            raise ValueError("the transform changed namespace, name or resourceVersion")
        return prepared

    def _skip(self, key: Key, version: int, error: Exception) -> StoreChange | None:
        self.skips += 1
        why = f"{type(error).__name__}: {error}"
        if key not in self.skipped:
            _LOG.error("%s: object %s is invalid and skipped: %s", self._name, "/".join(key), why)
        self.skipped[key] = why
        if self._removed is not None:
            self._removed[key] = version
        return self._drop(key) if key in self._objects else None

    def _set(self, key: Key, body: Object, values: list[tuple[str, str]], *, initial: bool) -> StoreChange:
        old = self._objects.get(key)
        self._unindex(key)
        self._objects[key] = body
        self.skipped.pop(key, None)
        if values:
            self._values[key] = values
        for index, value in values:
            self._entries[index].setdefault(value, set()).add(key)
        return StoreChange(key, old, body, initial)

    def _drop(self, key: Key) -> StoreChange:
        old = self._objects.pop(key)
        self._unindex(key)
        return StoreChange(key, old, None)

    def _unindex(self, key: Key) -> None:
        for index, value in self._values.pop(key, ()):
            entries = self._entries[index][value]
            entries.discard(key)
            if not entries:
                del self._entries[index][value]


def _checked_key(body: Object) -> Key:
    key = key_of(body)
    if not all(isinstance(part, str) for part in key):
        raise TypeError("metadata.namespace and metadata.name must be strings")
    return key


def _trimmed(body: Object) -> Object:
    """Return a copy without managedFields and kubectl's last-applied annotation, often half of an object's size."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    if "managedFields" not in metadata and _LAST_APPLIED not in annotations:
        return body
    metadata = {field: value for field, value in metadata.items() if field != "managedFields"}
    if _LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
    return {**body, "metadata": metadata}
