"""Reader of a legacy job that tracks which fields have been read.

Converters read every field by its path. Fields that no converter has read are noted as lost, so that none is dropped
silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.render.pod_editing import copied

Path = str | tuple[str | int, ...]
"""A dotted path, or a tuple if keys contain dots."""

_TYPES: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}
_LONGEST: Final = 60
_BRACKETED: Final = re.compile(r"^(?=[^./]*[./])[^\s\[\]\"\\]*$")
_QUOTED: Final = re.compile(r"[^\w-]")


class LegacySource:
    """One legacy object.

    Parameters
    ----------
    body
        The object; null values are unset, as in Kubernetes.

    Attributes
    ----------
    hosts
        First new host by host names of the object's pods, or by their beginnings before a number.
    """

    def __init__(self, body: Body) -> None:
        self.body: Body = copied(body)
        self.notes: list[FieldFinding] = []
        self.hosts: dict[str, str] = {}
        self._taken: set[tuple[str | int, ...]] = set()

    @property
    def label(self) -> str:
        """Kind, namespace and name, for messages."""
        metadata = self.body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name = metadata.get("name") or metadata.get("generateName") or ""
        return f"{self.body.get('kind')} {metadata.get('namespace') or 'default'}/{name}"

    def peek(self, path: Path) -> Any:
        """Return a value without marking it as read; None if unset."""
        value: Any = self.body
        for part in parts_of(path):
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return None
        return value

    def take(self, path: Path) -> Any:
        """Return a value and mark it as read."""
        self._taken.add(parts_of(path))
        return self.peek(path)

    def text(self, path: Path) -> str | None:
        """Read a string; empty is unset, as in the legacy APIs."""
        found: str | None = self._typed(path, str)
        if found == "":
            self.same(path, "empty, as if it were absent")
        return found

    def integer(self, path: Path, least: int = 0) -> int | None:
        """Read an integer with a minimum."""
        found: int | None = self._typed(path, int)
        if found is not None and found < least:
            raise self.malformed(path, f"must be {least} or more, but is {found}")
        return found

    def flag(self, path: Path) -> bool | None:
        """Read a boolean."""
        found: bool | None = self._typed(path, bool)
        return found

    def mapping(self, path: Path) -> Body:
        """Read an object; empty if unset."""
        return self._typed(path, dict) or {}

    def items(self, path: Path, kind: type = dict) -> list[Any]:
        """Read a list with items of one type; empty if unset."""
        found = self._typed(path, list) or []
        self._check_items(path, found, kind)
        return found

    def texts(self, path: Path) -> dict[str, str]:
        """Read an object with string values."""
        found = self.mapping(path)
        for key, value in found.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise self.malformed(path, f"must map text to text, but {shown(key)} is {shown(value)}")
        return found

    def keys(self, path: Path) -> list[str]:
        """Return the keys of an object, without marking its fields as read."""
        value = self.peek(path)
        if value is None:
            return []
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.malformed(path, f"must be an object, but is {shown(value)}")
        return list(value)

    def count(self, path: Path) -> int:
        """Return the length of a list of objects, without marking its items as read."""
        value = self.peek(path)
        if value is None:
            return 0
        if not isinstance(value, list):
            raise self.malformed(path, f"must be a list, but is {shown(value)}")
        self._check_items(path, value, dict)
        return len(value)

    def same(self, path: Path, message: str) -> None:
        """Note that a field carries over unchanged."""
        self._note(path, Fidelity.LOSSLESS, message, "")

    def changed(self, path: Path, message: str, fix: str = "") -> None:
        """Note that another field or mechanism replaces a field."""
        self._note(path, Fidelity.CHANGED, message, fix)

    def lost(self, path: Path, message: str, fix: str) -> None:
        """Note that a field is not supported."""
        self._note(path, Fidelity.LOST, message, fix)

    def forget(self, path: Path) -> None:
        """Remove the notes about a field, before another one is added."""
        text = dotted(parts_of(path))
        self.notes = [note for note in self.notes if note.path != text]

    def leave_out(self, paths: Sequence[Path], message: str) -> None:
        """Note fields of the stored legacy object that do not apply to new objects."""
        for path in paths:
            self.same(path, message)

    def malformed(self, path: Path, message: str) -> TrainyardError:
        """Return the error for a value that is invalid in the legacy API."""
        return TrainyardError(f"{self.label}: {dotted(path)} {message}", fix="correct the job")

    def finish(self) -> None:
        """Note all fields that have not been read as lost."""
        for path in self._left(self.body, (), _prefixes(self._taken)):
            self.lost(path, "is not known here", "see whether the new job needs it, and add it by hand")

    def _left(
        self, value: Any, path: tuple[str | int, ...], inner: set[tuple[str | int, ...]]
    ) -> Iterator[tuple[str | int, ...]]:
        if path in self._taken or value in ({}, []):
            return
        if path not in inner:
            yield path
            return
        if not isinstance(value, dict | list):
            raise self.malformed(path, f"must be an object, but is {shown(value)}")
        children: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            yield from self._left(child, (*path, key), inner)

    def _note(self, path: Path, fidelity: Fidelity, message: str, fix: str) -> None:
        self._taken.add(parts_of(path))
        value = self.peek(path)
        if value is not None:
            self.notes.append(FieldFinding.of(dotted(parts_of(path)), value, fidelity, message, fix))

    def _typed(self, path: Path, kind: type) -> Any:
        value = self.take(path)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.malformed(path, f"must be {_TYPES[kind]}, but is {shown(value)}")
        return value

    def _check_items(self, path: Path, found: list[Any], kind: type) -> None:
        for index, item in enumerate(found):
            if not isinstance(item, kind):
                raise self.malformed((*parts_of(path), index), f"must be {_TYPES[kind]}, but is {shown(item)}")


def dotted(path: Path) -> str:
    """Return a path in dotted notation."""
    if isinstance(path, str):
        return path
    text = ""
    for part in parts_of(path):
        if isinstance(part, int) or _BRACKETED.search(part):
            text += f"[{part}]"
        elif _QUOTED.search(part) or not part:
            text += f"[{json.dumps(part)}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def texts_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield all texts and keys of a value with their paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), str(key)
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*path, index))
    elif isinstance(value, str):
        yield path, value


def shown(value: Any) -> str:
    """Return a truncated representation of a value."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


@lru_cache(maxsize=4096)
def _split(path: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for name in path.split("."):
        name, *indexes = name.replace("]", "").split("[")
        parts.append(name)
        # A key of the job may contain anything; a path without a field leaves the field unread, and so it is noted.
        parts.extend(int(index) if index.isdecimal() else index for index in indexes)
    return tuple(parts)


def parts_of(path: Path) -> tuple[str | int, ...]:
    """Return the segments of a path."""
    return _split(path) if isinstance(path, str) else path


def _prefixes(paths: Iterable[tuple[str | int, ...]]) -> set[tuple[str | int, ...]]:
    return {path[:length] for path in paths for length in range(len(path))}
