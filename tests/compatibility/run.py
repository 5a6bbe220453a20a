"""Submitting cases to both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.compatibility import ours, peer, servers
from tests.compatibility.compared_case import Scene
from tests.compatibility.comparison import Comparison, compare
from tests.compatibility.corpus import twin
from tests.compatibility.corpus.case import Case
from tests.compatibility.object_differences import OURS, all_admitted
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES


async def prepare(server: servers.Server) -> None:
    """Install upstream's CRDs and the namespace in which our objects are tried."""
    async with server.client() as client:
        await servers.install(client, servers.upstream_definitions())
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}}
        await client.apply(NAMESPACES, home, field_manager="proof")


async def compared(server: servers.Server, cases: Sequence[Case]) -> dict[str, Comparison]:
    """Return the comparison of each case."""
    twins = [other for case in cases if (other := twin(case))]
    async with server.client(concurrency=32) as client:
        answers = await peer.ask(client, [*cases, *twins])
        limit = asyncio.Semaphore(16)

        async def one(case: Case) -> tuple[str, Comparison]:
            async with limit:
                return case.name, await _compared(client, case, answers)

        return dict(await asyncio.gather(*(one(case) for case in cases)))


async def _compared(client: Client, case: Case, answers: Mapping[str, peer.Answer]) -> Comparison:
    theirs = answers[case.name]
    uid = theirs.stored["metadata"]["uid"] if theirs.stored else None
    mine = ours.answer(case, uid, theirs.before)
    admitted = await all_admitted(client, mine.objects)
    comparison = compare(Scene.of(case, theirs, mine, answers.get(f"{case.name}-twin")), admitted)
    if not comparison.verdicts and _is_comparable(case, theirs):
        comparison.objects += await _after_changes(client, case, theirs)
    return comparison


def _is_comparable(case: Case, theirs: peer.Answer) -> bool:
    """Whether the controller has applied the changes: those of a TrainJob that was suspended before and is now.

    Without `spec.trainer`, upstream's objects are those of the twin, which does not change. Objects of a changed
    runtime come from the snapshot.
    """
    if theirs.changed is None or case.runtime_update or twin(case):
        return False
    states = [body["spec"].get("suspend") for body in (*theirs.before, theirs.changed)]
    made = any(key.startswith("JobSet/") for key in theirs.objects)
    return made and all(states) and not any(update.active for update in case.updates)


async def _after_changes(client: Client, case: Case, theirs: peer.Answer) -> list[str]:
    """Return the differences of the objects after the changes of a TrainJob."""
    assert theirs.changed is not None
    train_job = {key: value for key, value in theirs.changed.items() if key != "status"}
    changed = replace(case, train_job=train_job, updates=())
    mine = ours.answer(changed, train_job["metadata"]["uid"])
    after = peer.Answer(theirs.runtime, theirs.train_job, stored=theirs.changed, objects=theirs.objects_after)
    comparison = compare(Scene.of(changed, after, mine, None), await all_admitted(client, mine.objects))
    return [f"after the changes: {finding}" for finding in comparison.findings]
