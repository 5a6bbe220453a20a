"""Execute the decisions of `trainyard.controller.lifecycle`: create by POST, change by patch with the uid.

No write forces ownership of fields, and an existing object is used only after a quorum read of its owner reference.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trainyard.api.constants import POLICY_DENIED, RESOURCES_CREATION_FAILED, SNAPSHOT_SUFFIX
from trainyard.checks.finding import Finding
from trainyard.controller import actions
from trainyard.controller.actions import Action, Inputs
from trainyard.controller.attachments import ATTACHED, Attachments
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_dry_run import JobDryRun
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, labeled, require_owner
from trainyard.controller.job_sets import adoption_patch, as_created
from trainyard.controller.keys import generate
from trainyard.controller.lifecycle import ObservedJob
from trainyard.controller.policy_review import PolicyReviewer
from trainyard.controller.resources import FIELD_MANAGER, GANG_OBJECTS
from trainyard.controller.snapshots import create_snapshot
from trainyard.jobs.render.frameworks import key_kind
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import Rejected
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Key, Object, Resource, key_of, uid_of
from trainyard.kube.training_kinds import JOB_SETS

_CREATED = "create JobSet"
_POD_GROUPS = {(resource.api_version, resource.kind): resource for resource in GANG_OBJECTS}


class RejectedError(Exception):
    """No object was created because of errors that the user or the platform team has to fix.

    Parameters
    ----------
    findings
        Errors.
    reason
        Reason of the event.
    """

    def __init__(self, findings: Sequence[Finding], reason: str = RESOURCES_CREATION_FAILED) -> None:
        super().__init__("; ".join(map(str, findings)))
        self.findings = tuple(findings)
        self.reason = reason


@dataclass(frozen=True)
class ActionEffect:
    """Effect of an executed action.

    Parameters
    ----------
    writes
        Writes, for the log.
    requeue
        Whether to decide the next action immediately.
    snapshot_exists
        Whether the TrainJob has a snapshot, which rendering must use.
    created
        The JobSet, if it was created or existed already.
    warning
        Warning for the user; empty: none.
    """

    writes: tuple[str, ...] = ()
    requeue: bool = False
    snapshot_exists: bool = False
    created: Object | None = None
    warning: str = ""


class Executor:
    """Execute actions.

    Parameters
    ----------
    client
        Fenced API client.
    cache
        Cluster cache, updated with the response of every write.
    policies
        Policies of rendered objects; None: policies are off.
    clock
        Wall clock (UTC).
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        policies: PolicyReviewer | None,
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self._client = client
        self._dry_run = JobDryRun(client, clock)
        self._cache = cache
        self._policies = policies
        self._attachments = Attachments(client)

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted TrainJob."""
        self._dry_run.forget(key)

    async def execute(self, observed: ObservedJob, action: Action) -> ActionEffect:
        """Execute one action.

        Raises
        ------
        RejectedError, OwnershipConflictError
            If no object was created because of errors outside this process.
        ApiError, TransportError, DecisionUnavailableError
            If a write failed; retry.
        FencedError
            If this process is no longer the leader.
        """
        match action:
            case actions.Suspend(job_set, patch):
                await self._patch_job_set(job_set, patch)
                return ActionEffect(("suspend JobSet",), requeue=True)
            case actions.Adopt(job_set, patch):
                stored = await self._patch_job_set(job_set, patch)
                if TRAIN_JOB_LABEL not in (stored["metadata"].get("labels") or {}):
                    raise RejectedError((_label_removed(stored),))
                return ActionEffect(("adopt JobSet",), requeue=True)
            case actions.Create():
                return await self._create(observed, action)
            case actions.Resume():
                return await self._resume(observed, action)
            case actions.Recreate(job_set, _):
                version = job_set["metadata"]["resourceVersion"]
                await self._delete(JOB_SETS, job_set, version=version, propagation="Foreground")
                return ActionEffect(("delete JobSet to recreate it",))
            case actions.Finish():
                return await self._finish(action)
            case actions.ReportErrors(findings, reason):
                raise RejectedError(findings, reason)
            case actions.Nothing():
                return ActionEffect()

    async def _create(self, observed: ObservedJob, action: actions.Create) -> ActionEffect:
        job, inputs, writes = observed.train_job, action.inputs, []
        for body in action.objects:
            self._cache.require_no_conflict(body, job)
        await self._check_policies(job, inputs, action.objects)
        if not action.restore:
            await self._require_valid_jobs(job, inputs, action.objects)
        snapshot, *others = _snapshot_first(action.objects)
        if not inputs.from_snapshot:
            if not await create_snapshot(self._client, snapshot):
                return ActionEffect(requeue=True, snapshot_exists=True)
            writes.append("create ConfigMap")
        first, created = not inputs.from_snapshot, None
        found = False
        for body in others:
            if body["kind"] != JOB_SETS.kind:
                writes += await self._put(observed, inputs, body, first=first)
            elif not action.restore:
                created, job_set_writes = await self._create_job_set(job, body)
                writes += job_set_writes
                self._dry_run.forget(key_of(job))
                found = job_set_writes != [_CREATED]
        # The suspend field of a JobSet that already existed may differ from the TrainJob's.
        return ActionEffect(tuple(writes), requeue=found, created=created)

    async def _resume(self, observed: ObservedJob, action: actions.Resume) -> ActionEffect:
        job, writes = observed.train_job, []
        await self._check_policies(job, action.inputs, action.objects)
        if _changes_jobs(action):
            await self._require_valid_jobs(job, action.inputs, action.objects)
        snapshot, *others = _snapshot_first(action.objects)
        if not action.inputs.from_snapshot and await create_snapshot(self._client, snapshot):
            writes.append("create ConfigMap")
        for body in others:
            if body["kind"] != JOB_SETS.kind:
                writes += await self._put(observed, action.inputs, body, first=False)
        await self._patch_job_set(action.job_set, action.patch)
        self._dry_run.forget(key_of(job))
        return ActionEffect((*writes, "resume JobSet"), warning=action.unchanged)

    async def _finish(self, action: actions.Finish) -> ActionEffect:
        writes = []
        if action.job_set is not None and action.delete_job_set:
            await self._delete(JOB_SETS, action.job_set)
            writes.append("delete JobSet")
        for resource, body in action.delete:
            await self._delete(resource, body)
            writes.append(f"delete {resource.kind}")
        if action.job_set is not None and action.patch is not None:
            await self._patch_job_set(action.job_set, action.patch)
            writes.append("set time to live of JobSet")
        return ActionEffect(tuple(writes))

    async def _check_policies(self, job: Object, inputs: Inputs, objects: Sequence[Object]) -> None:
        """Check the objects to be created against the policies."""
        if self._policies is None:
            return
        decision = await self._policies.review("CREATE", job, runtime=inputs.runtime, rendered=objects)
        if decision.denials:
            raise RejectedError(decision.denials, POLICY_DENIED)

    async def _require_valid_jobs(self, job: Object, inputs: Inputs, objects: Sequence[Object]) -> None:
        if findings := await self._dry_run.findings(job, inputs, objects):
            raise RejectedError(findings)

    async def _put(self, observed: ObservedJob, inputs: Inputs, body: Object, *, first: bool) -> list[str]:
        job = observed.train_job
        if body["kind"] in ATTACHED:
            complete = functools.partial(_with_keys, body, inputs)
            written = await self._attachments.put(job, body, first=first, complete=complete)
            return [f"put {body['kind']}"] if written else []
        resource = _POD_GROUPS[body["apiVersion"], body["kind"]]
        known = any(held == resource for held, _ in observed.pod_groups)
        return await self._put_pod_group(resource, job, labeled(body, job), known=known)

    async def _put_pod_group(self, resource: Resource, job: Object, body: Object, *, known: bool) -> list[str]:
        metadata = body["metadata"]
        if not known:
            try:
                created = await self._client.create(resource, body, field_manager=FIELD_MANAGER, strict=True)
            except ApiError as error:
                if not _exists(error):
                    raise _as_rejection(error, resource) from error
            else:
                self._cache.record_write(created)
                return [f"create {resource.kind}"]
        stored = await self._owned(resource, job)
        wanted = {**dict.fromkeys(GANG_OBJECTS[resource].requested), **body["spec"]}
        changed = {name: value for name, value in wanted.items() if stored.get("spec", {}).get(name) != value}
        if not changed and (stored["metadata"].get("labels") or {}).items() >= metadata["labels"].items():
            self._cache.record_write(stored)
            return []
        patch = {"metadata": {"uid": uid_of(stored), "labels": metadata["labels"]}, "spec": changed}
        stored = await self._client.merge_patch(
            resource, metadata["name"], patch, namespace=metadata["namespace"], field_manager=FIELD_MANAGER
        )
        self._cache.record_write(stored)
        return [f"patch {resource.kind}"]

    async def _create_job_set(self, job: Object, body: Object) -> tuple[Object, list[str]]:
        try:
            stored = await self._client.create(
                JOB_SETS, as_created(body, job), field_manager=FIELD_MANAGER, strict=True
            )
        except ApiError as error:
            if not _exists(error):
                raise _as_rejection(error, JOB_SETS) from error
            stored = await self._owned(JOB_SETS, job)
            if stored["metadata"].get("deletionTimestamp"):
                raise  # A conflict; retried until the name is free.
            if TRAIN_JOB_LABEL not in (stored["metadata"].get("labels") or {}):
                await self._patch_job_set(stored, adoption_patch(stored, job))
                return stored, ["adopt JobSet"]
            self._cache.record_write(stored)
            return stored, []
        self._cache.record_write(stored)
        return stored, [_CREATED]

    async def _owned(self, resource: Resource, job: Object) -> Object:
        """Return an object of a TrainJob, read from the API server.

        Raises
        ------
        OwnershipConflictError
            If it has another owner.
        ApiError
            With status 404 if it was deleted meanwhile; retry.
        """
        stored = await self._client.get(resource, job["metadata"]["name"], namespace=job["metadata"]["namespace"])
        require_owner(resource, stored, job)
        return stored

    async def _patch_job_set(self, job_set: Object, patch: Object) -> Object:
        metadata = job_set["metadata"]
        stored = await self._client.merge_patch(
            JOB_SETS, metadata["name"], patch, namespace=metadata["namespace"], field_manager=FIELD_MANAGER
        )
        self._cache.record_write(stored)
        return stored

    async def _delete(
        self, resource: Resource, body: Object, *, version: str | None = None, propagation: str = "Background"
    ) -> None:
        """Delete an object with its uid and, if given, its resourceVersion as preconditions.

        Raises
        ------
        ApiError
            If it was not deleted, also with status 404 if it may exist.
        """
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        deleted = await self._client.delete(
            resource, name, namespace=namespace, uid=uid_of(body), resource_version=version, propagation=propagation
        )
        found = None if deleted else await self._client.find_confirmed(resource, name, namespace=namespace)
        if found is not None and uid_of(found) == uid_of(body):
            raise ApiError.unserved(f"the deletion of {resource.kind} {name} is not served")


def _changes_jobs(action: actions.Resume) -> bool:
    """Whether the patch changes pod templates of the stored JobSet."""
    changed = action.patch["spec"].get("replicatedJobs")
    return changed is not None and changed != action.job_set["spec"].get("replicatedJobs")


def _snapshot_first(objects: Sequence[Object]) -> list[Object]:
    """Return the rendered objects with the runtime snapshot first."""
    snapshot = next(body for body in objects if _is_snapshot(body))
    return [snapshot, *(body for body in objects if body is not snapshot)]


def _is_snapshot(body: Object) -> bool:
    return bool(body["kind"] == CONFIG_MAPS.kind and body["metadata"]["name"].endswith(SNAPSHOT_SUFFIX))


def _with_keys(body: Object, inputs: Inputs) -> Object:
    """Return the Secret rendered with new keys."""
    if inputs.train_job is None or inputs.runtime is None:
        return body
    kind = key_kind(inputs.runtime)
    if kind is None:
        return body
    result = render(inputs.train_job, inputs.runtime, replace(inputs.context, keys=generate(kind)))
    objects = () if isinstance(result, Rejected) else result.objects
    return next(each for each in objects if (each["kind"], each["metadata"]) == (body["kind"], body["metadata"]))


def _as_rejection(error: ApiError, resource: Resource) -> Exception:
    """Return a RejectedError if the kind, or a field of it, is not served, or else the error itself."""
    if error.status == 400 and "unknown field" in error.message:
        message = f"{resource.kind} of {resource.api_version} is served without a field: {error.message}"
        fix = "ask the platform team to upgrade its CustomResourceDefinition, or leave the field out"
        return RejectedError((Finding("", message, fix),))
    if not error.not_found or error.message.startswith("namespaces "):
        return error
    message = f"{resource.kind} of {resource.api_version} is not served"
    return RejectedError((Finding("", message, "install its CustomResourceDefinition"),))


def _label_removed(job_set: Object) -> Finding:
    message = f"the label {TRAIN_JOB_LABEL} of JobSet {job_set['metadata']['name']} is removed on admission"
    return Finding("", message, "exempt the JobSets of TrainJobs from the webhook or policy that removes it")


def _exists(error: ApiError) -> bool:
    return error.status == 409 and error.reason == "AlreadyExists"
