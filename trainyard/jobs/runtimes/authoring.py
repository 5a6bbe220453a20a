"""Runtimes authored in Python instead of YAML: the same models and the same life cycle.

A release is locked as in a file: the author records the hash of the released spec, and a spec with another hash is
rejected.
"""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

from trainyard.api import ClusterTrainingRuntime
from trainyard.api.constants import FRAMEWORK_LABEL, RELEASED_ANNOTATION
from trainyard.api.runtime import RuntimeSpec
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Deprecation, Runtime, RuntimeVersion
from trainyard.jobs.runtimes.index import Index, version_key

_NAME: Final = "RUNTIMES"


@dataclass(frozen=True)
class Release:
    """Record of a release.

    Parameters
    ----------
    on
        Day of the release.
    spec
        SHA-256 of the spec on that day; ``trainyard runtimes show`` prints the hash of a draft.
    """

    on: date
    spec: str


@dataclass(frozen=True)
class AuthoredVersion:
    """One version of an authored runtime.

    Parameters
    ----------
    version
        MAJOR.MINOR.
    spec
        Models of the API, which validate every field.
    changes
        Changelog entry.
    release
        The release; None for a draft.
    deprecated
        The deprecation; None if not deprecated.
    labels, annotations
        Further labels and annotations of the object.
    """

    version: str
    spec: RuntimeSpec
    changes: str
    release: Release | None = None
    deprecated: Deprecation | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def author(
    name: str,
    *,
    framework: str,
    owner: str,
    summary: str,
    versions: Iterable[AuthoredVersion],
    alias: str | None = None,
    also_named: Iterable[str] = (),
    retired: Mapping[str, date] | None = None,
) -> Runtime:
    """Return a runtime in the catalog's model.

    Parameters
    ----------
    name
        Name without a version.
    framework
        Value of the framework label, by which the SDK lists runtimes.
    owner, summary, versions, alias, also_named, retired
        As in the index of a catalog folder; see ``docs/runtimes.md``.

    Raises
    ------
    TrainyardError
        A value is invalid; every finding has its path.
    """
    given = list(versions)
    places = inspect.stack()[1].filename
    entry = {
        "owner": owner,
        "summary": summary,
        "alias": alias,
        "alsoNamed": tuple(also_named),
        "versions": {each.version: _entry(each) for each in given},
        "retired": dict(retired or {}),
    }
    try:
        index = Index.model_validate({"runtimes": {name: entry}}).runtimes[name]
    except ValueError as error:
        findings = [
            Finding(".".join(map(str, found["loc"])), found["msg"].removeprefix("Value error, "))
            for found in getattr(error, "errors", list)()
        ]
        raise TrainyardError(f"Runtime {name!r} is invalid", findings=findings) from error
    if len(index.versions) != len(given):
        raise TrainyardError(f"Runtime {name!r} has a duplicate version", fix="use unique version numbers")
    ordered = sorted(given, key=lambda each: version_key(each.version))
    found = tuple(_version(name, framework, each, Path(places)) for each in ordered)
    return Runtime(name, owner, summary, alias, found, index.also_named, index.retired)


def _entry(version: AuthoredVersion) -> dict[str, Any]:
    entry: dict[str, Any] = {"changes": version.changes}
    if version.release is not None:
        entry["released"] = version.release.on
    if version.deprecated is not None:
        entry["deprecated"] = {"since": version.deprecated.since, "removeAfter": version.deprecated.remove_after}
    return entry


def _version(name: str, framework: str, version: AuthoredVersion, path: Path) -> RuntimeVersion:
    released = version.release
    annotations = {**version.annotations, **({RELEASED_ANNOTATION: released.spec} if released else {})}
    body = ClusterTrainingRuntime(spec=version.spec).body()
    metadata: dict[str, Any] = {
        "name": f"{name}-{version.version}",
        "labels": {FRAMEWORK_LABEL: framework, **version.labels},
    }
    if annotations:
        metadata["annotations"] = annotations
    typed = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
    return RuntimeVersion(
        name,
        version.version,
        {**typed, "metadata": metadata, "spec": body["spec"]},
        path,
        released.on if released else None,
        version.changes,
        version.deprecated,
    )


def read_authored(file: Path) -> tuple[Runtime, ...]:
    """Run a Python file and return the runtimes of its variable ``RUNTIMES``.

    Raises
    ------
    TrainyardError
        It fails, or does not define runtimes.
    """
    try:
        names = runpy.run_path(str(file))
    except OSError as error:
        raise TrainyardError(f"{file} cannot be read: {error.strerror}", fix="check the path") from error
    except TrainyardError as error:
        raise TrainyardError(f"{file}: {error.message}", fix=error.fix, findings=error.findings) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TrainyardError(f"{file} cannot be run: {reason}", fix="correct the file") from error
    found = names.get(_NAME)
    if not isinstance(found, list | tuple) or not all(isinstance(each, Runtime) for each in found):
        raise TrainyardError(
            f"{file} does not define {_NAME} as a list of runtimes made with trainyard.runtimes.author",
            fix=f"add {_NAME} = [...]",
        )
    return tuple(found)
