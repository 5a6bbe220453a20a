"""Seeded defects of the controller: each is small, looks right in a review, and has to be found by the simulation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from unittest import mock

from trainyard.controller import actions, execution, job_sets, lifecycle, reconcile
from trainyard.controller import status as statuses
from trainyard.controller.execution import ActionEffect, Executor
from trainyard.controller.lifecycle import ObservedJob
from trainyard.controller.observation import Observer
from trainyard.controller.reconcile import Reconciler, ReconcileResult
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object, uid_of
from trainyard.kube.store import Store
from trainyard.kube.training_kinds import JOB_SETS
from trainyard.kube.work_queue import WorkQueue

_Patch = contextlib.AbstractContextManager[Any]


def _lost_is_first_build() -> Iterator[_Patch]:
    yield mock.patch.object(statuses, "awaits_job_set", return_value=False)


def _unconfirmed() -> Iterator[_Patch]:
    async def confirm(self: Observer, step: Any) -> None:
        step.confirmed_absent = True

    yield mock.patch.object(Observer, "confirm", confirm)


def _remake_unrecorded() -> Iterator[_Patch]:
    async def record(self: Reconciler, step: Any, action: Any) -> None:
        """The delete is enough."""

    yield mock.patch.object(Reconciler, "_record_recreation", record)


def _suspend_reads_the_snapshot() -> Iterator[_Patch]:
    execute = Executor.execute

    async def first_read(self: Executor, observed: ObservedJob, action: Any) -> ActionEffect:
        if isinstance(action, actions.Suspend):
            metadata = observed.train_job["metadata"]
            name = f"{metadata['name']}-runtime-snapshot"
            await self._client.get(CONFIG_MAPS, name, namespace=metadata["namespace"])
        return await execute(self, observed, action)

    yield mock.patch.object(Executor, "execute", first_read)


def _forced_apply() -> Iterator[_Patch]:
    async def put(self: Executor, resource: Any, job: Object, body: Object, *, known: bool) -> list[str]:
        self._cache.record_write(await self._client.apply(resource, body, field_manager=FIELD_MANAGER))
        return [f"apply {resource.kind}"]

    yield mock.patch.object(Executor, "_put_pod_group", put)


def _owner_unchecked() -> Iterator[_Patch]:
    yield mock.patch.object(execution, "require_owner", return_value=None)


def _ttl_from_the_start() -> Iterator[_Patch]:
    as_created, adoption_patch = job_sets.as_created, lifecycle._adoption_patch
    ttl = "ttlSecondsAfterFinished"

    def with_ttl(rendered: Object, train_job: Object) -> Object:
        body = as_created(rendered, train_job)
        kept = {ttl: rendered["spec"][ttl]} if ttl in rendered["spec"] else {}
        return {**body, "spec": {**body["spec"], **kept}}

    def leaving_ttl(job_set: Object, job: Object) -> Object | None:
        return adoption_patch({**job_set, "spec": {**job_set["spec"], ttl: None}}, job)

    yield mock.patch.object(execution, "as_created", with_ttl)
    yield mock.patch.object(lifecycle, "_adoption_patch", leaving_ttl)


def _pod_group_stays() -> Iterator[_Patch]:
    finish = lifecycle._finish

    def without_delete(observed: ObservedJob) -> Any:
        action = finish(observed)
        if not isinstance(action, actions.Finish):
            return action
        return actions.Finish(action.job_set, (), action.patch, action.delete_job_set)

    yield mock.patch.object(lifecycle, "_finish", without_delete)


def _status_after_success_only() -> Iterator[_Patch]:
    advance, write = Reconciler._advance, Reconciler._write_status

    async def noting(self: Reconciler, step: Any) -> ActionEffect:
        step.failed = True
        effect = await advance(self, step)
        step.failed = False
        return effect

    async def unless_failed(self: Reconciler, step: Any) -> bool:
        return False if step.failed else await write(self, step)

    yield mock.patch.object(Reconciler, "_advance", noting)
    yield mock.patch.object(Reconciler, "_write_status", unless_failed)


def _refusals_wait_for_events() -> Iterator[_Patch]:
    failed = Reconciler._failed

    def without_time(self: Reconciler, *arguments: Any) -> ReconcileResult:
        result = failed(self, *arguments)
        return ReconcileResult(blocked=result.blocked, writes=result.writes)

    yield mock.patch.object(Reconciler, "_failed", without_time)


def _errors_are_not_retried() -> Iterator[_Patch]:
    yield mock.patch.object(WorkQueue, "retry", return_value=0.0)


def _end_follows_the_job_set() -> Iterator[_Patch]:
    status_of = statuses.status_of

    def following(train_job: Any, job_set: Any, **options: Any) -> dict[str, Any]:
        status = status_of(train_job, job_set, **options)
        if job_set is None and not options.get("missing"):
            ends = ("Complete", "Failed")
            status["conditions"] = [entry for entry in status.get("conditions") or () if entry["type"] not in ends]
        return status

    yield mock.patch.object(statuses, "status_of", following)


def _deletions_are_missed() -> Iterator[_Patch]:
    yield mock.patch.object(Store, "remove", return_value=None)


def _remake_while_running() -> Iterator[_Patch]:
    decide = lifecycle.decide

    def impatient(observed: ObservedJob) -> Any:
        action = decide(observed)
        if isinstance(action, actions.ReportErrors) and observed.job_set is not None:
            return actions.Create((), actions.Inputs(from_snapshot=True))
        return action

    async def delete_first(self: Executor, observed: ObservedJob, action: Any) -> ActionEffect:
        if observed.job_set is not None:
            metadata = observed.job_set["metadata"]
            await self._client.delete(
                JOB_SETS, metadata["name"], namespace=metadata["namespace"], uid=uid_of(observed.job_set)
            )
            return ActionEffect()
        return await create(self, observed, action)

    create = Executor._create
    yield mock.patch.object(reconcile, "decide", impatient)
    yield mock.patch.object(Executor, "_create", delete_first)


def _late_job_sets_stay() -> Iterator[_Patch]:
    yield mock.patch.object(lifecycle, "_is_active", return_value=False)
    yield mock.patch.object(ObservedJob, "is_stale_create", False)


def _cache_says_it_goes_on() -> Iterator[_Patch]:
    read, delete = Observer.read_job_set, Executor._delete

    async def remember(self: Observer, step: Any) -> None:
        with mock.patch.object(type(self._cache), "record_write"):
            await read(self, step)

    async def of_any_version(self: Executor, *arguments: Any, **options: Any) -> None:
        await delete(self, *arguments, **{**options, "version": None})

    yield mock.patch.object(Observer, "read_job_set", remember)
    yield mock.patch.object(Executor, "_delete", of_any_version)


def _unlabeled_objects_stay() -> Iterator[_Patch]:
    yield mock.patch.object(reconcile, "needs_search", return_value=False)


DEFECTS: Final[Mapping[str, tuple[Callable[[], Iterator[_Patch]], tuple[str, ...]]]] = {
    "a lost JobSet counts as a first build": (_lost_is_first_build, ("delete JobSet",)),
    "the cache alone says that a JobSet is lost": (_unconfirmed, ("unlabel JobSet",)),
    "a remake is not recorded": (_remake_unrecorded, ("edit snapshot", "suspend TrainJob", "resume TrainJob")),
    "suspending reads the snapshot first": (_suspend_reads_the_snapshot, ("delete snapshot", "suspend TrainJob")),
    "PodGroups are applied with force": (_forced_apply, ("foreign object",)),
    "an object that exists is ours": (_owner_unchecked, ("foreign object",)),
    "the TTL is set from the start": (_ttl_from_the_start, ("kill", "complete JobSet")),
    "the PodGroup stays after the end": (_pod_group_stays, ()),
    "the status is written after a success only": (_status_after_success_only, ("suspend TrainJob", "delete runtime")),
    "refusals wait for an event": (_refusals_wait_for_events, ("begin", "end")),
    "errors are not tried again": (_errors_are_not_retried, ("begin", "end")),
    "the end goes with the JobSet": (_end_follows_the_job_set, ("complete JobSet", "delete JobSet")),
    "deletions are missed by the cache": (_deletions_are_missed, ("delete JobSet",)),
    "the cache alone says that a JobSet has not ended": (
        _cache_says_it_goes_on,
        ("suspend TrainJob", "complete and resume TrainJob"),
    ),
    "objects without the label stay after the end": (_unlabeled_objects_stay, ("unlabel JobSet", "complete JobSet")),
    "a JobSet that was created late stays": (_late_job_sets_stay, ("create of JobSet", "complete JobSet")),
    "a refused job is deleted and made again": (_remake_while_running, ("delete PodGroup", "edit runtime")),
}
"""How to seed each, and the steps that its histories have more of than others."""


@contextlib.contextmanager
def seeded(name: str) -> Iterator[None]:
    """Run with one defect."""
    with contextlib.ExitStack() as stack:
        for patch in DEFECTS[name][0]():
            stack.enter_context(patch)
        yield
