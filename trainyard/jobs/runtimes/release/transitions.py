"""Allowed transitions between two states of a catalog: additions, moved aliases, life cycle steps.

Verifies in review and CI that a change keeps the guarantees to users: a released version is immutable, it is removed no
earlier than guaranteed, and a name that jobs use keeps referring to a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from trainyard.api.constants import RELEASED_ANNOTATION
from trainyard.checks.finding import Finding
from trainyard.jobs.runtimes.catalog import Runtime, RuntimeVersion, VersionState, spec_hash
from trainyard.jobs.runtimes.folder import INDEX, CatalogFolder


@dataclass(frozen=True)
class Transitions:
    """Differences between two states.

    Parameters
    ----------
    said
        Allowed changes, one sentence each.
    findings
        Changes that are not allowed, with the file before the path.
    """

    said: tuple[str, ...]
    findings: tuple[Finding, ...]


def transitions(
    folder: CatalogFolder, before: Iterable[Runtime], after: Iterable[Runtime], *, today: date
) -> Transitions:
    """Compare two states of a catalog folder.

    Parameters
    ----------
    folder
        The current folder; part of the file names in findings.
    before, after
        Its previous and current runtimes.
    today
        The current day.
    """
    old, new = ({runtime.name: runtime for runtime in runtimes} for runtimes in (before, after))
    said: list[str] = []
    findings: list[Finding] = []
    for name in sorted({*old, *new}):
        for entry in _runtime(folder, old.get(name), new.get(name), today):
            if isinstance(entry, Finding):
                findings.append(entry)
            else:
                said.append(entry)
    return Transitions(tuple(said), tuple(findings))


def _runtime(folder: CatalogFolder, old: Runtime | None, new: Runtime | None, today: date) -> Iterator[Finding | str]:
    index = folder.path(INDEX)
    if old is None:
        assert new is not None  # noqa: S101
        yield f"{new.name} is new"
        yield from (f"{new.name} {each.version} is new ({each.state.value})" for each in new.versions)
        return
    path = f"{index}: runtimes.{old.name}"
    if new is None:
        if old.retired or any(each.released for each in old.versions):
            fix = f"restore the entry; retire its versions with trainyard runtimes retire {old.name} VERSION"
            yield Finding(path, "was removed, including the record of its versions", fix)
        else:
            yield f"{old.name} was removed before its release"
        return
    olds, news = ({each.version: each for each in runtime.versions} for runtime in (old, new))
    for number, version in olds.items():
        if number in news:
            yield from _version(version, news[number], path)
        else:
            yield from _gone(version, new, path, today)
    for number, since in old.retired.items():
        if new.retired.get(number) != since:
            yield Finding(f"{path}.retired.{number}", f"is no longer recorded as retired on {since}", "restore it")
    yield from (
        f"{new.name} {each.version} is new ({each.state.value})" for each in new.versions if each.version not in olds
    )
    yield from _names(old, new, path)


def _version(old: RuntimeVersion, new: RuntimeVersion, path: str) -> Iterator[Finding | str]:
    name, place = f"{old.name} {old.version}", f"{path}.versions.{old.version}"
    if old.released is None:
        if new.released is not None:
            yield f"{name} is released"
        elif old.body != new.body:
            yield f"{name} is a draft and has changed"
        if new.deprecated is not None and new.released is None:
            yield Finding(f"{place}.deprecated", "a draft cannot be deprecated", "remove it, or delete the draft")
        return
    if new.released != old.released:
        now = new.released or "nothing"
        yield Finding(
            f"{place}.released", f"was {old.released}, is {now}: a release date is immutable", "restore the date"
        )
    yield from _body(old, new)
    before, after = old.deprecated, new.deprecated
    if before is not None and after is not None:
        if after.remove_after < before.remove_after:
            message = f"is {after.remove_after}, but the version is guaranteed until {before.remove_after}"
            yield Finding(f"{place}.deprecated.removeAfter", message, "use that date or a later one")
        elif after.remove_after > before.remove_after:
            yield f"{name} is guaranteed until {after.remove_after}"
        if after.since != before.since:
            message = f"was {before.since}, is {after.since}"
            yield Finding(f"{place}.deprecated.since", message, "restore the date")
    elif after is not None:
        yield f"{name} is deprecated and may be removed after {after.remove_after}"
    elif before is not None:
        yield f"{name} is no longer deprecated"


def _body(old: RuntimeVersion, new: RuntimeVersion) -> Iterator[Finding]:
    then, now = (spec_hash(version.body.get("spec") or {}) for version in (old, new))
    fix = "restore it and make the change in a new version"
    if then != now:
        yield Finding(f"{new.path}: spec", f"had the hash {then}, has {now}: a released version was changed", fix)
    if _metadata(old.body) != _metadata(new.body):
        yield Finding(f"{new.path}: metadata", "labels or annotations of a released version were changed", fix)


def _metadata(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata") or {}
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != RELEASED_ANNOTATION
    }
    return {**metadata, "annotations": annotations}


def _gone(old: RuntimeVersion, new: Runtime, path: str, today: date) -> Iterator[Finding | str]:
    name, place = f"{old.name} {old.version}", f"{path}.versions.{old.version}"
    if old.state is VersionState.DRAFT:
        yield f"{name} was removed before its release"
        return
    if old.deprecated is None:
        fix = f"restore it, and first run: trainyard runtimes deprecate {name} --remove-after DATE"
        yield Finding(place, "was removed without having been deprecated", fix)
    elif today <= old.deprecated.remove_after:
        message = f"was removed, but is guaranteed until {old.deprecated.remove_after}"
        yield Finding(place, message, "restore it until that date has passed")
    elif old.version not in new.retired:
        fix = f"add retired: {{{old.version!r}: {today}}}, as trainyard runtimes retire does"
        yield Finding(place, "was removed, and its number is not recorded as retired", fix)
    else:
        yield f"{name} is retired"


def _names(old: Runtime, new: Runtime, path: str) -> Iterator[Finding | str]:
    for name in old.plain_names:
        if name not in new.plain_names and new.versions:
            yield Finding(
                f"{path}.alias", f"the name {name!r} no longer refers to a version", f"keep an alias for {name}"
            )
    if new.alias is not None:
        target = new.version(new.alias)
        if target.state is VersionState.DRAFT:
            fix = f"trainyard runtimes release {new.name} {new.alias}"
            yield Finding(f"{path}.alias", f"refers to the draft {new.alias}, which may still change", fix)
        if old.alias is None:
            yield f"{new.name} refers to {new.alias}"
        elif old.alias != new.alias:
            if target.state is VersionState.DEPRECATED:
                message = f"moved to {new.alias}, which is deprecated"
                yield Finding(f"{path}.alias", message, "use a version that is not deprecated")
            else:
                yield f"{new.name} refers to {new.alias} instead of {old.alias}"
    for name in new.also_named:
        if name not in old.also_named:
            yield f"{name} is a synonym of {new.name}"
