"""What the upstream controller answers: its verdicts and the objects it makes."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.compatibility.corpus.case import Body, Case, Draft, runtime_spec, trainer
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, POD_GROUPS, TRAIN_JOBS, TRAINING_RUNTIMES

COSCHEDULING = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
MADE = (CONFIG_MAPS, SECRETS, POD_GROUPS, COSCHEDULING, JOB_SETS)
_RUNTIMES = {"TrainingRuntime": TRAINING_RUNTIMES, "ClusterTrainingRuntime": CLUSTER_TRAINING_RUNTIMES}
_PATHS = re.compile(
    r"(?<![\w\"])((?:spec|metadata)(?:\.[\w-]+|\[[^\]]*\])*): "
    r"(?:Invalid|Forbidden|Required|Duplicate|Unsupported|Too|Internal)"
)
_IN_FLIGHT = 24
_QUIET = 60.0
_APPLIED = 1.0
"""Seconds in which the controller completes the changes that it has begun."""

_FENCES = 16
"""TrainJobs that are created after all changes; more than the controller's workers."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one request.

    Parameters
    ----------
    status
        HTTP status; 200 where it was allowed.
    message
        Why not.
    warnings
        Warnings of the response.
    """

    status: int = 200
    message: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request was accepted."""
        return self.status < 300

    @property
    def paths(self) -> frozenset[str]:
        """Field paths that the message names."""
        return frozenset(_PATHS.findall(self.message))


@dataclass
class Answer:
    """Everything upstream did with a case.

    Parameters
    ----------
    runtime, train_job
        Verdicts; None where there was nothing to compare.
    updates, before
        Verdicts of the changes of the TrainJob, and the TrainJob before each.
    runtime_update
        Verdict of the change of the runtime.
    stored
        The TrainJob as it was stored.
    objects
        What the controller made, by kind and name.
    changed, objects_after
        The TrainJob after its changes, and what the controller made of it then; None and empty without changes.
    failure
        What its last failure event says; empty where there is none.
    """

    runtime: Verdict | None = None
    train_job: Verdict | None = None
    updates: list[Verdict] = field(default_factory=list)
    before: list[Body] = field(default_factory=list)
    runtime_update: Verdict | None = None
    stored: Body | None = None
    objects: dict[str, Body] = field(default_factory=dict)
    changed: Body | None = None
    objects_after: dict[str, Body] = field(default_factory=dict)
    failure: str = ""


async def ask(client: Client, cases: Sequence[Case]) -> dict[str, Answer]:
    """Submit every case and wait until the controller has done what it can."""
    answers = {case.name: Answer() for case in cases}
    await _each(cases, lambda case: _submit(client, case, answers[case.name]))
    stuck = {case.name for case in cases if _stuck(case)}
    await _settled(client, {name for name, answer in answers.items() if answer.stored is not None} - stuck)
    for name, objects in (await _made(client)).items():
        if name in answers:
            answers[name].objects = objects
    await _failures(client, answers)
    changed = [case for case in cases if (case.updates or case.runtime_update) and answers[case.name].stored]
    await _each(changed, lambda case: _update(client, case, answers[case.name]))
    if changed:
        await _applied(client)
    made = await _made(client) if changed else {}
    for case in changed:
        answers[case.name].objects_after = made.get(case.name, {})
    return answers


async def _each(cases: Iterable[Case], work: Any) -> None:
    limit = asyncio.Semaphore(_IN_FLIGHT)

    async def one(case: Case) -> None:
        async with limit:
            await work(case)

    await asyncio.gather(*(one(case) for case in cases))


async def _submit(client: Client, case: Case, answer: Answer) -> None:
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.name}}
    await client.create(NAMESPACES, home)
    if case.runtime is not None:
        resource = _RUNTIMES[case.runtime["kind"]]
        answer.runtime, _ = await _created(client, resource, case.runtime)
    answer.train_job, answer.stored = await _create(client, case)


async def _create(client: Client, case: Case) -> tuple[Verdict, Body | None]:
    """Create the TrainJob; the controller's cache may not have the runtime yet."""
    deadline = time.monotonic() + 3
    while True:
        verdict, stored = await _created(client, TRAIN_JOBS, case.train_job)
        late = "must be created before the TrainJob" in verdict.message and case.runtime is not None
        if not late or time.monotonic() > deadline or not _names_runtime(case):
            return verdict, stored
        await asyncio.sleep(0.2)


def _names_runtime(case: Case) -> bool:
    reference = case.train_job["spec"].get("runtimeRef", {})
    return case.runtime is not None and reference.get("name") == case.runtime["metadata"]["name"]


async def _created(client: Client, resource: Resource, body: Body) -> tuple[Verdict, Body | None]:
    path = resource.path(namespace=body["metadata"].get("namespace"))
    response = await client.exchange("POST", path, body=body)
    if not response.ok:
        return Verdict(response.status, response.message), None
    return Verdict(response.status, warnings=response.warnings), dict(response.body)


async def _tried(request: Any) -> tuple[Verdict, Body | None]:
    try:
        return Verdict(), await request
    except ApiError as error:
        return Verdict(error.status, error.message), None


async def _settled(client: Client, waiting: set[str]) -> None:
    """Wait until every accepted TrainJob has its JobSet or a failure, or nothing happens any more."""
    since, last = time.monotonic(), -1
    while True:
        made = {body["metadata"]["namespace"] for body in await client.list(JOB_SETS, limit=0)}
        failed = {body["metadata"]["namespace"] for body in await client.list(EVENTS, limit=0)}
        missing = waiting - made - failed
        if not missing:
            return
        if len(missing) != last:
            since, last = time.monotonic(), len(missing)
        if time.monotonic() - since > _QUIET:
            return
        await asyncio.sleep(0.5)


async def _applied(client: Client) -> None:
    """Wait until the controller has applied all changes: its queue is in order, so that later TrainJobs come after."""
    run = secrets.token_hex(4)
    fences = [Draft(f"fence-{run}-{number}", runtime_spec(trainer()), {}).case() for number in range(_FENCES)]
    await _each(fences, lambda case: _submit(client, case, Answer()))
    await _settled(client, {case.name for case in fences})
    await asyncio.sleep(_APPLIED)


def _stuck(case: Case) -> bool:
    """Whether the controller is known to make nothing of a case: it is not waited for."""
    spec = case.train_job["spec"]
    other = spec.get("managedBy", "").startswith("kueue")
    policy = (case.runtime or {}).get("spec", {}).get("mlPolicy", {})
    return other or ("flux" in policy and "numNodes" not in (spec.get("trainer") or {}))


async def _made(client: Client) -> dict[str, dict[str, Body]]:
    """Return what the controller made, by namespace, kind and name."""
    found: dict[str, dict[str, Body]] = {}
    for resource in MADE:
        for body in await client.list(resource, limit=0):
            metadata = body["metadata"]
            if metadata.get("ownerReferences"):
                found.setdefault(metadata["namespace"], {})[f"{resource.kind}/{metadata['name']}"] = body
    return found


async def _failures(client: Client, answers: Mapping[str, Answer]) -> None:
    for event in await client.list(EVENTS, limit=0):
        answer = answers.get(event["metadata"]["namespace"])
        if answer is not None and event.get("type") == "Warning":
            answer.failure = str(event.get("note", ""))


async def _update(client: Client, case: Case, answer: Answer) -> None:
    if case.runtime is not None and case.runtime_update is not None:
        about = case.runtime["metadata"]
        patched = client.merge_patch(
            _RUNTIMES[case.runtime["kind"]],
            about["name"],
            case.runtime_update,
            namespace=about.get("namespace"),
        )
        answer.runtime_update, _ = await _tried(patched)
    metadata = case.train_job["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    for update in case.updates:
        if update.active:
            jobs = [
                {"name": job, "active": 1, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
                for job in update.active
            ]
            await client.merge_patch(
                JOB_SETS, name, {"status": {"replicatedJobsStatus": jobs}}, namespace=namespace, subresource="status"
            )
            await asyncio.sleep(1)
        answer.before.append(await client.get(TRAIN_JOBS, name, namespace=namespace))
        verdict, _ = await _tried(client.merge_patch(TRAIN_JOBS, name, update.patch, namespace=namespace))
        answer.updates.append(verdict)
    if case.updates:
        answer.changed = await client.get(TRAIN_JOBS, name, namespace=namespace)
