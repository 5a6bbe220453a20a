"""The other controllers of the cluster: JobSet's (status, TTL) and the garbage collector.

They act on the model itself after a random delay; what they do not do here (pods, Jobs, Services) the controller under
test never looks at.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterable
from typing import Any

from tests.simulation.api_server import ApiServer, Call, Event, RefusedError, Stored
from tests.simulation.kinds import KINDS
from tests.simulation.virtual_time import VirtualTimeLoop
from trainyard.kube.training_kinds import JOB_SETS

JOB_SET_KIND = next(kind for kind in KINDS if kind.resource == JOB_SETS)
_BY_TYPE = {(kind.resource.api_version, kind.resource.kind): kind for kind in KINDS}
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


def condition_of(body: Any, kind: str) -> Any:
    """Return the condition of a type that is true, None where there is none."""
    entries = (body.get("status") or {}).get("conditions") or ()
    return next((entry for entry in entries if entry["type"] == kind and entry["status"] == "True"), None)


def terminal(job_set: Any) -> Any:
    """Return the condition that ended a JobSet, None while it goes on."""
    return condition_of(job_set, "Completed") or condition_of(job_set, "Failed")


class JobSetController:
    """Status of JobSets, and their deletion after their TTL."""

    def __init__(self, server: ApiServer, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self._server, self._loop, self._rng = server, loop, rng
        self._scheduled: set[tuple[str, str]] = set()
        self._started: set[str] = set()
        server.listeners.append(self._on_event)

    def has_run(self, stored: Stored) -> bool:
        """Whether a JobSet has had pods; those of a suspended one take a moment to go."""
        return stored.metadata["uid"] in self._started

    def finish(self, stored: Stored, kind: str) -> None:
        """End a JobSet with Completed or Failed."""
        reason = {"Completed": "AllJobsCompleted", "Failed": "FailedJobs"}[kind]
        jobs = stored.body["spec"].get("replicatedJobs") or ()
        counts = [_counts(job["name"], **{"succeeded" if kind == "Completed" else "failed": 1}) for job in jobs]
        self._write(stored, _with_condition(stored.body, self._condition(kind, reason)), counts)

    def _on_event(self, event: Event) -> None:
        if event.last.kind is JOB_SET_KIND and event.new is not None:
            self._schedule(event.new.key, self._rng.uniform(0.02, 0.5))

    def _schedule(self, key: tuple[str, str], delay: float) -> None:
        if key not in self._scheduled:
            self._scheduled.add(key)
            self._loop.call_later(delay, self._sync, key)

    def _sync(self, key: tuple[str, str]) -> None:
        self._scheduled.discard(key)
        stored = self._server.find(JOB_SET_KIND, key[1], key[0])
        if stored is None or stored.metadata.get("deletionTimestamp") or not stored.body["spec"].get("replicatedJobs"):
            return
        ended = terminal(stored.body)
        if ended is not None:
            self._expire(stored, ended["lastTransitionTime"])
            return
        names = [job["name"] for job in stored.body["spec"]["replicatedJobs"]]
        if stored.body["spec"].get("suspend"):
            if any(entry["active"] for entry in (stored.body.get("status") or {}).get("replicatedJobsStatus") or ()):
                # Pods take a moment to go.
                self._write(stored, stored.body, [_counts(name, suspended=1) for name in names])
                return
            body = _with_condition(stored.body, self._condition("Suspended", "SuspendedJobs"))
            self._write(stored, body, [_counts(name, suspended=1) for name in names])
        else:
            body = stored.body
            if condition_of(body, "Suspended"):
                body = _with_condition(body, {**self._condition("Suspended", "ResumeJobs"), "status": "False"})
            self._started.add(stored.metadata["uid"])
            self._write(stored, body, [_counts(name, active=1, ready=1) for name in names])

    def _expire(self, stored: Stored, finished: str) -> None:
        ttl = stored.body["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        left = datetime.datetime.fromisoformat(finished).timestamp() + ttl - self._loop.wall().timestamp()
        if left > 0:
            self._loop.call_later(left + 0.01, self._schedule, stored.key, 0.0)
            return
        call = Call("delete", JOB_SET_KIND, *stored.key, body={"propagationPolicy": "Foreground"}, user="jobset-ttl")
        self._server.carry_out(call)

    def _condition(self, kind: str, reason: str) -> dict[str, Any]:
        when = self._loop.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": kind, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": when}

    def _write(self, stored: Stored, body: Any, counts: list[dict[str, Any]]) -> None:
        status = {**(body.get("status") or {}), "replicatedJobsStatus": counts}
        call = Call("update", JOB_SET_KIND, *stored.key, subresource="status", user="jobset")
        self._server.carry_out(Call(**{**vars(call), "body": {**stored.body, "status": status}}))


class GarbageCollector:
    """Deletes what has lost its owners, and carries out foreground deletions."""

    def __init__(self, server: ApiServer, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self._server, self._loop, self._rng = server, loop, rng
        server.listeners.append(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.new is None:
            uid = event.last.metadata["uid"]
            if self._dependents(uid):
                self._later(self._collect, uid)
            return
        if any(True for _ in event.new.metadata.get("ownerReferences") or ()) and event.old is None:
            self._later(self._check, event.new)
        if event.new.metadata.get("deletionTimestamp"):
            self._later(self._finalize, event.new)

    def _later(self, act: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_later(self._rng.uniform(0.01, 1.5), act, *arguments)

    def _collect(self, uid: str) -> None:
        for stored in self._dependents(uid):
            self._check(stored)

    def _check(self, stored: Stored) -> None:
        """Delete an object none of whose owners exists any more."""
        live = self._server.find(stored.kind, stored.key[1], stored.key[0])
        if live is None or live.metadata["uid"] != stored.metadata["uid"]:
            return
        owners = live.metadata.get("ownerReferences") or ()
        if owners and not any(self._exists(owner, live.key[0]) for owner in owners):
            self._delete(live, "Background")

    def _finalize(self, stored: Stored) -> None:
        live = self._server.find(stored.kind, stored.key[1], stored.key[0])
        if live is None or live.metadata["uid"] != stored.metadata["uid"]:
            return
        finalizers = live.metadata.get("finalizers") or ()
        if _FOREGROUND in finalizers:
            left = [
                one for one in self._dependents(live.metadata["uid"]) if _blocks(one.metadata, live.metadata["uid"])
            ]
            for dependent in left:
                if not dependent.metadata.get("deletionTimestamp"):
                    self._delete(dependent, "Foreground")
            if left:
                self._later(self._finalize, live)
                return
        if any(name in (_FOREGROUND, _ORPHAN) for name in finalizers):
            kept = [name for name in finalizers if name not in (_FOREGROUND, _ORPHAN)]
            body = {**live.body, "metadata": {**live.metadata, "finalizers": kept}}
            try:
                self._server.carry_out(Call("update", live.kind, *live.key, body=body, user="garbage-collector"))
            except RefusedError:
                self._later(self._finalize, live)

    def _delete(self, stored: Stored, propagation: str) -> None:
        uid = stored.metadata["uid"]
        body = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        try:
            self._server.carry_out(Call("delete", stored.kind, *stored.key, body=body, user="garbage-collector"))
        except RefusedError:
            self._later(self._check, stored)

    def _exists(self, owner: Any, namespace: str) -> bool:
        kind = _BY_TYPE.get((owner["apiVersion"], owner["kind"]))
        if kind is None:
            return True
        found = self._server.find(kind, owner["name"], namespace if kind.resource.namespaced else "")
        return found is not None and found.metadata["uid"] == owner["uid"]

    def _dependents(self, uid: str) -> list[Stored]:
        return [stored for stored in self._server.everything() if uid in _owners(stored.metadata)]


def _owners(metadata: Any) -> Iterable[str]:
    return [owner["uid"] for owner in metadata.get("ownerReferences") or ()]


def _blocks(metadata: Any, uid: str) -> bool:
    owners = metadata.get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _counts(name: str, **values: int) -> dict[str, Any]:
    return {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0, **values}


def _with_condition(body: Any, condition: dict[str, Any]) -> Any:
    status = body.get("status") or {}
    entries = [dict(entry) for entry in status.get("conditions") or ()]
    held = next((entry for entry in entries if entry["type"] == condition["type"]), None)
    if held is None:
        entries.append(condition)
    elif held["status"] != condition["status"]:
        held.update(condition)
    return {**body, "status": {**status, "conditions": entries}}
