"""The mutating webhook: when each runtime patch last changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.api import Body
from trainyard.render.bodies import copied

__all__ = ["defaulted"]


def defaulted(train_job: Mapping[str, Any], old: Mapping[str, Any] | None, now: str) -> Body:
    """Return a TrainJob with its defaults; the input is not changed.

    Works on plain data and passes on whatever is malformed, for the schema to refuse.

    Parameters
    ----------
    train_job
        The TrainJob as it was sent.
    old
        The stored TrainJob, on an update.
    now
        The current time as RFC 3339 text.
    """
    result = dict(train_job)
    patches = _patches(train_job)
    if patches:
        stored = {_manager(entry): entry for entry in _patches(old or {}) if isinstance(entry, dict)}
        stamped = [
            _stamped(entry, stored.get(_manager(entry)), now) if isinstance(entry, dict) else entry for entry in patches
        ]
        result["spec"] = {**train_job["spec"], "runtimePatches": stamped}
    return result


def _manager(patch: Body) -> str:
    manager = patch.get("manager")
    return manager if isinstance(manager, str) else ""


def _patches(train_job: Mapping[str, Any]) -> list[Any]:
    spec = train_job.get("spec")
    patches = spec.get("runtimePatches") if isinstance(spec, dict) else None
    return patches if isinstance(patches, list) else []


def _stamped(patch: Body, stored: Body | None, now: str) -> Body:
    if stored is None:
        return patch if patch.get("time") is not None else {**patch, "time": now}
    unchanged = _content(patch) == _content(stored)
    time = stored.get("time") if unchanged else now
    without = {name: value for name, value in patch.items() if name != "time"}
    return {**without, "time": time} if time is not None else without


def _content(patch: Body) -> Any:
    return copied({name: value for name, value in patch.items() if name != "time"})
