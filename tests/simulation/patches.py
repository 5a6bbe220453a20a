"""What patches do to an object: merge patches, JSON patches, and the fields that server-side apply owns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]
Owners = Mapping[str, frozenset[Path]]
"""Field paths by field manager."""
_KEYS = {"conditions": "type", "ownerReferences": "uid", "tolerations": None}
"""Lists merged by another key than the name, and lists that are replaced as a whole."""
_IDENTITY = {("apiVersion",), ("kind",), *(("metadata", name) for name in ("name", "namespace", "uid"))}
_SYSTEM = {("metadata", name) for name in ("resourceVersion", "generation", "creationTimestamp", "managedFields")}


class PatchError(Exception):
    """A JSON patch cannot be applied, or other managers own applied fields."""


def merged(target: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def json_patched(target: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a JSON patch (RFC 6902: add, remove, replace, test).

    Raises
    ------
    PatchError
        If a path does not exist or a test fails.
    """
    result: Any = dict(target)
    for operation in operations:
        path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        result = _operated(result, path, operation)
    return dict(result)


def _operated(target: Any, path: Sequence[str], operation: Mapping[str, Any]) -> Any:
    head, *rest = path
    copy: Any = list(target) if isinstance(target, list) else dict(target) if isinstance(target, Mapping) else None
    if copy is None:
        raise PatchError(f"{operation['path']} does not exist")
    key: Any = head if not isinstance(copy, list) else len(copy) if head == "-" else int(head)
    exists = 0 <= key < len(copy) if isinstance(copy, list) else key in copy
    if rest:
        if not exists:
            raise PatchError(f"{operation['path']} does not exist")
        copy[key] = _operated(copy[key], rest, operation)
        return copy
    verb = operation["op"]
    if verb == "test":
        if not exists or copy[key] != operation["value"]:
            raise PatchError(f"testing value {operation['path']} failed")
    elif verb == "add":
        if isinstance(copy, list):
            copy.insert(key, operation["value"])
        else:
            copy[key] = operation["value"]
    elif not exists:
        raise PatchError(f"{operation['path']} does not exist")
    elif verb == "replace":
        copy[key] = operation["value"]
    else:
        del copy[key]
    return copy


def apply(
    live: Mapping[str, Any] | None, owners: Owners, applied: Mapping[str, Any], manager: str, *, force: bool
) -> tuple[dict[str, Any], Owners]:
    """Return an object and its field owners after a server-side apply.

    Raises
    ------
    PatchError
        If another manager owns a field that would change and the apply is not forced.
    """
    wanted = dict(_leaves(applied))
    mine = frozenset(wanted) - _IDENTITY - _SYSTEM
    if live is None:
        return dict(applied), {manager: mine}
    held = dict(_leaves(live))
    changed = {path for path in mine if held.get(path, _ABSENT) != wanted[path]}
    others = {name: paths for name, paths in owners.items() if name != manager}
    conflicts = {name: changed & paths for name, paths in others.items() if changed & paths}
    if conflicts and not force:
        names = ", ".join(sorted(f'"{name}"' for name in conflicts))
        count = sum(map(len, conflicts.values()))
        raise PatchError(f"Apply failed with {count} conflict(s): conflicts with {names}")
    others = {name: paths - changed for name, paths in others.items()}
    kept = frozenset().union(*others.values())
    dropped = owners.get(manager, frozenset()) - mine - kept
    result = _without(live, dropped)
    return dict(_combined(result, applied)), {**others, manager: mine}


def owned_after_update(owners: Owners, old: Mapping[str, Any] | None, new: Mapping[str, Any], manager: str) -> Owners:
    """Return the field owners after a create, update or patch that was not an apply."""
    before, after = dict(_leaves(old or {})), dict(_leaves(new))
    changed = frozenset(path for path, value in after.items() if before.get(path, _ABSENT) != value)
    changed -= _IDENTITY | _SYSTEM
    gone = before.keys() - after.keys()
    result = {name: paths - changed - gone for name, paths in owners.items()}
    result[manager] = result.get(manager, frozenset()) | changed
    return result


_ABSENT = object()


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif (key := _list_key(value, path)) is not None:
        for inner in value:
            yield from _leaves(inner, (*path, f"{key}={inner[key]}"))
    else:
        yield path, value


def _list_key(value: Any, path: Path) -> str | None:
    """Return the key of a list that is merged entry by entry."""
    if not isinstance(value, list) or not value or not all(isinstance(entry, Mapping) for entry in value):
        return None
    key = _KEYS.get(path[-1], "name") if path else None
    return key if key is not None and all(key in entry for entry in value) else None


def _combined(live: Any, applied: Any, path: Path = ()) -> Any:
    if isinstance(live, Mapping) and isinstance(applied, Mapping):
        both = {name: _combined(live.get(name), value, (*path, name)) for name, value in applied.items()}
        return {**live, **both}
    key = _list_key(applied, path)
    if key is not None and _list_key(live, path) == key:
        by_key = {entry[key]: entry for entry in live}
        for entry in applied:
            by_key[entry[key]] = _combined(by_key.get(entry[key]), entry, (*path, f"{key}={entry[key]}"))
        return list(by_key.values())
    return applied


def _without(value: Any, dropped: frozenset[Path], path: Path = ()) -> Any:
    """Return a value without some of its leaves; what becomes empty by that goes too."""
    if not dropped:
        return value
    if isinstance(value, Mapping) and value:
        kept = {}
        for name, inner in value.items():
            inner_path = (*path, name)
            if inner_path in dropped:
                continue
            rest = _without(inner, dropped, inner_path)
            if rest != inner and rest in ({}, []):
                continue
            kept[name] = rest
        return kept
    if (key := _list_key(value, path)) is not None:
        entries = [_without(entry, dropped, (*path, f"{key}={entry[key]}")) for entry in value]
        return [entry for entry in entries if entry]
    return value
