"""Load catalog folders: ``index.yaml`` and one file a version, ``<name>/<MAJOR.MINOR>.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import objects
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError
from trainyard.runtimes.catalog import Catalog, Deprecation, Runtime, RuntimeVersion
from trainyard.runtimes.folder import INDEX, LOCK, CatalogFolder, read_folder, version_file
from trainyard.runtimes.index import Index, IndexRuntime, IndexVersion, version_key
from trainyard.runtimes.version_checks import check_version

__all__ = ["load_catalog", "runtimes_of", "together", "version_findings"]


def load_catalog(
    folder: Path | Iterable[Path], include: Sequence[str] = ("*",), authored: Iterable[Runtime] = ()
) -> Catalog:
    """Read and check a catalog.

    Parameters
    ----------
    folder
        The folder of the catalog, or several; a runtime belongs to one of them.
    include
        Names of the runtimes wanted; ``*`` matches any text.
    authored
        Runtimes written in Python, beside those of the folders.

    Returns
    -------
    Catalog
        The wanted runtimes, by name.

    Raises
    ------
    TrainyardError
        A file cannot be read, is not what it must be, or was changed after its release; a name in `include` is not
        there; two folders hold one name. Every finding has its file and path.
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    problems: list[Finding] = []
    found: list[Runtime] = []
    for each in folders:
        if each.is_dir():
            found += runtimes_of(read_folder(each), problems)
        else:
            problems.append(Finding(str(each), "there is no such folder", "name a folder with an index.yaml"))
    for runtime in authored:
        problems += [problem for version in runtime.versions for problem in version_findings(version)]
        found.append(runtime)
    catalog = together(found, problems)
    if problems:
        raise TrainyardError("The runtime catalog has faults", findings=problems)
    names = [runtime.name for runtime in catalog.runtimes if runtime.versions]
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names) or "none"
            raise TrainyardError(f"There is no runtime {pattern!r} in the catalog", fix=f"use one of: {known}")
    return Catalog(
        tuple(each for each in catalog.runtimes if any(fnmatchcase(each.name, pattern) for pattern in include))
    )


def together(found: Iterable[Runtime], problems: list[Finding]) -> Catalog:
    """Return runtimes of several places as one catalog, by name; what two of them claim is a problem."""
    runtimes: dict[str, Runtime] = {}
    objects: dict[str, str] = {}
    for runtime in found:
        place = _place(runtime)
        if runtime.name in runtimes:
            message = f"runtime {runtime.name!r} is also in {_place(runtimes[runtime.name])}"
            problems.append(Finding(place, message, "give it another name"))
            continue
        runtimes[runtime.name] = runtime
        for name in (f"{runtime.name}-{each.version}" for each in runtime.versions):
            _claim(objects, name, place, problems)
        for name in runtime.plain_names:
            _claim(objects, name, place, problems)
    return Catalog(tuple(runtimes[name] for name in sorted(runtimes)))


def _claim(objects: dict[str, str], name: str, place: str, problems: list[Finding]) -> None:
    if name in objects:
        problems.append(Finding(place, f"the name {name!r} is also used in {objects[name]}", "use another name"))
    objects.setdefault(name, place)


def _place(runtime: Runtime) -> str:
    return str(runtime.versions[0].path.parent) if runtime.versions else f"runtime {runtime.name}"


def runtimes_of(folder: CatalogFolder, problems: list[Finding]) -> Iterator[Runtime]:
    """Yield the runtimes of one folder.

    Parameters
    ----------
    folder
        The texts of the folder.
    problems
        Receives what is wrong; a runtime of which a version cannot be read is left out.
    """
    document = _read(folder, INDEX, problems)
    if document is None:
        return
    try:
        index = Index.model_validate(document)
    except ValidationError as error:
        problems += [_index_problem(folder.path(INDEX), entry) for entry in error.errors()]
        return
    problems += _unlisted(folder, index)
    for name in sorted(index.runtimes):
        runtime = _runtime(folder, name, index.runtimes[name], problems)
        if runtime is not None:
            yield runtime


def _runtime(folder: CatalogFolder, name: str, entry: IndexRuntime, problems: list[Finding]) -> Runtime | None:
    versions = []
    for number in sorted(entry.versions, key=version_key):
        file = version_file(name, number)
        body = _read(folder, file, problems)
        if body is None:
            continue
        version = _version(name, number, body, folder.path(file), entry.versions[number])
        problems += version_findings(version)
        versions.append(version)
    if len(versions) != len(entry.versions):
        return None
    retired = {number: entry.retired[number] for number in sorted(entry.retired, key=version_key)}
    return Runtime(name, entry.owner, entry.summary, entry.alias, tuple(versions), entry.also_named, retired)


def version_findings(version: RuntimeVersion) -> list[Finding]:
    """Return what is wrong with a version, with its file before the path."""
    return [
        Finding(f"{version.path}: {each.path}", each.message, each.fix, each.rule) for each in check_version(version)
    ]


def _version(name: str, number: str, body: Mapping[str, Any], path: Path, entry: IndexVersion) -> RuntimeVersion:
    deprecated = None
    if entry.deprecated is not None:
        deprecated = Deprecation(entry.deprecated.since, entry.deprecated.remove_after)
    return RuntimeVersion(name, number, body, path, entry.released, entry.changes, deprecated)


def _read(folder: CatalogFolder, file: str, problems: list[Finding]) -> dict[str, Any] | None:
    path = str(folder.path(file))
    if file not in folder.texts:
        reason = folder.unreadable.get(file, "cannot be read: No such file or directory")
        problems.append(Finding(path, reason, "add the file or correct index.yaml"))
        return None
    try:
        # Versions are objects of Kubernetes; the index is not, and its unquoted numbers are faults.
        found = [load(folder.texts[file])] if file == INDEX else list(objects(folder.texts[file]))
    except InvalidYamlError as error:
        problems.append(Finding(path, f"is not one YAML document: {error.reason}", "correct it"))
        return None
    if len(found) > 1:
        problems.append(Finding(path, f"is not one YAML document but {len(found)}", "make a file of each"))
        return None
    if not found or not isinstance(found[0], dict):
        problems.append(Finding(path, "is not a mapping", "write one object"))
        return None
    document: dict[str, Any] = found[0]
    return document


def _unlisted(folder: CatalogFolder, index: Index) -> Iterator[Finding]:
    for file in sorted({*folder.texts, *folder.unreadable} - {INDEX, LOCK}):
        name, _, version = file.removesuffix(".yaml").partition("/")
        entry = index.runtimes.get(name)
        if entry is None or version not in entry.versions:
            fix = f"add {name} {version} to index.yaml with its changes"
            yield Finding(str(folder.path(file)), "is not in index.yaml", fix)


def _index_problem(path: Path, entry: Any) -> Finding:
    location = ".".join(str(part) for part in entry["loc"] if part != "[key]")
    value = entry.get("input")
    shown = "" if isinstance(value, dict) else f" (value: {value!r})"
    fix = 'quote versions ("1.0") and give every runtime owner, summary, versions'
    return Finding(f"{path}: {location}", f"{entry['msg'].removeprefix('Value error, ')}{shown}", fix)
