"""Sources of a check: files, folders, globs and standard input, down to the single object."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard.checks.finding import Finding
from trainyard.policy.check.lines import Lines
from trainyard.policy.check.yaml_text import loaded
from trainyard.problem import TrainyardError

__all__ = ["STANDARD_INPUT", "Manifest", "SourceFile", "Sources", "read_sources"]

STANDARD_INPUT: Final = "standard input"
_ENDINGS: Final = (".yaml", ".yml", ".json")
_DEPTH: Final = 8
"""How deep Lists may lie in Lists."""


@dataclass(frozen=True)
class SourceFile:
    """One text.

    Parameters
    ----------
    name
        As it was given, which is how reports name it.
    text
        Its content.
    path
        The file, None for standard input.
    explicit
        Whether it was named itself and not found in a folder.
    """

    name: str
    text: str
    path: Path | None = None
    explicit: bool = True

    @cached_property
    def lines(self) -> Lines:
        """The lines of the text."""
        return Lines(self.text)


@dataclass(frozen=True)
class Manifest:
    """One object of a file.

    Parameters
    ----------
    source
        Where it stands.
    document
        Number of its document in the file.
    items
        Positions in the Lists around it.
    body
        The object.
    """

    source: SourceFile
    document: int
    items: tuple[int, ...]
    body: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata; empty where it is something else."""
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def group(self) -> str:
        """The object's API group; empty for the core."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name, or how its generated name begins."""
        name, prefix = self.metadata.get("name"), self.metadata.get("generateName")
        return name if isinstance(name, str) else f"{prefix}*" if isinstance(prefix, str) else ""

    @property
    def namespace(self) -> str | None:
        """The namespace that the object names; None where it names none."""
        namespace = self.metadata.get("namespace")
        return namespace if isinstance(namespace, str) and namespace else None

    def line(self, path: str = "") -> int:
        """Return the line of the object, or of one of its fields."""
        return self.source.lines.line(self.document, self.items, path)


@dataclass(frozen=True)
class Sources:
    """Everything that was read.

    Parameters
    ----------
    manifests
        Objects in the order of files and documents.
    faults
        Files that cannot be understood.
    notes
        What was passed over, and why.
    """

    manifests: tuple[Manifest, ...]
    faults: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    manifests: list[Manifest] = field(default_factory=list)
    faults: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, source: SourceFile, *, allow_no_objects: bool) -> None:
        found, foreign, fault = 0, 0, None
        try:
            for document, body in loaded(source.text, source.name):
                objects = list(_objects(source, document, (), body))
                found += len(objects)
                foreign += not objects and body is not None
                self.manifests += objects
        except yaml.YAMLError as error:
            fault = _fault(source, error)
        if fault and "{{" in source.text:
            self._skip(source, "is a template; check what it renders to", allow_no_objects=allow_no_objects)
        elif fault:
            self.faults.append(fault)
        elif not found:
            self._skip(source, "holds no Kubernetes object", allow_no_objects=allow_no_objects)
        elif foreign:
            are = "document is no Kubernetes object" if foreign == 1 else "documents are no Kubernetes objects"
            self.notes.append(f"{source.name}: {foreign} {are}")

    def _skip(self, source: SourceFile, reason: str, *, allow_no_objects: bool) -> None:
        if source.explicit and not allow_no_objects:
            raise TrainyardError(
                f"{source.name} {reason}",
                fix="name files that hold Kubernetes objects, or add --allow-no-objects to skip such files",
            )
        self.notes.append(f"{source.name} {reason}: passed over")


def read_sources(paths: Sequence[str], *, stdin: Callable[[], str], allow_no_objects: bool = False) -> Sources:
    """Read everything that some paths name.

    Parameters
    ----------
    paths
        Files, folders, globs; ``-`` for standard input.
    stdin
        Returns the text of standard input.
    allow_no_objects
        Whether files that are named themselves and hold no object are passed over.

    Raises
    ------
    TrainyardError
        A path names nothing, or something that holds no object.
    """
    reading = _Reading()
    seen: set[str] = set()
    for path in paths:
        if path == "-":
            reading.add(SourceFile(STANDARD_INPUT, stdin()), allow_no_objects=allow_no_objects)
            continue
        files = list(_files(path))
        for file, explicit in files:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                reading.add(SourceFile(_shown(file), _text(file), file, explicit), allow_no_objects=allow_no_objects)
        if not files:
            raise TrainyardError(
                f"{path} holds no {', '.join(_ENDINGS)} file", fix="check the path; hidden folders are not searched"
            )
    return Sources(tuple(reading.manifests), tuple(reading.faults), tuple(reading.notes))


def _files(path: str) -> Iterator[tuple[Path, bool]]:
    file = Path(path)
    if file.is_dir():
        yield from ((found, False) for found in _below(file))
    elif file.exists():
        yield file, True
    elif any(sign in path for sign in "*?["):
        for match in sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - the pattern may be absolute
            found = Path(match)
            yield from ((inner, False) for inner in (_below(found) if found.is_dir() else (found,)))
    else:
        raise TrainyardError(f"{path} does not exist", fix="check the path")


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        yield from (Path(root, name) for name in sorted(files) if name.lower().endswith(_ENDINGS))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TrainyardError(f"{file} cannot be read: {error.strerror}", fix="check the path") from error
    except UnicodeDecodeError as error:
        raise TrainyardError(f"{file} is not text in UTF-8", fix="give YAML or JSON files") from error


def _shown(file: Path) -> str:
    """Return the name of a file in reports: as seen from the working folder where it is below it."""
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are named
    return (absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else file).as_posix()


def _objects(source: SourceFile, document: int, items: tuple[int, ...], body: Any) -> Iterator[Manifest]:
    if not isinstance(body, dict):
        return
    version, kind, inner = body.get("apiVersion"), body.get("kind"), body.get("items")
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        return
    if kind.endswith("List") and isinstance(inner, list) and len(items) < _DEPTH:
        stamp = {} if kind == "List" else {"apiVersion": version, "kind": kind.removesuffix("List")}
        for position, item in enumerate(inner):
            if isinstance(item, dict):
                yield from _objects(source, document, (*items, position), {**stamp, **item})
        return
    yield Manifest(source, document, items, body)


def _fault(source: SourceFile, error: yaml.YAMLError) -> Finding:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    line = mark.line + 1 if mark else 1
    message = f"is not valid YAML: {problem} (line {line})"
    return Finding("", message, "correct the YAML", file=source.name, line=line)
