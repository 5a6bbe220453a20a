"""Listing of a catalog: one line per runtime, or the details of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.api.constants import FRAMEWORK_LABEL
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Catalog, Runtime, RuntimeVersion, spec_hash
from trainyard.jobs.runtimes.images.lock import images_of
from trainyard.manifests.text_edits import dumped


class Reference:
    """``NAME`` or ``NAME@VERSION``, resolved in a catalog.

    Parameters
    ----------
    catalog
        The catalog.
    text
        Name, synonym or object name of a runtime, with or without a version.

    Raises
    ------
    TrainyardError
        The runtime or version does not exist.
    """

    def __init__(self, catalog: Catalog, text: str) -> None:
        name, at, number = text.partition("@")
        self.runtime = _runtime(catalog, name)
        objects = {version.object_name: version.version for version in self.runtime.versions}
        self.whole = not at and name not in objects
        if not at:
            number = objects.get(name) or self.runtime.alias or _newest(self.runtime).version
        try:
            self.version = self.runtime.version(number)
        except KeyError:
            numbers = ", ".join(each.version for each in self.runtime.versions) or "none"
            raise TrainyardError(
                f"{self.runtime.name} has no version {number!r}", fix=f"use one of: {numbers}"
            ) from None

    @property
    def object_names(self) -> tuple[str, ...]:
        """Object names for TrainJobs: the plain names of a runtime, or all names of a version."""
        if self.whole and self.runtime.alias is not None:
            return self.runtime.plain_names
        return self.runtime.names_of(self.version.version)


def _runtime(catalog: Catalog, name: str) -> Runtime:
    for runtime in catalog.runtimes:
        objects = (version.object_name for version in runtime.versions)
        if name in (runtime.name, *runtime.also_named, *objects):
            return runtime
    known = ", ".join(runtime.name for runtime in catalog.runtimes) or "none"
    raise TrainyardError(f"Runtime {name!r} does not exist in the catalog", fix=f"use one of: {known}")


def _newest(runtime: Runtime) -> RuntimeVersion:
    if not runtime.versions:
        raise TrainyardError(f"Every version of {runtime.name} is retired", fix="see the history of the repository")
    return runtime.versions[-1]


def list_text(catalog: Catalog) -> str:
    """Return the runtimes of a catalog as a table."""
    rows = [("NAME", "ALIAS FOR", "VERSIONS", "FRAMEWORK", "OWNER", "SUMMARY")]
    for runtime in catalog.runtimes:
        versions = ", ".join(_state(version) for version in runtime.versions) or "all retired"
        name = ", ".join((runtime.name, *runtime.also_named))
        rows.append((name, runtime.alias or "-", versions, _framework(runtime), runtime.owner, runtime.summary))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]) for row in rows
    )


def list_json(catalog: Catalog) -> dict[str, Any]:
    """Return the runtimes of a catalog as JSON data."""
    return {"runtimes": [_runtime_json(runtime) for runtime in catalog.runtimes]}


def show_text(found: Reference) -> str:
    """Return the details of a runtime and of one of its versions, then the object."""
    runtime, version = found.runtime, found.version
    body = version.manifest()
    lines = [
        f"{runtime.name}: {runtime.summary}",
        f"owner: {runtime.owner}",
        f"names: {', '.join(runtime.names_of(version.version))}",
        f"spec: sha256 {spec_hash(body['spec'])}",
        "",
        "versions:",
        *(f"  {_state(each)}: {each.changes}" for each in reversed(runtime.versions)),
        *(f"  {number} (retired {since})" for number, since in reversed(list(runtime.retired.items()))),
        "",
        f"{version.object_name}:",
        *(f"  {line}" if line else "" for line in dumped(body).splitlines()),
    ]
    return "\n".join(lines)


def show_json(found: Reference) -> dict[str, Any]:
    """Return the details of a runtime, and the object of one of its versions, as JSON data."""
    version = found.version
    alone = Catalog((Runtime(version.name, "", "", None, (version,)),))
    return {
        **_runtime_json(found.runtime),
        "version": version.version,
        "names": list(found.runtime.names_of(version.version)),
        "images": list(images_of(alone)),
        "object": version.manifest(),
    }


def _state(version: RuntimeVersion) -> str:
    if version.deprecated is not None:
        return f"{version.version} (deprecated, until {version.deprecated.remove_after})"
    return version.version if version.released else f"{version.version} (draft)"


def _framework(runtime: Runtime) -> str:
    labels: Mapping[str, Any] = runtime.versions[-1].body["metadata"].get("labels", {}) if runtime.versions else {}
    return str(labels.get(FRAMEWORK_LABEL, "-"))


def _runtime_json(runtime: Runtime) -> dict[str, Any]:
    return {
        "name": runtime.name,
        "owner": runtime.owner,
        "summary": runtime.summary,
        "framework": _framework(runtime),
        "alias": runtime.alias,
        "alsoNamed": list(runtime.also_named),
        "versions": [
            {
                "version": version.version,
                "object": version.object_name,
                "state": version.state.value,
                "released": version.released.isoformat() if version.released else None,
                "removeAfter": version.deprecated.remove_after.isoformat() if version.deprecated else None,
                "changes": version.changes,
                "spec": spec_hash(version.body["spec"]),
                "file": str(version.path),
            }
            for version in runtime.versions
        ],
        "retired": {number: since.isoformat() for number, since in runtime.retired.items()},
    }
