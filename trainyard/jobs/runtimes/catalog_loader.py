"""Load catalog folders: ``index.yaml`` and one file per version, ``<name>/<MAJOR.MINOR>.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Catalog, Deprecation, Runtime, RuntimeVersion
from trainyard.jobs.runtimes.folder import INDEX, LOCK, CatalogFolder, read_folder, version_file
from trainyard.jobs.runtimes.index import Index, IndexRuntime, IndexVersion, version_key
from trainyard.jobs.runtimes.version_checks import check_version
from trainyard.manifests.documents import objects
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError


def load_catalog(
    folder: Path | Iterable[Path], include: Sequence[str] = ("*",), authored: Iterable[Runtime] = ()
) -> Catalog:
    """Load and validate a catalog.

    Parameters
    ----------
    folder
        One or more catalog folders; a runtime belongs to one of them.
    include
        Names of the runtimes to return; ``*`` matches any text.
    authored
        Runtimes authored in Python, in addition to those of the folders.

    Returns
    -------
    Catalog
        The included runtimes, by name.

    Raises
    ------
    TrainyardError
        A file cannot be read, is invalid, or was changed after its release; a name in `include` does not exist; two
        folders have the same name. Every finding has its file and path.
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    findings: list[Finding] = []
    found: list[Runtime] = []
    for each in folders:
        if each.is_dir():
            found += runtimes_of(read_folder(each), findings)
        else:
            findings.append(Finding(str(each), "this folder does not exist", "name a folder with an index.yaml"))
    for runtime in authored:
        findings += [finding for version in runtime.versions for finding in version_findings(version)]
        found.append(runtime)
    catalog = merged(found, findings)
    if findings:
        raise TrainyardError("The runtime catalog is invalid", findings=findings)
    names = [runtime.name for runtime in catalog.runtimes if runtime.versions]
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names) or "none"
            raise TrainyardError(f"Runtime {pattern!r} does not exist in the catalog", fix=f"use one of: {known}")
    return Catalog(
        tuple(each for each in catalog.runtimes if any(fnmatchcase(each.name, pattern) for pattern in include))
    )


def merged(found: Iterable[Runtime], findings: list[Finding]) -> Catalog:
    """Merge runtimes of several sources into one catalog, by name; name conflicts are findings."""
    runtimes: dict[str, Runtime] = {}
    objects: dict[str, str] = {}
    for runtime in found:
        place = _location(runtime)
        if runtime.name in runtimes:
            message = f"runtime {runtime.name!r} is also in {_location(runtimes[runtime.name])}"
            findings.append(Finding(place, message, "use another name"))
            continue
        runtimes[runtime.name] = runtime
        for name in (f"{runtime.name}-{each.version}" for each in runtime.versions):
            _check_unique(objects, name, place, findings)
        for name in runtime.plain_names:
            _check_unique(objects, name, place, findings)
    return Catalog(tuple(runtimes[name] for name in sorted(runtimes)))


def _check_unique(objects: dict[str, str], name: str, place: str, findings: list[Finding]) -> None:
    if name in objects:
        findings.append(Finding(place, f"the name {name!r} is also used in {objects[name]}", "use another name"))
    objects.setdefault(name, place)


def _location(runtime: Runtime) -> str:
    return str(runtime.versions[0].path.parent) if runtime.versions else f"runtime {runtime.name}"


def runtimes_of(folder: CatalogFolder, findings: list[Finding]) -> Iterator[Runtime]:
    """Yield the runtimes of one folder.

    Parameters
    ----------
    folder
        The folder.
    findings
        Collects errors; a runtime with an unreadable version is omitted.
    """
    document = _read(folder, INDEX, findings)
    if document is None:
        return
    try:
        index = Index.model_validate(document)
    except ValidationError as error:
        findings += [_index_finding(folder.path(INDEX), entry) for entry in error.errors()]
        return
    findings += _unlisted(folder, index)
    for name in sorted(index.runtimes):
        runtime = _runtime(folder, name, index.runtimes[name], findings)
        if runtime is not None:
            yield runtime


def _runtime(folder: CatalogFolder, name: str, entry: IndexRuntime, findings: list[Finding]) -> Runtime | None:
    versions = []
    for number in sorted(entry.versions, key=version_key):
        file = version_file(name, number)
        body = _read(folder, file, findings)
        if body is None:
            continue
        version = _version(name, number, body, folder.path(file), entry.versions[number])
        findings += version_findings(version)
        versions.append(version)
    if len(versions) != len(entry.versions):
        return None
    retired = {number: entry.retired[number] for number in sorted(entry.retired, key=version_key)}
    return Runtime(name, entry.owner, entry.summary, entry.alias, tuple(versions), entry.also_named, retired)


def version_findings(version: RuntimeVersion) -> list[Finding]:
    """Return the findings of a version, with its file before the path."""
    return [
        Finding(f"{version.path}: {each.path}", each.message, each.fix, each.rule) for each in check_version(version)
    ]


def _version(name: str, number: str, body: Mapping[str, Any], path: Path, entry: IndexVersion) -> RuntimeVersion:
    deprecated = None
    if entry.deprecated is not None:
        deprecated = Deprecation(entry.deprecated.since, entry.deprecated.remove_after)
    return RuntimeVersion(name, number, body, path, entry.released, entry.changes, deprecated)


def _read(folder: CatalogFolder, file: str, findings: list[Finding]) -> dict[str, Any] | None:
    path = str(folder.path(file))
    if file not in folder.texts:
        reason = folder.unreadable.get(file, "cannot be read: No such file or directory")
        findings.append(Finding(path, reason, "add the file or correct index.yaml"))
        return None
    try:
        # Versions are Kubernetes objects; the index is not, and its unquoted numbers are errors.
        found = [load(folder.texts[file])] if file == INDEX else list(objects(folder.texts[file]))
    except InvalidYamlError as error:
        findings.append(Finding(path, f"is not a single YAML document: {error.reason}", "correct it"))
        return None
    if len(found) > 1:
        findings.append(
            Finding(path, f"contains {len(found)} YAML documents instead of one", "use one file per document")
        )
        return None
    if not found or not isinstance(found[0], dict):
        findings.append(Finding(path, "is not a mapping", "write one object"))
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


def _index_finding(path: Path, entry: Any) -> Finding:
    location = ".".join(str(part) for part in entry["loc"] if part != "[key]")
    value = entry.get("input")
    shown = "" if isinstance(value, dict) else f" (value: {value!r})"
    fix = 'quote versions ("1.0") and give every runtime owner, summary, versions'
    return Finding(f"{path}: {location}", f"{entry['msg'].removeprefix('Value error, ')}{shown}", fix)
