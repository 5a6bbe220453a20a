"""Updates by clients that are compiled with upstream's Go types: what they did not mean to change stays as it was.

Such a client writes the whole object back. Kueue 0.16, with the types of Trainer v2.1, turns the number 8 of a quantity
into "8", which the API server rejects as a change of an immutable field, and drops runtimePatches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import KUEUE_MANAGERS, KUEUE_POD_SET_LABEL, RELEASED_ANNOTATION
from trainyard.api.go_types import JOB_SPEC, RUNTIME_SPEC, comparable, known, stored_form, with_stored_values
from trainyard.checks.finding import Finding

_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True)
class _Client:
    """A controller that changes TrainJobs, compiled with the types of one release.

    Parameters
    ----------
    release
        Release whose fields it knows.
    field
        Field of the spec to which it adds its entries.
    owns
        Whether an entry of the field is one that it added.
    """

    release: str
    field: str
    owns: Callable[[Body], bool]


_CLIENTS: Final = (
    _Client(
        "2.1", "podTemplateOverrides", lambda entry: _at(entry, "metadata", "labels", KUEUE_POD_SET_LABEL) is not None
    ),
    _Client("2.3", "runtimePatches", lambda entry: str(entry.get("manager")).startswith(KUEUE_MANAGERS)),
)


def normalized(train_job: Body, old: Mapping[str, Any] | None) -> Body:
    """Return a TrainJob whose spec is in the notation of Go clients; unchanged parts are as they were stored."""
    return _normalized(JOB_SPEC, train_job, old)


def normalized_runtime(runtime: Body, old: Mapping[str, Any] | None) -> Body:
    """Return a runtime whose spec is in the notation of Go clients; unchanged parts are as they were stored.

    The spec of a released version is stored as it was released, because its annotation has the hash.
    """
    released = _at(runtime, "metadata", "annotations", RELEASED_ANNOTATION)
    if released is None:
        return _normalized(RUNTIME_SPEC, runtime, old)
    kept = _at(old, "metadata", "annotations", RELEASED_ANNOTATION) == released
    spec, before = runtime.get("spec"), _at(old, "spec") if kept else None
    same = before is not None and spec != before and comparable(RUNTIME_SPEC, spec) == comparable(RUNTIME_SPEC, before)
    return {**runtime, "spec": before} if same else runtime


def with_lost_fields(
    train_job: Body, old: Mapping[str, Any] | None, field_manager: str
) -> tuple[Body, tuple[Finding, ...]]:
    """Return a TrainJob with the fields that an older client dropped without knowing them, and a warning for each.

    An update is by such a client if it names no field manager (kubectl, server-side apply and Pulumi do), lacks every
    field that a release does not know, is otherwise equal, and changes what such a controller changes: ``suspend``, its
    own entries of one list, or metadata. Any other update may remove fields.

    Parameters
    ----------
    train_job, old
        The TrainJob after and before the update; None: it is created.
    field_manager
        Field manager of the request; empty: unset.
    """
    spec, before = train_job.get("spec"), _at(old, "spec")
    if field_manager or old is None or not isinstance(spec, dict) or not isinstance(before, dict) or spec == before:
        return train_job, ()
    for client in _CLIENTS:
        own = ("suspend", client.field)
        rest = {name: value for name, value in before.items() if name not in own}
        left = known(JOB_SPEC, rest, client.release)
        if left == rest or any(name in spec for name in rest if name not in left):
            continue
        lost = [name for name in rest if not _equal({name: rest[name]}, {name: left[name]} if name in left else {})]
        sent = {name: value for name, value in spec.items() if name not in own}
        if lost and _equal(sent, left) and _changes(client, train_job, old):
            restored = {**rest, **{name: spec[name] for name in own if name in spec}}
            return {**train_job, "spec": restored}, tuple(_kept(name, client.release) for name in lost)
    return train_job, ()


def _changes(client: _Client, train_job: Body, old: Mapping[str, Any]) -> bool:
    """Return whether an update changes what the client changes, and leaves the entries of others alone."""
    left = {"spec": known(JOB_SPEC, _at(old, "spec"), client.release)}
    after, before = _entries(train_job, client), _entries(left, client)
    if not _equal({client.field: _foreign(client, after)}, {client.field: _foreign(client, before)}):
        return False
    suspended = bool(_at(train_job, "spec", "suspend")) != bool(_at(old, "spec", "suspend"))
    return (
        suspended or _metadata(train_job) != _metadata(old) or not _equal({client.field: after}, {client.field: before})
    )


def _metadata(body: Mapping[str, Any]) -> list[Any]:
    return [_at(body, "metadata", part) or None for part in _METADATA]


def _entries(body: Mapping[str, Any], client: _Client) -> list[Any]:
    entries = _at(body, "spec", client.field)
    return entries if isinstance(entries, list) else []


def _foreign(client: _Client, entries: list[Any]) -> list[Any]:
    """Return the entries that others added; their order counts."""
    return [entry for entry in entries if not (isinstance(entry, dict) and client.owns(entry))]


def _equal(spec: Body, before: Body) -> bool:
    return bool(comparable(JOB_SPEC, spec) == comparable(JOB_SPEC, before))


def _kept(name: str, release: str) -> Finding:
    return Finding.warning(
        f"spec.{name}",
        f"is kept: the update is by a client with the API of Trainer v{release}, which drops the field",
        "remove it by an update of its own, such as kubectl edit",
    )


def _at(body: Any, *names: str) -> Any:
    for name in names:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def _normalized(kind: str, body: Body, old: Mapping[str, Any] | None) -> Body:
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return body
    before = _at(old, "spec")
    wanted = stored_form(kind, spec) if before is None else with_stored_values(kind, spec, before)
    return body if wanted == spec else {**body, "spec": wanted}
