"""Hosts of legacy jobs that other objects of the input name: pods of a second job, and texts of a ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.source import dotted
from trainyard.jobs.convert.variables import texts_with_hosts

_NAME: Final = re.compile(r"(?<![\w.-])(?<![^/]/)([a-z0-9][a-z0-9-]*)((?:\.[a-z0-9-]+)*)")
_INDEX: Final = re.compile(r"(?<=-)\d+$")
_VARIABLE: Final = tuple("$%{<*([")
_FIELDS: Final = ("spec", "data", "stringData")


@dataclass(frozen=True)
class _Host:
    """A host name of a legacy job.

    Parameters
    ----------
    job
        Position of the job among the conversions.
    namespace
        Namespace of the job.
    new
        Name of the first new host.
    """

    job: int
    namespace: str
    new: str


def note_other_hosts(bodies: Sequence[Body], conversions: Sequence[Conversion]) -> list[Conversion]:
    """Return the conversions with notes about hosts of a job that another object names.

    Parameters
    ----------
    bodies
        The objects of the input.
    conversions
        Their conversions, in the same order.
    """
    noted = list(conversions)
    hosts: dict[str, list[_Host]] = {}
    for position, (body, conversion) in enumerate(zip(bodies, conversions, strict=True)):
        for old, new in conversion.hosts.items():
            hosts.setdefault(old, []).append(_Host(position, _namespace(body), new))
    for position, body in enumerate(bodies) if hosts else ():
        said = {position}
        for path, name, host in _named(body, hosts):
            if host.job in said:
                continue
            said.add(host.job)
            named, fix = f"the host {name}", f"use names such as {host.new}"
            if noted[position].objects:
                message = f"names {named} of {noted[host.job].source}, which is not there any more"
                _add(noted, position, FieldFinding.of(path, name, Fidelity.LOST, message, fix))
            else:
                message = f"{noted[position].source} names {named}, which is not there any more"
                _add(noted, host.job, FieldFinding.of("", name, Fidelity.LOST, message, f"{fix} there"))
    return noted


def _named(body: Body, hosts: dict[str, list[_Host]]) -> Iterator[tuple[str, str, _Host]]:
    own = _namespace(body)
    for field in _FIELDS:
        for path, text in texts_with_hosts(body.get(field)):
            for match in _NAME.finditer(text):
                name, domain = match.groups()
                prefix = _INDEX.sub("", name)
                if name.endswith("-") and not text.startswith(_VARIABLE, match.end()):
                    continue
                for host in hosts.get(prefix, ()):
                    if host.namespace == own or host.namespace in domain.split("."):
                        yield dotted((field, *path)), name, host


def _namespace(body: Body) -> str:
    metadata = body.get("metadata")
    return str((metadata.get("namespace") if isinstance(metadata, dict) else None) or "default")


def _add(noted: list[Conversion], position: int, note: FieldFinding) -> None:
    found = noted[position]
    noted[position] = replace(found, notes=(*found.notes, note))
