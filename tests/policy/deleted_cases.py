"""Cases of updates as updates of an object that is being deleted and that a finalizer keeps."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.testing.cases import SCALE, Case, CaseDecision

HOLD: Final = "example.com/hold"
DELETED_AT: Final = "2026-01-01T00:00:00Z"


def while_deleted(cases: Iterable[Case]) -> list[Case]:
    """Return the first update that each rule denies, while the object is being deleted.

    A rule that evaluates such objects apart has cases of its own.
    """
    found: dict[str, Case] = {}
    for case in cases:
        old, new = case.content.old_object, case.content.object
        if not _denied_update(case) or old is None or new is None or case.rule.id in found:
            continue
        if case.rule.cel is not None and case.rule.cel.deleting:
            continue
        content = case.content.model_copy(update={"object": _deleted(new), "old_object": _deleted(old)})
        found[case.rule.id] = dataclasses.replace(case, name=f"{case.name}-while-deleted", content=content)
    return list(found.values())


def releases(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield, of each rule that evaluates finalizers, what it denies as the removal of the last finalizer."""
    seen = set()
    for case in cases:
        cel, subject = case.rule.cel, case.content.object
        if cel is None or not cel.unchanged or cel.deleting or case.rule.id in seen or case.operation != "CREATE":
            continue
        if case.verdict is CaseDecision.ALLOW or subject is None or not case.is_stored or not _can_be_held(case):
            continue
        if case.match is None or "UPDATE" not in case.match.operations:
            continue
        seen.add(case.rule.id)
        held = _deleted(subject)
        if held["kind"] == "Pod":  # The API server would add a volume, which no update removes.
            held["spec"]["automountServiceAccountToken"] = False
        freed = copy.deepcopy(held)
        freed["metadata"]["finalizers"] = [name for name in freed["metadata"]["finalizers"] if name != HOLD] or None
        content = case.content.model_copy(update={"object": freed, "old_object": held, "paths": ()})
        yield dataclasses.replace(case, name=f"{case.name}-released", verdict=CaseDecision.ALLOW, content=content)


def requests_that_say_so(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield denied requests for subresources whose own object says that it is being deleted."""
    for case in cases:
        subject = case.content.object
        if case.verdict is CaseDecision.ALLOW or case.operation != "CREATE" or case.is_stored or subject is None:
            continue
        metadata = {**subject["metadata"], "deletionTimestamp": DELETED_AT}
        content = case.content.model_copy(update={"object": {**subject, "metadata": metadata}})
        yield dataclasses.replace(case, name=f"{case.name}-that-says-so", content=content)


def _denied_update(case: Case) -> bool:
    denied = (
        case.verdict is not CaseDecision.ALLOW
        and case.operation == "UPDATE"
        and case.rule.gate is not EnforcementPoint.OPA
    )
    if not denied or not _can_be_held(case) or case.content.refused or _added_finalizers(case):
        return False
    return _writes(case.content.object, case.content.old_object)


def _writes(new: Any, old: Any) -> bool:
    """Whether a merge patch with the new object changes the old one: it removes nothing."""
    if not isinstance(new, dict) or not isinstance(old, dict):
        return bool(new != old)
    return any(name not in old or _writes(value, old[name]) for name, value in new.items())


def _added_finalizers(case: Case) -> bool:
    """Whether the update adds finalizers, which the API server refuses while an object is being deleted."""
    old, new = ((body or {})["metadata"].get("finalizers") for body in (case.content.old_object, case.content.object))
    return not set(new or ()) <= set(old or ())


def _can_be_held(case: Case) -> bool:
    """Whether a finalizer of the object holds it: a scale is not stored, and a Namespace waits for its content."""
    return (case.content.object or {}).get("kind") not in (SCALE, "Namespace")


def _deleted(body: Mapping[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(dict(body))
    metadata = result.setdefault("metadata", {})
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), HOLD]
    metadata["deletionTimestamp"] = DELETED_AT
    return result
