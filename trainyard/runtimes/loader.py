"""Reads catalogue folders: ``index.yaml`` and one file a version, ``<name>/<MAJOR.MINOR>.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainyard.problem import Problem, TrainyardError
from trainyard.runtimes.catalogue import Catalogue, Deprecation, Runtime, RuntimeVersion
from trainyard.runtimes.checks import check_version
from trainyard.runtimes.index import Index, IndexRuntime, IndexVersion

__all__ = ["load_catalogue"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_catalogue(folder: Path | Iterable[Path], include: Sequence[str] = ("*",)) -> Catalogue:
    """Read and check a catalogue.

    Parameters
    ----------
    folder
        The folder of the catalogue, or several; a runtime belongs to one of them.
    include
        Names of the runtimes wanted; ``*`` matches any text.

    Returns
    -------
    Catalogue
        The wanted runtimes, by name.

    Raises
    ------
    TrainyardError
        A file cannot be read, is not what it must be, or was changed after its release; a name in `include` is not
        there; two folders hold one name. Every finding has its file and path.
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    problems: list[Problem] = []
    runtimes: dict[str, Runtime] = {}
    for each in folders:
        for runtime in _folder(each, problems):
            if runtime.name in runtimes:
                message = f"runtime {runtime.name!r} is also in {runtimes[runtime.name].versions[0].path.parent}"
                problems.append(Problem(str(each / runtime.name), message, "give it another name"))
            runtimes.setdefault(runtime.name, runtime)
    if problems:
        raise TrainyardError("The runtime catalogue has faults", problems=problems)
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in runtimes):
            known = ", ".join(sorted(runtimes)) or "none"
            raise TrainyardError(f"There is no runtime {pattern!r} in the catalogue", fix=f"use one of: {known}")
    wanted = [name for name in sorted(runtimes) if any(fnmatchcase(name, pattern) for pattern in include)]
    return Catalogue(tuple(runtimes[name] for name in wanted))


def _folder(folder: Path, problems: list[Problem]) -> Iterator[Runtime]:
    path = folder / "index.yaml"
    if not folder.is_dir():
        problems.append(Problem(str(folder), "there is no such folder", "name a folder with an index.yaml"))
        return
    document = _read(path, problems)
    if document is None:
        return
    try:
        index = Index.model_validate(document)
    except ValidationError as error:
        problems += [_index_problem(path, entry) for entry in error.errors()]
        return
    problems += _unlisted(folder, index)
    for name in sorted(index.runtimes):
        runtime = _runtime(folder, name, index.runtimes[name], problems)
        if runtime is not None:
            yield runtime


def _runtime(folder: Path, name: str, entry: IndexRuntime, problems: list[Problem]) -> Runtime | None:
    versions = []
    for number in sorted(entry.versions, key=lambda text: tuple(int(part) for part in text.split("."))):
        path = folder / name / f"{number}.yaml"
        body = _read(path, problems)
        if body is None:
            continue
        version = _version(name, number, body, path, entry.versions[number])
        found = check_version(version)
        problems += [Problem(f"{path}: {each.path}", each.message, each.fix, each.rule) for each in found]
        versions.append(version)
    if len(versions) != len(entry.versions):
        return None
    return Runtime(name, entry.owner, entry.summary, entry.alias, tuple(versions))


def _version(name: str, number: str, body: Mapping[str, Any], path: Path, entry: IndexVersion) -> RuntimeVersion:
    deprecated = None
    if entry.deprecated is not None:
        deprecated = Deprecation(entry.deprecated.since, entry.deprecated.remove_after)
    return RuntimeVersion(name, number, body, path, entry.released, entry.changes, deprecated)


def _read(path: Path, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        document = yaml.load(path.read_text(), Loader=_LOADER)  # noqa: S506 - a safe loader
    except OSError as error:
        problems.append(Problem(str(path), f"cannot be read: {error.strerror}", "add the file or correct index.yaml"))
        return None
    except yaml.YAMLError as error:
        problems.append(Problem(str(path), f"is not one YAML document: {' '.join(str(error).split())}", "correct it"))
        return None
    if not isinstance(document, dict):
        problems.append(Problem(str(path), "is not a mapping", "write one object"))
        return None
    return document


def _unlisted(folder: Path, index: Index) -> Iterator[Problem]:
    for path in sorted(folder.glob("*/*.yaml")):
        entry = index.runtimes.get(path.parent.name)
        if entry is None or path.stem not in entry.versions:
            fix = f"add {path.parent.name} {path.stem} to index.yaml with its changes"
            yield Problem(str(path), "is not in index.yaml", fix)


def _index_problem(path: Path, entry: Any) -> Problem:
    location = ".".join(str(part) for part in entry["loc"] if part != "[key]")
    value = entry.get("input")
    shown = "" if isinstance(value, dict) else f" (value: {value!r})"
    fix = 'quote versions ("1.0") and give every runtime owner, summary, versions'
    return Problem(f"{path}: {location}", f"{entry['msg'].removeprefix('Value error, ')}{shown}", fix)
