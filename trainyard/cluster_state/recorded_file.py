"""File of a recorded cluster: a List of Kubernetes objects without secrets, with the time and the missing kinds."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from trainyard.cluster_state.body_fields import Body, name_of, namespace_of, time
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.redaction import redacted, reduced_pod
from trainyard.errors import TrainyardError
from trainyard.jobs.render.dns import is_subdomain
from trainyard.manifests.loader import load_all

RECORDED: Final = "trainyard.dev/recorded"
"""Key of the record's own fields, beside the items."""


def recorded(observed: Observed, namespace: str | None = None) -> dict[str, Any]:
    """Return the content of a file: JSON values without secrets.

    Parameters
    ----------
    observed
        The state.
    namespace
        Namespace that the file is for: of pods of others it has only what explanations need; None: all.
    """
    own = {"time": observed.now.astimezone(datetime.UTC).isoformat(), "unread": sorted(observed.unread)}
    items = [_kept(body, namespace) for body in observed.objects if body.get("kind") not in ("Secret", "ConfigMap")]
    return {"apiVersion": "v1", "kind": "List", RECORDED: own, "items": items}


def _kept(body: Body, namespace: str | None) -> dict[str, Any]:
    if namespace is not None and kind_of(body) == Kind.POD and namespace_of(body) != namespace:
        return reduced_pod(body)
    return redacted(body)


def observed_of_text(text: str, source: str, now: datetime.datetime) -> Observed:
    """Return the state of a file: of `trainyard snapshot save`, or Kubernetes objects in YAML or JSON.

    In a file without a record of the time, ``now`` is the time, and kinds without an object are unread.

    Raises
    ------
    TrainyardError
        It is neither YAML nor JSON, or contains something other than Kubernetes objects.
    """
    objects: list[Body] = []
    own: Mapping[str, Any] = {}
    for document in _documents(text, source):
        if document is None:
            continue
        if not isinstance(document, Mapping):
            raise TrainyardError(f"{source} contains something other than Kubernetes objects", fix=_FIX)
        if isinstance(document.get(RECORDED), Mapping):
            own = document[RECORDED]
        objects += filter(_is_named, _unpacked(document))
    if not objects and not own:
        raise TrainyardError(f"{source} contains no Kubernetes object", fix=_FIX)
    if own:
        unread = own.get("unread")
        names = frozenset(each for each in unread if isinstance(each, str)) if isinstance(unread, list) else frozenset()
        return Observed(time(own, "time") or now, tuple(objects), names)
    return Observed(now, tuple(objects), frozenset(Kind.ALL) - {kind_of(body) for body in objects}, is_timed=False)


_LARGE: Final = 1_000_000
_FIX: Final = "use a file of `trainyard snapshot save`"


def _documents(text: str, source: str) -> Iterator[Any]:
    """Yield the documents; JSON of this program without the checks that manifests of people need."""
    if text.lstrip()[:1] == "{":
        try:
            yield orjson.loads(text)
            return
        except orjson.JSONDecodeError as error:
            _refuse_json(text, source, error)
    yield from load_all(text, source)


def _refuse_json(text: str, source: str, error: orjson.JSONDecodeError) -> None:
    """Raise the error of JSON that ends early or is large; other text may be YAML, but large YAML takes minutes."""
    if error.pos >= len(text.rstrip()) and text.lstrip()[1:].lstrip()[:1] in ('"', ""):
        raise TrainyardError(f"{source} is incomplete: its JSON ends early", fix="copy or record it again")
    if len(text) >= _LARGE:
        raise TrainyardError(f"{source} is not valid JSON: {error}", fix=_FIX)


def _unpacked(document: Mapping[str, Any]) -> Iterator[Body]:
    items = document.get("items")
    if not isinstance(items, list):
        yield document
        return
    kind = str(document.get("kind") or "").removesuffix("List")
    inherited = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
    for item in items:
        if isinstance(item, Mapping):
            yield item if "kind" in item else {**inherited, **item}


def _is_named(body: Body) -> bool:
    """Return whether the API server would permit the name; others could control the terminal."""
    names = (name_of(body), namespace_of(body))
    return all(not name or is_subdomain(name) for name in names)
