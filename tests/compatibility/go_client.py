"""Model of a client with upstream's Go types: what it sends back of an object that it read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.support import ROOT
from trainyard.api.go_quantity import canonical
from trainyard.api.go_types import JOB_SPEC, RUNTIME_SPEC, known, stored_form

Body = dict[str, Any]
_EMPTY = {"string": "", "int": 0, "bool": False}


def sent_back(body: Body, release: str) -> Body:
    """Return an object as a client of a release encodes it: without what it does not know or omits, with empty structs.

    Of metadata and status only what it read, because the API server ignores the rest.
    """
    kind = JOB_SPEC if body["kind"] == "TrainJob" else RUNTIME_SPEC
    return {**body, "spec": _encoded(kind, known(kind, body["spec"], release))}


def _encoded(kind: str, value: Any) -> Any:
    kind = kind.lstrip("*")
    if kind.startswith("[]"):
        return [_encoded(kind[2:], item) for item in value]
    if kind.startswith("{}"):
        return {name: _encoded(kind[2:], item) for name, item in value.items()}
    if kind == "quantity":
        return canonical(value)
    if kind == "time":
        return stored_form("time", value)
    if kind not in _types():
        return value
    result: Body = {}
    for name, notation in _types()[kind].items():
        inner = notation.partition(" ")[0].rstrip("?!")
        omitted = "?" in notation
        if name in value:
            written = _encoded(inner, value[name])
            if not (omitted and written in ("", 0, [], {}) and not inner.startswith("*") and inner not in _types()):
                result[name] = written
        elif inner in _types() and kind != "trainer.TrainJobSpec":
            result[name] = _encoded(inner, {})
        elif inner == "quantity":
            result[name] = "0"
        elif not omitted and inner in _EMPTY:
            result[name] = _EMPTY[inner]
    return result


@cache
def _types() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((ROOT / "trainyard" / "api" / "go_types.json").read_text())
    return found
