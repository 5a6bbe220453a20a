"""Life cycle of a version: release, alias, deprecation, retirement. Each step is a change of folder texts.

Every step rejects changes that would break users of the runtime, with a fix. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from trainyard.api.constants import RELEASED_ANNOTATION
from trainyard.checks.finding import Finding
from trainyard.checks.report.text import counted
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Runtime, RuntimeVersion, VersionState, spec_hash
from trainyard.jobs.runtimes.catalog_loader import runtimes_of
from trainyard.jobs.runtimes.folder import INDEX, CatalogFolder, version_file
from trainyard.jobs.runtimes.index import index_rank
from trainyard.manifests.text_edits import removed, with_value


@dataclass(frozen=True)
class LifecycleStep:
    """A life cycle step of a runtime.

    Parameters
    ----------
    before, after
        The folder before and after the step.
    said
        Description of the changes, one sentence each.
    """

    before: CatalogFolder
    after: CatalogFolder
    said: tuple[str, ...]

    def then(self, other: LifecycleStep) -> LifecycleStep:
        """Return this step followed by a step on its result."""
        return LifecycleStep(self.before, other.after, (*self.said, *other.said))


def find_runtime(folder: CatalogFolder, name: str) -> Runtime:
    """Return a runtime of a folder by a plain name.

    Raises
    ------
    TrainyardError
        It does not exist, or the folder has errors that prevent the change.
    """
    findings: list[Finding] = []
    found = {runtime.name: runtime for runtime in runtimes_of(folder, findings)}
    own = f"{folder.path(name)}/"
    own_findings = [each for each in findings if each.path.startswith((str(folder.path(INDEX)), own))]
    if own_findings:
        raise TrainyardError(f"Runtime {name!r} is invalid", findings=own_findings)
    named = found.get(name) or next((each for each in found.values() if name in each.also_named), None)
    if named is None:
        raise TrainyardError(
            f"Runtime {name!r} does not exist in {folder.root}", fix=f"use one of: {', '.join(sorted(found)) or 'none'}"
        )
    return named


def find_version(runtime: Runtime, version: str) -> RuntimeVersion:
    """Return a version of a runtime.

    Raises
    ------
    TrainyardError
        It has no such version.
    """
    try:
        return runtime.version(version)
    except KeyError:
        if version in runtime.retired:
            fix = "see the history of the repository, or make a new version with another number"
            raise TrainyardError(
                f"{runtime.name} {version} was retired on {runtime.retired[version]}", fix=fix
            ) from None
        known = ", ".join(each.version for each in runtime.versions) or "none"
        raise TrainyardError(f"{runtime.name} has no version {version!r}", fix=f"use one of: {known}") from None


def release(
    folder: CatalogFolder, name: str, version: str, *, today: date, changes: str | None = None, alias: bool = False
) -> LifecycleStep:
    """Release a version: its spec is immutable from then on.

    Parameters
    ----------
    folder
        The folder.
    name, version
        The version to release.
    today
        The day of the release.
    changes
        Changelog entry; if unset, that of the index.
    alias
        Whether to move the plain name to it.

    Raises
    ------
    TrainyardError
        It is already released, or does not exist.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.released is not None:
        raise TrainyardError(
            f"{name} {version} was released on {found.released}", fix="make the change in a new version: runtimes new"
        )
    digest = spec_hash(found.body["spec"])
    file = version_file(runtime.name, version)
    place = ("metadata", "annotations", RELEASED_ANNOTATION)
    texts: dict[str, str | None] = {
        file: with_value(folder.texts[file], place, digest, metadata_rank),
        INDEX: _index(folder, (runtime.name, "versions", version, "released"), today),
    }
    if changes is not None:
        edited = folder.with_texts(texts)
        texts[INDEX] = _index(edited, (runtime.name, "versions", version, "changes"), changes)
    step = LifecycleStep(
        folder, folder.with_texts(texts), (f"{runtime.name} {version} is released, its spec is {digest}",)
    )
    return step.then(move_alias(step.after, name, version)) if alias else step


def move_alias(folder: CatalogFolder, name: str, version: str) -> LifecycleStep:
    """Move the plain name of a runtime to a version.

    Raises
    ------
    TrainyardError
        The version is not released, is deprecated, or does not exist.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.state is VersionState.DRAFT:
        raise TrainyardError(
            f"{name} {version} is not released: jobs that use {name} would run on a draft, which may still change",
            fix=f"trainyard runtimes release {name} {version}",
        )
    if found.deprecated is not None:
        raise TrainyardError(
            f"{name} {version} is deprecated and may be removed after {found.deprecated.remove_after}",
            fix=f"use another version, or run: trainyard runtimes deprecate {name} {version} --withdraw",
        )
    if runtime.alias == version:
        return LifecycleStep(folder, folder, (f"{runtime.name} already refers to {version}",))
    before = f" instead of {runtime.alias}" if runtime.alias else ""
    after = folder.with_texts({INDEX: _index(folder, (runtime.name, "alias"), version)})
    return LifecycleStep(folder, after, (f"{runtime.name} refers to {version}{before}",))


def deprecate(folder: CatalogFolder, name: str, version: str, *, remove_after: date, today: date) -> LifecycleStep:
    """Deprecate a version: users are warned, with the date until which it is guaranteed.

    Parameters
    ----------
    folder
        The folder.
    name, version
        The version to deprecate.
    remove_after
        Guaranteed until.
    today
        The current day.

    Raises
    ------
    TrainyardError
        It is a draft, or the date is not in the future, or earlier than the one already announced.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.released is None:
        raise TrainyardError(f"{name} {version} is a draft, not a release", fix="delete the file and its index entry")
    if remove_after <= today:
        raise TrainyardError(
            f"--remove-after {remove_after} is not after today ({today}): users need time to migrate",
            fix="use a later date",
        )
    before = found.deprecated
    if before is not None and remove_after < before.remove_after:
        raise TrainyardError(
            f"{name} {version} is guaranteed until {before.remove_after}, {remove_after} is earlier",
            fix="use that date or a later one",
        )
    since = before.since if before else today
    entry = {"since": since, "removeAfter": remove_after}
    after = folder.with_texts({INDEX: _index(folder, (runtime.name, "versions", version, "deprecated"), entry)})
    said = [f"{runtime.name} {version} is deprecated since {since} and may be removed after {remove_after}"]
    if runtime.alias == version:
        said.append(f"{runtime.name} still refers to it: move the alias, or users of the alias are warned too")
    return LifecycleStep(folder, after, tuple(said))


def withdraw(folder: CatalogFolder, name: str, version: str) -> LifecycleStep:
    """Withdraw a deprecation.

    Raises
    ------
    TrainyardError
        The version is not deprecated, or does not exist.
    """
    runtime = find_runtime(folder, name)
    if find_version(runtime, version).deprecated is None:
        raise TrainyardError(f"{name} {version} is not deprecated", fix="omit --withdraw")
    path = ("runtimes", runtime.name, "versions", version, "deprecated")
    after = folder.with_texts({INDEX: removed(folder.texts[INDEX], path)})
    return LifecycleStep(folder, after, (f"{runtime.name} {version} is no longer deprecated",))


def retire(folder: CatalogFolder, name: str, version: str, *, today: date, users: Iterable[str]) -> LifecycleStep:
    """Retire a version: remove its file, and reserve its number.

    Parameters
    ----------
    folder
        The folder.
    name, version
        The version to retire.
    today
        The current day.
    users
        Unfinished TrainJobs that reference it by any name.

    Raises
    ------
    TrainyardError
        It is not deprecated, is still guaranteed or used, or its alias refers to it while other versions remain.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.deprecated is None:
        raise TrainyardError(
            f"{name} {version} is not deprecated: its users were not warned",
            fix=f"trainyard runtimes deprecate {name} {version} --remove-after DATE",
        )
    if today <= found.deprecated.remove_after:
        raise TrainyardError(
            f"{name} {version} is guaranteed until {found.deprecated.remove_after}, today is {today}",
            fix="wait until that date has passed",
        )
    others = [each.version for each in runtime.versions if each.version != version]
    if runtime.alias == version and others:
        raise TrainyardError(
            f"{name} refers to {version}: its users would have no version",
            fix=f"move the alias first: trainyard runtimes alias {name} {others[-1]}",
        )
    if named := sorted(set(users)):
        raise TrainyardError(
            f"{name} {version} is used by {counted(len(named), 'TrainJob')}",
            fix="wait until they finish, or use another version in them",
            findings=[Finding(job, f"references {' or '.join(runtime.names_of(version))}") for job in named],
        )
    index = removed(folder.texts[INDEX], ("runtimes", runtime.name, "versions", version))
    for field in ("alias", "alsoNamed") if runtime.alias == version else ():
        if field == "alias" or runtime.also_named:
            index = removed(index, ("runtimes", runtime.name, field))
    index = with_value(index, ("runtimes", runtime.name, "retired", version), today, index_rank)
    after = folder.with_texts({INDEX: index, version_file(runtime.name, version): None})
    return LifecycleStep(folder, after, (f"{runtime.name} {version} is retired",))


def _index(folder: CatalogFolder, path: tuple[str, ...], value: Any) -> str:
    return with_value(folder.texts[INDEX], ("runtimes", *path), value, index_rank)


def metadata_rank(path: tuple[str | int, ...], key: str) -> int:
    """Return the sort key of a key of an object or of its metadata."""
    order = ("apiVersion", "kind", "metadata", "spec") if not path else ("name", "labels", "annotations")
    return order.index(key) if key in order else len(order)
