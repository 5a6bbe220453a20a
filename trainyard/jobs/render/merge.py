"""Strategic merge patch onto a JobSet specification, list order included.

The order follows ``mergeSlice`` and ``normalizeElementOrder`` of k8s.io/apimachinery's strategicpatch package. An empty
list changes nothing, because upstream's Go types do not serialize it, except where a type requires the list. One
deviation: if a patch sets another source of a volume or variable, the new source replaces the old one. The original
algorithm keeps both, which the API server rejects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainyard.api import Body

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "replicatedJobs": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_SCALAR_LISTS: Final = frozenset({"finalizers"})
_REQUIRED_LISTS: Final = frozenset({"nodeSelectorTerms", "sources"})
_ENV_SOURCES: Final = frozenset({"value", "valueFrom"})


def strategic_merge(original: Mapping[str, Any], patch: Mapping[str, Any]) -> Body:
    """Return the original with the patch merged in; neither is changed.

    Parameters
    ----------
    original
        A JobSet specification or part of it, without nulls.
    patch
        Fields to merge, without nulls.
    """
    merged = dict(original)
    for name, value in patch.items():
        current = merged.get(name)
        if value == [] and name not in _REQUIRED_LISTS:
            continue
        if isinstance(value, dict) and isinstance(current, dict):
            merged[name] = (
                _single_source(strategic_merge(current, value), value)
                if name == "valueFrom"
                else strategic_merge(current, value)
            )
        elif isinstance(value, list) and isinstance(current, list) and name in _KEYS:
            merged[name] = _merge_items(name, current, value)
        elif isinstance(value, list) and isinstance(current, list) and name in _SCALAR_LISTS:
            merged[name] = _ordered(list(dict.fromkeys([*current, *value])), current, value)
        else:
            merged[name] = value
    return merged


def merge_resources(base: Mapping[str, Any], override: Mapping[str, Any]) -> Body:
    """Return compute resources with the limits and requests of the override; claims are merged by name."""
    merged: Body = {}
    for name in ("limits", "requests"):
        amounts = {**base.get(name, {}), **override.get(name, {})}
        if amounts:
            merged[name] = amounts
    claims = {claim["name"]: claim for claim in (*base.get("claims", ()), *override.get("claims", ()))}
    if claims:
        merged["claims"] = list(claims.values())
    return merged


def _merge_items(field: str, original: Sequence[Body], patch: Sequence[Body]) -> list[Body]:
    key = _KEYS[field]
    merged = list(original)
    positions = {item.get(key): index for index, item in reversed(list(enumerate(merged)))}
    for item in patch:
        position = positions.get(item.get(key))
        if position is None:
            positions[item.get(key)] = len(merged)
            merged.append(item)
        else:
            merged[position] = _one_kind(field, strategic_merge(merged[position], item), item)
    by_key = {item.get(key): item for item in reversed(merged)}
    order = _ordered(
        [item.get(key) for item in merged], [item.get(key) for item in original], [item.get(key) for item in patch]
    )
    return [by_key[value] for value in order]


def _ordered(merged: Sequence[Any], original: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    """Return keys in the order of a strategic merge.

    Keys of the patch and other keys each keep their own order. Another key precedes a patch key only if it also does in
    the original.
    """
    rank = {key: index for index, key in reversed(list(enumerate(original)))}
    patched = deque(dict.fromkeys(patch))
    members = set(patched)
    others = deque(key for key in dict.fromkeys(merged) if key not in members)
    result = []
    while patched and others:
        precedes = others[0] in rank and patched[0] in rank and rank[others[0]] < rank[patched[0]]
        result.append((others if precedes else patched).popleft())
    return [*result, *patched, *others]


def _one_kind(field: str, merged: Body, patch: Body) -> Body:
    if field == "volumes":
        return {
            "name": merged["name"],
            **_single_source({k: v for k, v in merged.items() if k != "name"}, {k for k in patch if k != "name"}),
        }
    if field == "env":
        given = _ENV_SOURCES & patch.keys()
        return {name: value for name, value in merged.items() if not given or name not in _ENV_SOURCES or name in given}
    return merged


def _single_source(merged: Body, patch: Any) -> Body:
    return {name: value for name, value in merged.items() if name in patch} if patch else merged
