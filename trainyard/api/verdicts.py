"""API server validation beyond the models: defaults, CEL rules, list keys, times, immutability and JobSet's schema.

The API server validates with the CRDs, which embed the schema of the pinned JobSet. Manifests in files are validated
with the recorded schema (:mod:`trainyard.api.job_set_schema`), so that files and cluster have one verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from trainyard.api.job_set_schema import RecordedParts
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.schema import structural_schema
from trainyard.api.structural import (
    ABSENT,
    PART,
    SchemaNode,
    decoded_value,
    node_of,
    parts_of,
    schema_violations,
)
from trainyard.checks.finding import Finding


def decoded(model: type[KubernetesModel], body: Body) -> Body:
    """Return a copy of an object as decoded by the API server: without nulls, with the defaults of its schema.

    Malformed values are returned unchanged.
    """
    result: Body = decoded_value(_own_schema(model), body)
    return result


def violations(model: type[KubernetesModel], body: Body, old: Body | None = None) -> Iterator[Finding]:
    """Yield the violations that the API server would reject, apart from types, bounds and JobSet's schema.

    Parameters
    ----------
    model
        The model of the object.
    body
        An object that :func:`trainyard.api.parse` accepts.
    old
        The stored object, on an update. As in the API server, immutable fields may still be added and removed, and
        unchanged parts are not validated again.
    """
    before = ABSENT if old is None else decoded(model, old)
    yield from schema_violations(decoded(model, body), _own_schema(model), "", before)


def embedded_violations(model: type[KubernetesModel], body: Body, old: Body | None = None) -> Iterator[Finding]:
    """Yield the violations of JobSet's schema in an object.

    Parameters are as for `violations`.
    """
    for node, value, stored, path in parts_of(_with_parts(model), body, ABSENT if old is None else old, ""):
        before = stored if stored is ABSENT else decoded_value(node, stored)
        yield from schema_violations(decoded_value(node, value), node, path, before)


class _EmptyParts:
    def part(self, name: str) -> Body:
        return {}


class _MarkedParts(RecordedParts):
    def part(self, name: str) -> Body:
        return {**super().part(name), PART: True}


@cache
def _own_schema(model: type[KubernetesModel]) -> SchemaNode:
    return node_of(structural_schema(model, _EmptyParts()), typed=False)


@cache
def _with_parts(model: type[KubernetesModel]) -> SchemaNode:
    return node_of(structural_schema(model, _MarkedParts()))
