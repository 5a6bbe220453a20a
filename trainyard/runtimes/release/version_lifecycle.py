"""Life cycle of a version: released, aliased, deprecated, retired. Each step is a change of folder texts.

Every step refuses what users of the runtime would suffer from, and says what to do instead. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.runtimes.catalog import RELEASED_ANNOTATION, Runtime, RuntimeVersion, State, spec_hash
from trainyard.runtimes.catalog_loader import runtimes_of
from trainyard.runtimes.folder import INDEX, CatalogFolder, version_file
from trainyard.runtimes.index import index_rank
from trainyard.runtimes.yaml_text import removed, with_value

__all__ = [
    "Step",
    "deprecate",
    "find_runtime",
    "find_version",
    "metadata_rank",
    "move_alias",
    "release",
    "retire",
    "withdraw",
]


@dataclass(frozen=True)
class Step:
    """A step in the life of a runtime.

    Parameters
    ----------
    before, after
        The folder without and with it.
    said
        What was done, one sentence each.
    """

    before: CatalogFolder
    after: CatalogFolder
    said: tuple[str, ...]

    def then(self, other: Step) -> Step:
        """Return this step and one that was made from its result."""
        return Step(self.before, other.after, (*self.said, *other.said))


def find_runtime(folder: CatalogFolder, name: str) -> Runtime:
    """Return a runtime of a folder, by one of its plain names.

    Raises
    ------
    TrainyardError
        It is not there, or the folder has faults that stand in the way of changing it.
    """
    findings: list[Finding] = []
    found = {runtime.name: runtime for runtime in runtimes_of(folder, findings)}
    own = f"{folder.path(name)}/"
    standing = [each for each in findings if each.path.startswith((str(folder.path(INDEX)), own))]
    if standing:
        raise TrainyardError(f"Runtime {name!r} has faults", findings=standing)
    named = found.get(name) or next((each for each in found.values() if name in each.also_named), None)
    if named is None:
        raise TrainyardError(
            f"There is no runtime {name!r} in {folder.root}", fix=f"use one of: {', '.join(sorted(found)) or 'none'}"
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
            fix = "it is in the history of the repository; make a new version with another number"
            raise TrainyardError(
                f"{runtime.name} {version} was retired on {runtime.retired[version]}", fix=fix
            ) from None
        known = ", ".join(each.version for each in runtime.versions) or "none"
        raise TrainyardError(f"{runtime.name} has no version {version!r}", fix=f"use one of: {known}") from None


def release(
    folder: CatalogFolder, name: str, version: str, *, today: date, changes: str | None = None, alias: bool = False
) -> Step:
    """Release a version: its spec is final from then on.

    Parameters
    ----------
    folder
        The folder.
    name, version
        What is released.
    today
        The day of the release.
    changes
        What it brings, for the changelog; what the index says already when absent.
    alias
        Whether the plain name stands for it from then on.

    Raises
    ------
    TrainyardError
        It is released already, or is not there.
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
    step = Step(folder, folder.with_texts(texts), (f"{runtime.name} {version} is released, its spec is {digest}",))
    return step.then(move_alias(step.after, name, version)) if alias else step


def move_alias(folder: CatalogFolder, name: str, version: str) -> Step:
    """Let the plain name of a runtime stand for a version.

    Raises
    ------
    TrainyardError
        The version is not released, or deprecated, or is not there.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.state is State.DRAFT:
        raise TrainyardError(
            f"{name} {version} is not released: jobs that name {name} would run on something that may change",
            fix=f"trainyard runtimes release {name} {version}",
        )
    if found.deprecated is not None:
        raise TrainyardError(
            f"{name} {version} is deprecated and goes after {found.deprecated.remove_after}",
            fix=f"name a version that stays, or take it back: trainyard runtimes deprecate {name} {version} --withdraw",
        )
    if runtime.alias == version:
        return Step(folder, folder, (f"{runtime.name} stands for {version} already",))
    before = f", and no longer for {runtime.alias}" if runtime.alias else ""
    after = folder.with_texts({INDEX: _index(folder, (runtime.name, "alias"), version)})
    return Step(folder, after, (f"{runtime.name} stands for {version}{before}",))


def deprecate(folder: CatalogFolder, name: str, version: str, *, remove_after: date, today: date) -> Step:
    """Deprecate a version: its users are warned, with its guaranteed-until date.

    Parameters
    ----------
    folder
        The folder.
    name, version
        What is deprecated.
    remove_after
        The last day on which it stays for sure.
    today
        The current day.

    Raises
    ------
    TrainyardError
        It is no release, the day is not in the future, or earlier than what users were told before.
    """
    runtime = find_runtime(folder, name)
    found = find_version(runtime, version)
    if found.released is None:
        raise TrainyardError(f"{name} {version} is a draft, not a release", fix="delete the file and its index entry")
    if remove_after <= today:
        raise TrainyardError(
            f"--remove-after {remove_after} is not after today ({today}): users need time to move",
            fix="name a later day",
        )
    before = found.deprecated
    if before is not None and remove_after < before.remove_after:
        raise TrainyardError(
            f"{name} {version} was promised until {before.remove_after}, {remove_after} is earlier",
            fix="name that day or a later one",
        )
    since = before.since if before else today
    entry = {"since": since, "removeAfter": remove_after}
    after = folder.with_texts({INDEX: _index(folder, (runtime.name, "versions", version, "deprecated"), entry)})
    said = [f"{runtime.name} {version} is deprecated since {since} and may be removed after {remove_after}"]
    if runtime.alias == version:
        said.append(f"{runtime.name} still stands for it: move the alias, else its users are told too")
    return Step(folder, after, tuple(said))


def withdraw(folder: CatalogFolder, name: str, version: str) -> Step:
    """Take a deprecation back.

    Raises
    ------
    TrainyardError
        The version is not deprecated, or is not there.
    """
    runtime = find_runtime(folder, name)
    if find_version(runtime, version).deprecated is None:
        raise TrainyardError(f"{name} {version} is not deprecated", fix="leave --withdraw out")
    path = ("runtimes", runtime.name, "versions", version, "deprecated")
    after = folder.with_texts({INDEX: removed(folder.texts[INDEX], path)})
    return Step(folder, after, (f"{runtime.name} {version} is no longer deprecated",))


def retire(folder: CatalogFolder, name: str, version: str, *, today: date, users: Iterable[str]) -> Step:
    """Retire a version: its file goes, its number stays taken.

    Parameters
    ----------
    folder
        The folder.
    name, version
        What is retired.
    today
        The current day.
    users
        The TrainJobs that are not over and name it, whatever by.

    Raises
    ------
    TrainyardError
        It was not deprecated, is promised for longer, is used, or its plain name stands for it while others remain.
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
            f"{name} {version} was promised until {found.deprecated.remove_after}, today is {today}",
            fix="wait until that day is over",
        )
    others = [each.version for each in runtime.versions if each.version != version]
    if runtime.alias == version and others:
        raise TrainyardError(
            f"{name} stands for {version}: its users would be left with nothing",
            fix=f"move the alias first: trainyard runtimes alias {name} {others[-1]}",
        )
    if named := sorted(set(users)):
        raise TrainyardError(
            f"{name} {version} is used by {len(named)} TrainJob{'' if len(named) == 1 else 's'}",
            fix="let them end, or have their owners name another version",
            findings=[Finding(job, f"names {' or '.join(runtime.names_of(version))}") for job in named],
        )
    index = removed(folder.texts[INDEX], ("runtimes", runtime.name, "versions", version))
    for field in ("alias", "alsoNamed") if runtime.alias == version else ():
        if field == "alias" or runtime.also_named:
            index = removed(index, ("runtimes", runtime.name, field))
    index = with_value(index, ("runtimes", runtime.name, "retired", version), today, index_rank)
    after = folder.with_texts({INDEX: index, version_file(runtime.name, version): None})
    return Step(folder, after, (f"{runtime.name} {version} is retired",))


def _index(folder: CatalogFolder, path: tuple[str, ...], value: Any) -> str:
    return with_value(folder.texts[INDEX], ("runtimes", *path), value, index_rank)


def metadata_rank(path: tuple[str | int, ...], key: str) -> int:
    """Return what the keys of an object and of its metadata are sorted by."""
    order = ("apiVersion", "kind", "metadata", "spec") if not path else ("name", "labels", "annotations")
    return order.index(key) if key in order else len(order)
