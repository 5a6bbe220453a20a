"""Scaffold of runtimes and versions: a draft copied from an existing one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainyard.api.constants import FRAMEWORK_LABEL, RELEASED_ANNOTATION, TORCHTUNE_MODEL_ANNOTATION, TRAINER
from trainyard.errors import TrainyardError
from trainyard.jobs.render.frameworks.torchtune import named_model
from trainyard.jobs.render.gangs import LISTED
from trainyard.jobs.runtimes.catalog import Catalog, Runtime, RuntimeVersion
from trainyard.jobs.runtimes.catalog_loader import runtimes_of, version_findings
from trainyard.jobs.runtimes.folder import INDEX, CatalogFolder, read_folder, version_file
from trainyard.jobs.runtimes.index import index_rank, version_key
from trainyard.jobs.runtimes.pods import containers_of, job_templates
from trainyard.jobs.runtimes.release.version_lifecycle import LifecycleStep, metadata_rank
from trainyard.manifests.text_edits import dumped, removed, with_value

GANGS: Final = (*(gang.name for gang in LISTED), "none")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 50
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_EMPTY_INDEX: Final = "runtimes: {}\n"


@dataclass(frozen=True)
class NewRuntime:
    """Options of a new version; None keeps the value of the copied version.

    Parameters
    ----------
    name
        Name of a new or existing runtime.
    version
        MAJOR.MINOR; if unset, 1.0 for a new runtime, else the next minor version.
    source
        The version to copy: ``NAME`` or ``NAME@VERSION``; if unset, the newest version of an existing runtime.
    framework
        Copy a shipped runtime of this framework instead.
    image
        Image of the training nodes.
    nodes
        Default number of nodes.
    gang
        One of `GANGS`.
    tier
        Highest tier of the fabric that a gang of Volcano may span.
    owner, summary
        For the index; unset: those of an existing runtime.
    changes
        Changelog entry.
    """

    name: str
    version: str | None = None
    source: str | None = None
    framework: str | None = None
    image: str | None = None
    nodes: int | None = None
    gang: str | None = None
    tier: int | None = None
    owner: str | None = None
    summary: str | None = None
    changes: str | None = None


def known_runtimes(folder: CatalogFolder, others: Iterable[Path]) -> Catalog:
    """Return the runtimes that may be copied: those of a folder, and of other folders."""
    found = _valid_runtimes(folder)
    for other in others:
        if other.is_dir() and other.resolve() != folder.root.resolve():
            found = {**_valid_runtimes(read_folder(other)), **found}
    return Catalog(tuple(found[name] for name in sorted(found)))


def _valid_runtimes(folder: CatalogFolder) -> dict[str, Runtime]:
    return {
        runtime.name: runtime
        for runtime in runtimes_of(folder, [])
        if not any(version_findings(version) for version in runtime.versions)
    }


def new_version(folder: CatalogFolder, wanted: NewRuntime, known: Catalog) -> LifecycleStep:
    """Add a draft to a folder.

    Parameters
    ----------
    folder
        The folder; may be empty.
    wanted
        Options of the version.
    known
        The runtimes that may be copied.

    Raises
    ------
    TrainyardError
        A name or number is invalid or taken, the source does not exist, or a value is invalid.
    """
    _check(wanted)
    before = folder
    if INDEX not in folder.texts:
        folder = folder.with_texts({INDEX: _EMPTY_INDEX})
    own = {runtime.name: runtime for runtime in runtimes_of(folder, [])}
    runtime = own.get(wanted.name)
    if runtime is None:
        _require_unused(wanted.name, known)
    version = wanted.version or _next(runtime)
    if runtime and (version in runtime.retired or any(each.version == version for each in runtime.versions)):
        raise TrainyardError(f"{wanted.name} {version} is taken", fix=f"use {_next(runtime)}")
    if runtime is None and not (wanted.owner and wanted.summary):
        raise TrainyardError(
            f"{wanted.name} is a new runtime, which requires an owner and a summary",
            fix="add --owner and --summary",
        )
    source = _source(wanted, runtime, known)
    text = _copied(source, wanted, version, folder)
    entry: dict[str, Any] = {"changes": wanted.changes or f"Copied from {source.name} {source.version}"}
    index = folder.texts[INDEX]
    path: tuple[str, ...] = ("runtimes", wanted.name)
    if runtime is None:
        value = {"owner": wanted.owner, "summary": wanted.summary, "versions": {version: entry}}
        index = with_value(index, path, value, index_rank)
    else:
        index = with_value(index, (*path, "versions", version), entry, index_rank)
        for field, given in (("owner", wanted.owner), ("summary", wanted.summary)):
            if given is not None:
                index = with_value(index, (*path, field), given, index_rank)
    file = version_file(wanted.name, version)
    summary = f"{folder.path(file)} is a draft, copied from {source.name} {source.version}"
    return LifecycleStep(before, folder.with_texts({file: text, INDEX: index}), (summary,))


def _check(wanted: NewRuntime) -> None:
    if not _NAME.fullmatch(wanted.name) or len(wanted.name) > _LONGEST:
        raise TrainyardError(
            f"{wanted.name!r} is not a valid runtime name",
            fix=f"use lower-case letters, digits, - and ., at most {_LONGEST} characters",
        )
    if wanted.version is not None and not _VERSION.fullmatch(wanted.version):
        raise TrainyardError(f"{wanted.version!r} is not a valid version", fix="use MAJOR.MINOR, such as 1.0")
    if wanted.gang is not None and wanted.gang not in GANGS:
        raise TrainyardError(f"Gang scheduler {wanted.gang!r} is not supported", fix=f"use one of {', '.join(GANGS)}")
    if wanted.nodes is not None and wanted.nodes < 1:
        raise TrainyardError(f"--nodes {wanted.nodes} is invalid", fix="use 1 or more")
    if wanted.tier is not None and wanted.tier < 1:
        raise TrainyardError(f"--tier {wanted.tier} is invalid", fix="use 1 (a rack) or more")
    if wanted.tier is not None and wanted.gang not in (None, "volcano"):
        raise TrainyardError(
            f"--tier requires the gang scheduler volcano, not {wanted.gang}", fix="remove one of the two options"
        )
    if wanted.source and wanted.framework:
        raise TrainyardError("--from and --framework are mutually exclusive", fix="remove one of the two options")


def _require_unused(name: str, known: Catalog) -> None:
    for runtime in known.runtimes:
        names = {runtime.name, *runtime.also_named, *(version.object_name for version in runtime.versions)}
        if name in names:
            raise TrainyardError(
                f"The name {name!r} is used by runtime {runtime.name} of another folder", fix="use another name"
            )


def _next(runtime: Runtime | None) -> str:
    numbers = [*(each.version for each in runtime.versions), *runtime.retired] if runtime else []
    if not numbers:
        return "1.0"
    major, minor = max(version_key(number) for number in numbers)
    return f"{major}.{minor + 1}"


def _source(wanted: NewRuntime, runtime: Runtime | None, known: Catalog) -> RuntimeVersion:
    if wanted.framework is not None:
        return _of_framework(wanted.framework, known)
    if wanted.source is None:
        if runtime is None or not runtime.versions:
            raise TrainyardError(f"{wanted.name} has no version to copy", fix="add --framework or --from")
        return runtime.versions[-1]
    name, _, version = wanted.source.partition("@")
    found = next((each for each in known.runtimes if name in (each.name, *each.also_named) and each.versions), None)
    if found is None:
        names = ", ".join(each.name for each in known.runtimes)
        raise TrainyardError(f"Runtime {name!r} does not exist", fix=f"use one of: {names}")
    number = version or found.alias or found.versions[-1].version
    try:
        return found.version(number)
    except KeyError:
        numbers = ", ".join(each.version for each in found.versions)
        raise TrainyardError(f"{name} has no version {number!r}", fix=f"use one of: {numbers}") from None


def _of_framework(framework: str, known: Catalog) -> RuntimeVersion:
    """Return the basic runtime of a framework: the one with upstream's name, else the one with the shortest name."""
    frameworks: dict[str, list[Runtime]] = {}
    for runtime in known.runtimes:
        if runtime.alias is not None:
            labels = runtime.version(runtime.alias).body["metadata"].get("labels", {})
            frameworks.setdefault(str(labels.get(FRAMEWORK_LABEL)), []).append(runtime)
    if framework not in frameworks:
        raise TrainyardError(
            f"No runtime of framework {framework!r} exists",
            fix=f"use one of: {', '.join(sorted(frameworks))}",
        )
    usual = f"{framework}-distributed"

    def rank(runtime: Runtime) -> tuple[bool, bool, int, str]:
        usually = usual in (runtime.name, *runtime.also_named)
        return not usually, not _is_gang_of_nodes(runtime), len(runtime.name), runtime.name

    plainest = min(frameworks[framework], key=rank)
    return plainest.version(str(plainest.alias))


def _is_gang_of_nodes(runtime: Runtime) -> bool:
    """Return whether a runtime gang-schedules its nodes without a topology constraint, as most jobs require."""
    spec = runtime.version(str(runtime.alias)).body["spec"]
    policy = spec.get("mlPolicy") or {}
    return "numNodes" in policy and not (spec.get("podGroupPolicy") or {}).get("volcano", {}).get("networkTopology")


def _copied(source: RuntimeVersion, wanted: NewRuntime, version: str, folder: CatalogFolder) -> str:
    text = _text_of(source, folder)
    if wanted.name != source.name and wanted.summary:
        text = f"# {wanted.summary}\n{_without_heading(text)}"
    text = with_value(text, ("metadata", "name"), f"{wanted.name}-{version}")
    annotations = source.body["metadata"].get("annotations", {})
    if RELEASED_ANNOTATION in annotations:
        gone = ("metadata", "annotations", RELEASED_ANNOTATION)
        text = removed(text, gone if len(annotations) > 1 else gone[:2])
    text = _with_model(text, source, wanted)
    for path in _images(source) if wanted.image else ():
        text = with_value(text, path, wanted.image)
    if wanted.nodes is not None:
        text = with_value(text, ("spec", "mlPolicy", "numNodes"), wanted.nodes)
    return _gang(text, source, wanted)


def _with_model(text: str, source: RuntimeVersion, wanted: NewRuntime) -> str:
    """Set torchtune's model if the name of the source implies it and the new name does not."""
    metadata = source.body["metadata"]
    stated = TORCHTUNE_MODEL_ANNOTATION in metadata.get("annotations", {})
    if stated or metadata.get("labels", {}).get(FRAMEWORK_LABEL) != "torchtune" or wanted.name == source.name:
        return text
    path = ("metadata", "annotations", TORCHTUNE_MODEL_ANNOTATION)
    return with_value(text, path, named_model(source.name), metadata_rank)


def _gang(text: str, source: RuntimeVersion, wanted: NewRuntime) -> str:
    if wanted.gang == "none":
        return removed(text, ("spec", "podGroupPolicy")) if "podGroupPolicy" in source.body["spec"] else text
    if wanted.gang is not None or wanted.tier is not None:
        gang = wanted.gang or "volcano"
        topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": wanted.tier}} if wanted.tier else {}
        return with_value(text, ("spec", "podGroupPolicy"), {gang: topology}, _spec_rank)
    return text


def _spec_rank(path: tuple[str | int, ...], key: str) -> int:
    order = ("mlPolicy", "podGroupPolicy", "template")
    return order.index(key) if key in order else len(order)


def _text_of(source: RuntimeVersion, folder: CatalogFolder) -> str:
    file = version_file(source.name, source.version)
    if file in folder.texts and source.path == folder.path(file):
        return folder.texts[file]
    try:
        return source.path.read_text(encoding="utf-8") if source.path.suffix == ".yaml" else dumped(dict(source.body))
    except OSError as error:
        raise TrainyardError(f"{source.path} cannot be read: {error.strerror}", fix="check the path") from error


def _without_heading(text: str) -> str:
    lines = text.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if not line.startswith("#") and line.strip()), 0)
    return "".join(lines[first:])


def _images(source: RuntimeVersion) -> list[tuple[str | int, ...]]:
    """Return the image paths of the training nodes: all jobs with the trainer's image."""
    jobs = list(job_templates(source.body))
    trainers = {
        container.get("image") for job in jobs if job.step == TRAINER for _, _, container in containers_of(job.pod)
    }
    pod = ("template", "spec", "template", "spec")
    return [
        ("spec", "template", "spec", "replicatedJobs", job.index, *pod, kind, number, "image")
        for job in jobs
        for kind, number, container in containers_of(job.pod)
        if "image" in container and container["image"] in trainers
    ]
