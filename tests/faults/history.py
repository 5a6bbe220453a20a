"""What happened to the objects of one namespace, as a watch delivered it, and the invariants that every history keeps.

resourceVersions come from one etcd, so versions of different kinds can be compared.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.faults.background import Background
from tests.faults.bench import Bench
from tests.support import awaited
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS

_RECORDED = (TRAIN_JOBS, JOB_SETS, POD_GROUPS)
_TERMINAL = ("Complete", "Failed")
Body = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One event of a watch."""

    kind: str
    body: Body

    @property
    def version(self) -> int:
        """The resourceVersion."""
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        """The uid."""
        return str(self.body["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The name."""
        return str(self.body["metadata"]["name"])


class History:
    """Records a namespace's TrainJobs, JobSets and PodGroups from now on.

    Parameters
    ----------
    bench
        The control plane.
    namespace
        What is recorded.
    """

    def __init__(self, bench: Bench, namespace: str) -> None:
        self.events: dict[str, list[Event]] = {resource.kind: [] for resource in _RECORDED}
        self._api, self._namespace = bench.api, namespace
        self._url, self._context = bench.url, bench.admin_context()
        self._background = Background()
        for resource in _RECORDED:
            version = self._api.collection(resource, namespace)["metadata"]["resourceVersion"]
            asyncio.run_coroutine_threadsafe(self._record(resource, version), self._background.loop)

    def close(self) -> None:
        """Stop recording."""
        self._background.close()

    def catch_up(self) -> None:
        """Wait until everything that is stored now was recorded."""
        for resource in _RECORDED:
            stored = {
                (b["metadata"]["uid"], b["metadata"]["resourceVersion"])
                for b in self._api.list(resource, self._namespace)
            }

            def seen(resource: Resource = resource, stored: set[tuple[str, str]] = stored) -> bool:
                events = list(self.events[resource.kind])
                seen = {(event.uid, event.body["metadata"]["resourceVersion"]) for event in events}
                ended = {event.uid for event in events if event.kind == "DELETED"}
                return stored <= seen and {event.uid for event in events} - ended == {uid for uid, _ in stored}

            awaited(f"the record of {resource}", seen, timeout=30)

    def versions(self, kind: str, name: str) -> list[Body]:
        """Return all versions of the objects of a name."""
        return [event.body for event in list(self.events[kind]) if event.name == name]

    def uids(self, kind: str, name: str) -> list[str]:
        """Return the uids of the objects that had a name, in order."""
        return list(dict.fromkeys(body["metadata"]["uid"] for body in self.versions(kind, name)))

    async def _record(self, resource: Resource, version: str) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**24) as session:
            while True:
                try:
                    version = await self._watch(session, resource, version)
                except (aiohttp.ClientError, OSError):
                    await asyncio.sleep(0.1)

    async def _watch(self, session: aiohttp.ClientSession, resource: Resource, version: str) -> str:
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        url = self._url + resource.path(namespace=self._namespace)
        timeout = aiohttp.ClientTimeout(total=None)
        async with session.get(url, params=query, timeout=timeout) as answer:
            if answer.status == 410:
                return await self._relist(session, resource)
            answer.raise_for_status()  # a server that is starting: try again
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return await self._relist(session, resource)
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.events[resource.kind].append(Event(event["type"], event["object"]))
        return version

    async def _relist(self, session: aiohttp.ClientSession, resource: Resource) -> str:
        async with session.get(self._url + resource.path(namespace=self._namespace)) as answer:
            answer.raise_for_status()
            body = await answer.json()
        alive = {item["metadata"]["uid"] for item in body["items"]}
        events = self.events[resource.kind]
        last = {event.uid: event for event in events}
        events += [Event("MODIFIED", item) for item in body["items"]]
        events += [
            Event("DELETED", event.body) for uid, event in last.items() if uid not in alive and event.kind != "DELETED"
        ]
        return str(body["metadata"]["resourceVersion"])


def conditions(body: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of an object that are true, by type."""
    found = ((body or {}).get("status") or {}).get("conditions") or ()
    return {entry["type"]: entry for entry in found if entry["status"] == "True"}


def violations(history: History) -> list[str]:
    """Return which invariants a history breaks."""
    found: list[str] = []
    jobs: dict[str, list[Event]] = {}
    for event in history.events["TrainJob"]:
        jobs.setdefault(event.uid, []).append(event)
    for uid, events in jobs.items():
        found += _terminal(events)
        found += _job_sets(events, [e for e in history.events["JobSet"] if uid in _owners(e.body)])
    return found


def _owners(body: Body) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or () if owner.get("controller")}


def _terminal(events: Iterable[Event]) -> Iterable[str]:
    """A terminal condition never changes, and there is one."""
    first: tuple[str, str] | None = None
    for event in events:
        now = [(kind, entry["reason"]) for kind, entry in conditions(event.body).items() if kind in _TERMINAL]
        if len(now) > 1:
            yield f"TrainJob {event.name} is {' and '.join(kind for kind, _ in now)} at version {event.version}"
        if first is not None and now != [first]:
            yield f"TrainJob {event.name} was {first} and is {now} at version {event.version}"
        first = first or (now[0] if now else None)


def _job_sets(job: list[Event], job_sets: list[Event]) -> Iterable[str]:
    """A JobSet is followed by another only after the reason was recorded, and by none once the TrainJob ended."""
    ended = next((event.version for event in job if conditions(event.body).keys() & set(_TERMINAL)), None)
    born = {event.uid: event for event in reversed(job_sets)}
    order = sorted(born.values(), key=lambda event: event.version)
    gone = {event.uid: event.version for event in job_sets if event.kind == "DELETED"}
    for event in order:
        if ended is not None and event.version > ended and event.kind == "ADDED":
            yield f"TrainJob {event.name} ended at version {ended} and got JobSet {event.uid} at {event.version}"
    for before, after in itertools.pairwise(order):
        reasons = [
            event.version for event in job if ((event.body.get("status") or {}).get("jobSet") or {}).get("remake")
        ]
        if not any(before.version < version < gone.get(before.uid, 0) for version in reasons):
            yield f"TrainJob {after.name}: JobSet {before.uid} was followed by {after.uid} without a recorded reason"
