"""Installed runtimes: versions, aliases, deprecations, and the jobs that use them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import orjson

from trainyard.api.constants import FRAMEWORK_LABEL, SUPPORT_DEPRECATED, SUPPORT_LABEL
from trainyard.cluster_state.body_fields import Body, mapping, name_of, namespace_of, sequence, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.console.views.platform_view import JobRow, PlatformView

_VERSION: Final = re.compile(r"^(?P<name>.+)-(?P<version>\d+\.\d+)$")
_REMOVAL: Final = "trainyard.dev/remove-after"
_SHOWN: Final = 10


@dataclass(frozen=True)
class RuntimeRow:
    """One installed runtime.

    Parameters
    ----------
    name, namespace
        Its object; the namespace is empty for one of the cluster.
    version
        Its version, empty: the name has none.
    alias_of
        Version with the same spec that a plain name stands for; empty: none.
    aliases
        Plain names that stand for this version.
    framework
        Its framework.
    deprecated
        Whether it is deprecated.
    remove_after
        Guaranteed until.
    images
        Images of its containers.
    users
        Jobs that use it, unfinished ones first.
    more
        Number of users that are not listed.
    """

    name: str
    namespace: str
    version: str
    alias_of: str
    aliases: tuple[str, ...]
    framework: str
    deprecated: bool
    remove_after: str
    images: tuple[str, ...]
    users: tuple[JobRow, ...]
    more: int


def runtime_rows(view: PlatformView) -> list[RuntimeRow]:
    """Return the runtimes by name; those of namespaces last."""
    users: defaultdict[tuple[str, str], list[JobRow]] = defaultdict(list)
    for row in view.jobs:
        if row.runtime:
            reference = mapping(view.roots[row.key], "spec", "runtimeRef")
            namespace = row.namespace if text(reference, "kind") == "TrainingRuntime" else ""
            users[(namespace, row.runtime)].append(row)
    bodies = [*view.index.of(Kind.CLUSTER_RUNTIME), *view.index.of(Kind.RUNTIME)]
    specs: defaultdict[tuple[str, bytes], list[str]] = defaultdict(list)
    for body in bodies:
        specs[_spec(body)].append(name_of(body))
    rows = [_row(body, specs[_spec(body)], users[(namespace_of(body), name_of(body))]) for body in bodies]
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _spec(body: Body) -> tuple[str, bytes]:
    return namespace_of(body), orjson.dumps(mapping(body, "spec"), option=orjson.OPT_SORT_KEYS)


def _row(body: Body, equal: list[str], users: list[JobRow]) -> RuntimeRow:
    name = name_of(body)
    found = _VERSION.match(name)
    plain = [each for each in equal if not _VERSION.match(each) and mapping(body, "spec")]
    versions = [each for each in equal if (other := _VERSION.match(each)) and other["name"] == name]
    users = sorted(users, key=lambda row: (not row.needs_reason and row.state.value == "Complete", row.key))
    return RuntimeRow(
        name=name,
        namespace=namespace_of(body),
        version=found["version"] if found else "",
        alias_of=max(versions, default="", key=_number) if mapping(body, "spec") else "",
        aliases=tuple(sorted(plain)) if found else (),
        framework=text(body, "metadata", "labels", FRAMEWORK_LABEL),
        deprecated=text(body, "metadata", "labels", SUPPORT_LABEL) == SUPPORT_DEPRECATED,
        remove_after=text(body, "metadata", "annotations", _REMOVAL),
        images=tuple(dict.fromkeys(_images(body))),
        users=tuple(users[:_SHOWN]),
        more=max(0, len(users) - _SHOWN),
    )


def _number(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.rpartition("-")[2].split(".")))


def _images(body: Body) -> list[str]:
    found = []
    for part in sequence(body, "spec", "template", "spec", "replicatedJobs"):
        for container in sequence(part, "template", "spec", "template", "spec", "containers"):
            found.append(text(container, "image"))
    return [image for image in found if image]
