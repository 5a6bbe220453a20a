"""Execute the decisions of `trainyard.controller.lifecycle`: creates by POST, changes by patch with the uid.

Nothing is ever applied with force, and what exists under a name is never taken over because it is there: its owner
reference is read past the cache first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainyard.api.constants import POLICY_DENIED, RESOURCES_CREATION_FAILED, SNAPSHOT_SUFFIX
from trainyard.controller import lifecycle
from trainyard.controller.attachments import ATTACHED, Attachments
from trainyard.controller.cluster_cache import ClusterView
from trainyard.controller.job_sets import as_created, take_over_patch
from trainyard.controller.keys import generate
from trainyard.controller.lifecycle import Action, Inputs, Observed
from trainyard.controller.ownership import TRAIN_JOB_LABEL, labeled, require_owner
from trainyard.controller.policies import Policies
from trainyard.controller.resources import (
    CONFIG_MAPS,
    COSCHEDULING_POD_GROUPS,
    FIELD_MANAGER,
    JOB_SETS,
    POD_GROUPS,
)
from trainyard.controller.snapshots import create_snapshot
from trainyard.kube import ApiError, Client, Object, Resource, uid_of
from trainyard.problem import Problem
from trainyard.render import Rejected, key_kind, render

__all__ = ["Effect", "Executor", "RefusedError"]

_CREATED = "create JobSet"
_POD_GROUPS = {resource.api_version: resource for resource in (POD_GROUPS, COSCHEDULING_POD_GROUPS)}


class RefusedError(Exception):
    """Nothing was created because of something that the user or the platform has to change.

    Parameters
    ----------
    problems
        What is wrong.
    reason
        Reason of the event.
    """

    def __init__(self, problems: Sequence[Problem], reason: str = RESOURCES_CREATION_FAILED) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
        self.reason = reason


@dataclass(frozen=True)
class Effect:
    """What carrying out an action changed.

    Parameters
    ----------
    writes
        What was written, for the log.
    again
        Whether there is more to decide at once.
    snapshot_exists
        Whether the TrainJob has a snapshot that has to be rendered with.
    created
        Whether the JobSet was created.
    note
        What the user has to know, empty for nothing.
    """

    writes: tuple[str, ...] = ()
    again: bool = False
    snapshot_exists: bool = False
    created: bool = False
    note: str = ""


class Executor:
    """Carries out actions.

    Parameters
    ----------
    client
        Fenced API client.
    view
        The informers, which learn of every answer.
    policies
        Judges what is about to be created; None where policies are off.
    """

    def __init__(self, client: Client, view: ClusterView, policies: Policies | None) -> None:
        self._client = client
        self._view = view
        self._policies = policies
        self._attachments = Attachments(client)

    async def execute(self, observed: Observed, action: Action) -> Effect:
        """Carry out one action.

        Raises
        ------
        RefusedError, OccupiedError
            If nothing was created because of something outside this process that has to change.
        ApiError, TransportError, DecisionUnavailableError
            If a write failed; the same action is decided again.
        FencedError
            If this process no longer leads.
        """
        match action:
            case lifecycle.Suspend(job_set, patch):
                await self._patch_job_set(job_set, patch)
                return Effect(("suspend JobSet",), again=True)
            case lifecycle.TakeOver(job_set, patch):
                await self._patch_job_set(job_set, patch)
                return Effect(("take over JobSet",), again=True)
            case lifecycle.Create():
                return await self._create(observed, action)
            case lifecycle.Resume():
                return await self._resume(observed, action)
            case lifecycle.Remake(job_set, _):
                await self._delete(JOB_SETS, job_set, propagation="Foreground")
                return Effect(("delete JobSet to remake it",))
            case lifecycle.Finish():
                return await self._finish(action)
            case lifecycle.Report(problems, reason):
                raise RefusedError(problems, reason)
            case lifecycle.Nothing():
                return Effect()

    async def _create(self, observed: Observed, action: lifecycle.Create) -> Effect:
        job, inputs, writes = observed.train_job, action.inputs, []
        for body in action.objects:
            self._view.foreign(body, job)
        await self._judge(job, inputs, action.objects)
        snapshot, *others = _snapshot_first(action.objects)
        if not inputs.from_snapshot:
            if not await create_snapshot(self._client, snapshot):
                return Effect(again=True, snapshot_exists=True)
            writes.append("create ConfigMap")
        first, found = not inputs.from_snapshot, False
        for body in others:
            if body["kind"] != JOB_SETS.kind:
                writes += await self._put(observed, inputs, body, first=first)
            elif not action.restore:
                made = await self._create_job_set(job, body)
                writes += made
                found = made != [_CREATED]
        # A JobSet that was there already may be suspended, or run, against what the TrainJob says.
        return Effect(tuple(writes), again=found, created=not action.restore)

    async def _resume(self, observed: Observed, action: lifecycle.Resume) -> Effect:
        job, writes = observed.train_job, []
        await self._judge(job, action.inputs, action.objects)
        snapshot, *others = _snapshot_first(action.objects)
        if not action.inputs.from_snapshot and await create_snapshot(self._client, snapshot):
            writes.append("create ConfigMap")
        for body in others:
            if body["kind"] != JOB_SETS.kind:
                writes += await self._put(observed, action.inputs, body, first=False)
        await self._patch_job_set(action.job_set, action.patch)
        return Effect((*writes, "resume JobSet"), note=action.unchanged)

    async def _finish(self, action: lifecycle.Finish) -> Effect:
        writes = []
        if action.job_set is not None and action.patch is not None:
            await self._patch_job_set(action.job_set, action.patch)
            writes.append("set time to live of JobSet")
        if action.job_set is not None and action.delete_job_set:
            await self._delete(JOB_SETS, action.job_set)
            writes.append("delete JobSet")
        for resource, body in action.delete:
            await self._delete(resource, body)
            writes.append(f"delete {resource.kind}")
        return Effect(tuple(writes))

    async def _judge(self, job: Object, inputs: Inputs, objects: Sequence[Object]) -> None:
        """Ask the policies about what is about to be created."""
        if self._policies is None:
            return
        ruling = await self._policies.judge("CREATE", job, runtime=inputs.runtime, made=objects)
        if ruling.denials:
            raise RefusedError(ruling.denials, POLICY_DENIED)

    async def _put(self, observed: Observed, inputs: Inputs, body: Object, *, first: bool) -> list[str]:
        job = observed.train_job
        if body["kind"] in ATTACHED:
            complete = functools.partial(_with_keys, body, inputs)
            written = await self._attachments.put(job, body, first=first, complete=complete)
            return [f"put {body['kind']}"] if written else []
        resource = _POD_GROUPS[body["apiVersion"]]
        known = any(held == resource for held, _ in observed.pod_groups)
        return await self._put_pod_group(resource, job, labeled(body, job), known=known)

    async def _put_pod_group(self, resource: Resource, job: Object, body: Object, *, known: bool) -> list[str]:
        metadata = body["metadata"]
        if not known:
            try:
                self._view.record_write(await self._client.create(resource, body, field_manager=FIELD_MANAGER))
            except ApiError as error:
                if not _exists(error):
                    raise _explained(error, resource) from error
            else:
                return [f"create {resource.kind}"]
        stored = await self._owned(resource, job)
        changed = {name: value for name, value in body["spec"].items() if stored.get("spec", {}).get(name) != value}
        if not changed and (stored["metadata"].get("labels") or {}).items() >= metadata["labels"].items():
            self._view.record_write(stored)
            return []
        patch = {"metadata": {"uid": uid_of(stored), "labels": metadata["labels"]}, "spec": changed}
        answer = await self._client.merge_patch(
            resource, metadata["name"], patch, namespace=metadata["namespace"], field_manager=FIELD_MANAGER
        )
        self._view.record_write(answer)
        return [f"patch {resource.kind}"]

    async def _create_job_set(self, job: Object, body: Object) -> list[str]:
        try:
            stored = await self._client.create(JOB_SETS, as_created(body, job), field_manager=FIELD_MANAGER)
        except ApiError as error:
            if not _exists(error):
                raise _explained(error, JOB_SETS) from error
            stored = await self._owned(JOB_SETS, job)
            if TRAIN_JOB_LABEL not in (stored["metadata"].get("labels") or {}):
                await self._patch_job_set(stored, take_over_patch(stored, job))
                return ["take over JobSet"]
            self._view.record_write(stored)
            return []
        self._view.record_write(stored)
        return [_CREATED]

    async def _owned(self, resource: Resource, job: Object) -> Object:
        """Return an object of a TrainJob, read past the cache.

        Raises
        ------
        OccupiedError
            If it has another owner.
        ApiError
            With status 404 if it is gone meanwhile; try again.
        """
        stored = await self._client.get(resource, job["metadata"]["name"], namespace=job["metadata"]["namespace"])
        require_owner(resource, stored, job)
        return stored

    async def _patch_job_set(self, job_set: Object, patch: Object) -> None:
        metadata = job_set["metadata"]
        stored = await self._client.merge_patch(
            JOB_SETS, metadata["name"], patch, namespace=metadata["namespace"], field_manager=FIELD_MANAGER
        )
        self._view.record_write(stored)

    async def _delete(self, resource: Resource, body: Object, *, propagation: str = "Background") -> None:
        """Delete this incarnation of an object."""
        metadata = body["metadata"]
        await self._client.delete(
            resource, metadata["name"], namespace=metadata["namespace"], uid=uid_of(body), propagation=propagation
        )


def _snapshot_first(objects: Sequence[Object]) -> list[Object]:
    """Return the rendered objects in order, the snapshot of the runtime first."""
    snapshot = next(body for body in objects if _is_snapshot(body))
    return [snapshot, *(body for body in objects if body is not snapshot)]


def _is_snapshot(body: Object) -> bool:
    return bool(body["kind"] == CONFIG_MAPS.kind and body["metadata"]["name"].endswith(SNAPSHOT_SUFFIX))


def _with_keys(body: Object, inputs: Inputs) -> Object:
    """Return a Secret as it is rendered with new keys."""
    if inputs.train_job is None or inputs.runtime is None:
        return body
    kind = key_kind(inputs.runtime)
    if kind is None:
        return body
    result = render(inputs.train_job, inputs.runtime, replace(inputs.context, keys=generate(kind)))
    objects = () if isinstance(result, Rejected) else result.objects
    return next(made for made in objects if (made["kind"], made["metadata"]) == (body["kind"], body["metadata"]))


def _explained(error: ApiError, resource: Resource) -> Exception:
    """Return a kind that is not served as a refusal, any other error as it is."""
    if not error.not_found or error.message.startswith("namespaces "):
        return error
    what = f"{resource.kind} of {resource.api_version} is not served"
    return RefusedError((Problem("", what, "install its CustomResourceDefinition"),))


def _exists(error: ApiError) -> bool:
    return error.status == 409 and error.reason == "AlreadyExists"
