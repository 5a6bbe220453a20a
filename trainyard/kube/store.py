"""A cache of one resource that never goes back in time and holds our own writes as soon as they are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainyard.kube.resource import Key, Object, key_of, version_of

__all__ = ["Change", "Index", "Store"]

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
    an object that was deleted meanwhile is recognised too.

    Parameters
    ----------
    indexes
        Functions from an object to the index values it is found under.
    transform
        Applied to each object that is taken in; by default managedFields are dropped.
    """

    def __init__(
        self, indexes: Mapping[str, Index] | None = None, transform: Callable[[Object], Object] | None = None
    ) -> None:
        self._objects: dict[Key, Object] = {}
        self._indexes = dict(indexes or {})
        self._entries: dict[str, dict[str, set[Key]]] = {name: {} for name in self._indexes}
        self._transform = transform or without_managed_fields
        self.observed = 0

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

    def put(self, body: Object, *, initial: bool = False) -> Change | None:
        """Take in an object of a list or of an ADDED or MODIFIED event; return None where it was no news."""
        version = version_of(body)
        held = self._objects.get(key_of(body))
        if held is not None and version_of(held) >= version:
            return None
        if held is None and not initial and version <= self.observed:
            return None
        return self._set(body, initial=initial)

    def fold(self, body: Object) -> Change | None:
        """Take in the response of our own write, unless the watch has already told what became of it."""
        return self.put(body)

    def remove(self, body: Object) -> Change | None:
        """Take in a DELETED event; return None where a newer object of that name is held, or none."""
        key = key_of(body)
        held = self._objects.get(key)
        if held is None or version_of(held) > version_of(body):
            return None
        return self._drop(key)

    def retain(self, listed: Iterable[Key], version: int) -> list[Change]:
        """After a complete list: drop what is not on it, objects written since the list excepted."""
        kept = set(listed)
        gone = [key for key, body in self._objects.items() if key not in kept and version_of(body) <= version]
        return [self._drop(key) for key in gone]

    def clear(self) -> list[Change]:
        """Drop everything."""
        return [self._drop(key) for key in list(self._objects)]

    def observe(self, version: int) -> None:
        """Note that everything up to this version has been told."""
        self.observed = max(self.observed, version)

    def _set(self, body: Object, *, initial: bool) -> Change:
        body = self._transform(body)
        key = key_of(body)
        old = self._objects.get(key)
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = body
        for name, function in self._indexes.items():
            for value in function(body):
                self._entries[name].setdefault(value, set()).add(key)
        return Change(key, old, body, initial)

    def _drop(self, key: Key) -> Change:
        old = self._objects.pop(key)
        self._unindex(key, old)
        return Change(key, old, None)

    def _unindex(self, key: Key, body: Object) -> None:
        for name, function in self._indexes.items():
            for value in function(body):
                entries = self._entries[name][value]
                entries.discard(key)
                if not entries:
                    del self._entries[name][value]


def without_managed_fields(body: Object) -> Object:
    """Drop metadata.managedFields, which are half of an object and nobody reads."""
    body["metadata"].pop("managedFields", None)
    return body
