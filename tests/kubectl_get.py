"""What ``kubectl get -o json`` prints, read without its process: tests ask thousands of times."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from trainyard.errors import TrainyardError
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.resource import Resource


class UnreadError(Exception):
    """Only kubectl can tell: arguments of other forms, an unknown kind, or an error of the server."""


_kinds: weakref.WeakKeyDictionary[BlockingSession, dict[str, Resource]] = weakref.WeakKeyDictionary()


def read(session: BlockingSession, *arguments: str) -> Any:
    """Return the object, None if it does not exist, or the list.

    Parameters
    ----------
    arguments
        Kinds (with commas) and a name, ``-n NAMESPACE``, ``-A``, ``-l SELECTOR`` and ``--show-managed-fields``.

    Raises
    ------
    UnreadError
        kubectl must be asked.
    """
    words: list[str] = []
    namespace: str | None = "default"
    selector, managed_fields = "", False
    given = iter(arguments)
    for each in given:
        match each:
            case "-n":
                namespace = next(given)
            case "-A":
                namespace = None
            case "-l" | "--selector":
                selector = f"?labelSelector={quote(next(given), safe='')}"
            case "--show-managed-fields":
                managed_fields = True
            case _:
                words.append(each)
    if not words or len(words) > 2 or any(each.startswith("-") or "/" in each for each in words):
        raise UnreadError
    kinds, name = words[0].split(","), "".join(words[1:])
    try:
        if name:
            (kind,) = kinds
            return _object(session, _kind(session, kind), namespace or "default", name, managed_fields)
        return {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                item
                for kind in kinds
                for item in _items(session, _kind(session, kind), namespace, selector, managed_fields)
            ],
        }
    except TrainyardError as error:
        raise UnreadError from error


def _object(
    session: BlockingSession, kind: Resource, namespace: str, name: str, managed_fields: bool
) -> dict[str, Any] | None:
    answer = session.request("GET", kind.path(namespace=namespace, name=name))
    body: dict[str, Any] = json.loads(answer.payload)
    if answer.status == 404 and body.get("details", {}).get("name") == name:
        return None
    if not answer.ok:
        raise UnreadError
    return _printed(body, managed_fields)


def _items(
    session: BlockingSession, kind: Resource, namespace: str | None, selector: str, managed_fields: bool
) -> Iterator[dict[str, Any]]:
    answer = session.request("GET", f"{kind.path(namespace=namespace)}{selector}")
    if not answer.ok:
        raise UnreadError
    for item in json.loads(answer.payload)["items"]:
        yield _printed({"apiVersion": kind.api_version, "kind": kind.kind, **item}, managed_fields)


def _printed(body: dict[str, Any], managed_fields: bool) -> dict[str, Any]:
    if not managed_fields:
        body["metadata"].pop("managedFields", None)
    return body


def _kind(session: BlockingSession, name: str) -> Resource:
    """Return a kind by one of its names; what is not known is looked up again."""
    if name not in _kinds.setdefault(session, {}):
        _kinds[session] = dict(reversed([*_discovered(session)]))  # the first group takes precedence
    try:
        return _kinds[session][name]
    except KeyError:
        raise UnreadError from None


def _discovered(session: BlockingSession) -> Iterator[tuple[str, Resource]]:
    groups = session.request("GET", "/apis")
    if not groups.ok:
        raise UnreadError
    versions = [each["preferredVersion"]["groupVersion"] for each in json.loads(groups.payload)["groups"]]
    for path in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        found = session.request("GET", path)
        if not found.ok:
            raise UnreadError
        listed = json.loads(found.payload)
        group, _, version = listed["groupVersion"].rpartition("/")
        for each in listed["resources"]:
            if "/" in each["name"] or "list" not in each["verbs"]:
                continue
            kind = Resource(group, version, each["name"], each["kind"], namespaced=each["namespaced"])
            names = {each["name"], each.get("singularName"), each["kind"].lower(), *each.get("shortNames", ())}
            for name in names - {None, ""}:
                yield name, kind
                yield f"{name}.{group}".rstrip("."), kind
