"""Cache of one resource: never goes back in time, and holds our own writes once they are answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from trainyard.kube.resource import Key, Object, key_of, version_of

__all__ = ["Change", "Index", "Store"]

_LOG = logging.getLogger(__name__)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNNAMED: Key = ("", "")
Index = Callable[[Object], Iterable[str]]


@dataclass(frozen=True)
class Change:
    """One step of an object in the cache.

    Parameters
    ----------
    key
        Namespace and name.
    old
        The object before, None where it was not known.
    new
        The object after, None where it is gone.
    initial
        Whether it comes from a list and not from a watch: less urgent than what just happened.
    """

    key: Key
    old: Object | None
    new: Object | None
    initial: bool = False


class Store:
    """Objects by (namespace, name). Treat what it returns as read-only.

    A resourceVersion orders all versions of a resource, so an event or a response is taken in only if it is newer than
    what is held; ``observed`` is the version up to which the watch has told everything, so a late write response about
    an object that was deleted meanwhile is recognized too.

    Every method is total: an object that cannot be taken in (its metadata is odd, the transform or an index raises) is
    skipped, and an earlier version of it is dropped, because what is held is no longer true.

    Parameters
    ----------
    indexes
        Functions from an object to the index values it is found under.
    transform
        Applied to each object that is taken in, after managedFields and kubectl's last-applied annotation are dropped;
        keeps namespace, name and resourceVersion.
    name
        Name of the store in logs.

    Attributes
    ----------
    observed
        Version up to which everything is known.
    skipped
        The objects that are skipped now, by key, each with the error.
    skips
        How often an object was skipped.
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
        """Return an object, None where it is not known."""
        return self._objects.get((namespace, name))

    def keys(self) -> list[Key]:
        """Return all keys."""
        return list(self._objects)

    def indexed(self, index: str, value: str) -> list[Object]:
        """Return the objects found under an index value, by key."""
        return [self._objects[key] for key in sorted(self._entries[index].get(value, ()))]

    def keys_of(self, body: Object) -> set[Key]:
        """Return the key an object has here; nothing where it has none."""
        try:
            return {_named(body)}
        except Exception:
            return set()

    def put(self, body: Object, *, initial: bool = False) -> Change | None:
        """Take in an object of a list or of an ADDED or MODIFIED event; return None where it was no news."""
        key, version = _UNNAMED, 0
        try:
            key = _named(body)
            version = version_of(body)
            held = self._objects.get(key)
            if held is not None and version_of(held) >= version:
                return None
            if held is None and not initial and version <= self.observed:
                return None
            if initial and version <= (self._removed or {}).get(key, -1):
                return None
            kept = self._kept(body, key, version)
            values = [(index, value) for index, function in self._indexes.items() for value in set(function(kept))]
        except Exception as error:
            return self._skip(key, version, error)
        return self._set(key, kept, values, initial=initial)

    def fold(self, body: Object) -> Change | None:
        """Take in the response of our own write, unless the watch has already told what became of it."""
        return self.put(body)

    def remove(self, body: Object) -> Change | None:
        """Take in a DELETED event; return None where a newer object of that name is held, or none."""
        key = _UNNAMED
        try:
            key = _named(body)
            version = version_of(body)
        except Exception as error:
            return self._skip(key, 0, error)
        held = self._objects.get(key)
        self.skipped.pop(key, None)
        if self._removed is not None:
            self._removed[key] = version
        if held is None or version_of(held) > version:
            return None
        return self._drop(key)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Remember removals while a list is under way, so that its older objects do not come back."""
        self._removed = {}
        try:
            yield
        finally:
            self._removed = None

    def retain(self, listed: Iterable[Key], version: int) -> list[Change]:
        """After a complete list: drop what is not on it, objects written since the list excepted."""
        kept = set(listed)
        self.skipped = {key: why for key, why in self.skipped.items() if key in kept}
        gone = [key for key, body in self._objects.items() if key not in kept and version_of(body) <= version]
        return [self._drop(key) for key in gone]

    def clear(self) -> list[Change]:
        """Drop everything."""
        self.skipped.clear()
        return [self._drop(key) for key in list(self._objects)]

    def observe(self, version: int) -> None:
        """Note that everything up to this version has been told."""
        self.observed = max(self.observed, version)

    def _kept(self, body: Object, key: Key, version: int) -> Object:
        kept = _trimmed(body)
        if self._transform is None:
            return kept
        kept = self._transform(kept)
        if (_named(kept), version_of(kept)) != (key, version):
            raise ValueError("the transform changed namespace, name or resourceVersion")
        return kept

    def _skip(self, key: Key, version: int, error: Exception) -> Change | None:
        self.skips += 1
        why = f"{type(error).__name__}: {error}"
        if key not in self.skipped:
            _LOG.error("%s: object %s cannot be read and is skipped: %s", self._name, "/".join(key), why)
        self.skipped[key] = why
        if self._removed is not None:
            self._removed[key] = version
        return self._drop(key) if key in self._objects else None

    def _set(self, key: Key, body: Object, values: list[tuple[str, str]], *, initial: bool) -> Change:
        old = self._objects.get(key)
        self._unindex(key)
        self._objects[key] = body
        self.skipped.pop(key, None)
        if values:
            self._values[key] = values
        for index, value in values:
            self._entries[index].setdefault(value, set()).add(key)
        return Change(key, old, body, initial)

    def _drop(self, key: Key) -> Change:
        old = self._objects.pop(key)
        self._unindex(key)
        return Change(key, old, None)

    def _unindex(self, key: Key) -> None:
        for index, value in self._values.pop(key, ()):
            entries = self._entries[index][value]
            entries.discard(key)
            if not entries:
                del self._entries[index][value]


def _named(body: Object) -> Key:
    key = key_of(body)
    if not all(isinstance(part, str) for part in key):
        raise TypeError("metadata.namespace and metadata.name must be strings")
    return key


def _trimmed(body: Object) -> Object:
    """Return a copy without managed fields and kubectl's last-applied annotation, often half of an object."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    if "managedFields" not in metadata and _LAST_APPLIED not in annotations:
        return body
    metadata = {field: value for field, value in metadata.items() if field != "managedFields"}
    if _LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
    return {**body, "metadata": metadata}
