"""Cluster cache: the informers, and the render context built from them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from trainyard.api import ClusterTrainingRuntime, Platform, Runtime, TenantPolicy, TrainingRuntime, parse
from trainyard.api.constants import (
    CLUSTER_TRAINING_RUNTIME,
    GROUP,
    PLATFORM_NAME,
    TENANT_POLICY_NAME,
    TRAINING_RUNTIME,
)
from trainyard.controller import resources
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, kept_metadata, owns, require_owner
from trainyard.controller.job_sets import active_replicated_jobs, summary
from trainyard.controller.status import runtime_reference
from trainyard.errors import TrainyardError
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext, StatusServerAddress
from trainyard.kube import kinds, training_kinds
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.resource import Key, Object, Resource, uid_of, version_of
from trainyard.kube.store import StoreChange

_LOG = logging.getLogger(__name__)
_RETRY, _OPTIONAL_RETRY = 2.0, 30.0
"""Longest wait, in seconds, for a resource that is not served yet."""
_OPTIONAL_SETTLE_SECONDS = 5.0
"""Seconds after which nothing waits for an optional resource whose lists fail, such as by a conversion webhook."""


class ClusterCache:
    """The informers of one controller process.

    Parameters
    ----------
    client
        API client.
    base
        Base of every render context.
    namespaces
        Whether to watch namespaces, whose labels policies need.
    authority
        Returns the CA bundle of the status server, None while it is not known; None if this process does not run the
        status server, regardless of the Platform.
    """

    def __init__(
        self,
        client: Client,
        base: RenderContext | None = None,
        *,
        namespaces: bool = False,
        authority: Callable[[], str | None] | None = None,
    ) -> None:
        self._client = client
        self._base = base or RenderContext()
        self._platform: tuple[tuple[str, int] | None, RenderContext] = (None, self._base)
        self._parsed: dict[str, tuple[int, Runtime]] = {}
        self.train_jobs = Informer(client, training_kinds.TRAIN_JOBS)
        self.job_sets = Informer(client, training_kinds.JOB_SETS, label_selector=TRAIN_JOB_LABEL, transform=summary)
        self.pod_groups = tuple(
            Informer(
                client,
                resource,
                label_selector=TRAIN_JOB_LABEL,
                transform=_metadata_only,
                missing_retry=_OPTIONAL_RETRY if child.optional else _RETRY,
                settle_after=_OPTIONAL_SETTLE_SECONDS if child.optional else None,
            )
            for resource, child in resources.GANG_OBJECTS.items()
        )
        self.training_runtimes = Informer(client, training_kinds.TRAINING_RUNTIMES)
        self.cluster_training_runtimes = Informer(client, training_kinds.CLUSTER_TRAINING_RUNTIMES)
        for runtimes in (self.training_runtimes, self.cluster_training_runtimes):
            runtimes.subscribe(self._forget_runtime)
        self.tenant_policies = Informer(client, training_kinds.TENANT_POLICIES)
        self.platforms = Informer(client, training_kinds.PLATFORMS)
        self.priority_classes = Informer(client, kinds.PRIORITY_CLASSES, transform=_metadata_only)
        self.namespaces = Informer(client, kinds.NAMESPACES, transform=_labels_only)
        self._watches_namespaces = namespaces
        self._authority = authority

    @property
    def informers(self) -> Sequence[Informer]:
        """All informers."""
        return (*self.owned, *self.inputs)

    @property
    def owned(self) -> Sequence[Informer]:
        """Informers of TrainJobs and their children."""
        return (self.train_jobs, *self.children)

    @property
    def inputs(self) -> Sequence[Informer]:
        """Informers of the other inputs of rendering."""
        return (
            self.training_runtimes,
            self.cluster_training_runtimes,
            self.tenant_policies,
            self.platforms,
            self.priority_classes,
            *((self.namespaces,) if self._watches_namespaces else ()),
        )

    @property
    def serves_status(self) -> bool:
        """Whether this process accepts progress reports of training code."""
        return self._status_server() is not None

    @property
    def settled(self) -> bool:
        """Whether all informers are settled."""
        return all(informer.settled for informer in self.informers)

    async def wait_settled(self) -> None:
        """Wait until all informers are settled."""
        await asyncio.gather(*(informer.wait_settled() for informer in self.informers))

    @property
    def children(self) -> Sequence[Informer]:
        """Informers of JobSets and PodGroups of TrainJobs."""
        return (self.job_sets, *self.pod_groups)

    @property
    def optional(self) -> Sequence[Informer]:
        """Informers of children that a cluster may lack: nothing but the jobs that use them depends on them."""
        kinds_of_gangs = zip(self.pod_groups, resources.GANG_OBJECTS.values(), strict=True)
        return tuple(informer for informer, child in kinds_of_gangs if child.optional)

    @property
    def readable_pod_groups(self) -> Sequence[Informer]:
        """Informers of PodGroups without the optional ones that fail."""
        return tuple(each for each in self.pod_groups if each.failure is None or each not in self.optional)

    def job_set(self, train_job: Object) -> Object | None:
        """Return the cached summary of the JobSet that a TrainJob owns, or None."""
        return _owned(self.job_sets, train_job)

    def pod_groups_of(self, train_job: Object) -> tuple[tuple[Resource, Object], ...]:
        """Return the PodGroups that a TrainJob owns, with their resources."""
        found = ((informer.resource, _owned(informer, train_job)) for informer in self.pod_groups)
        return tuple((resource, body) for resource, body in found if body is not None)

    def require_no_conflict(self, body: Object, train_job: Object) -> None:
        """Check that no cached object of another owner has the name of an object to be created.

        Raises
        ------
        OwnershipConflictError
            If such an object exists.
        """
        for informer in self.children:
            if (informer.resource.api_version, informer.resource.kind) == (body["apiVersion"], body["kind"]):
                stored = informer.store.get(*_key(train_job))
                if stored is not None:
                    require_owner(informer.resource, stored, train_job)

    def record_write(self, body: Object) -> None:
        """Store the response of a write or read of a child; without the label, remove it: its watch has ended."""
        is_labeled = TRAIN_JOB_LABEL in (body["metadata"].get("labels") or {})
        for informer in self.children:
            if (informer.resource.api_version, informer.resource.kind) != (body["apiVersion"], body["kind"]):
                continue
            if is_labeled:
                informer.record_write(body)
            else:
                informer.store.remove(body)

    def runtime(self, train_job: Object) -> Runtime | None:
        """Return the runtime that a TrainJob references from the cache, or None.

        Raises
        ------
        TrainyardError
            If the stored runtime does not match its schema.
        """
        informer, namespace, name = self._runtime_informer(train_job)
        body = informer.store.get(namespace, name) if informer is not None else None
        return None if body is None else self._parse_cached(body)

    async def find_runtime(self, train_job: Object) -> Runtime | None:
        """Return the runtime that a TrainJob references from the cache or, if not cached, from the API server."""
        informer, namespace, name = self._runtime_informer(train_job)
        if informer is None or not name:
            return None
        body = await self.find(informer, name, namespace)
        return None if body is None else _parse(body)

    async def find(self, informer: Informer, name: str, namespace: str = "") -> Object | None:
        """Return an object from the cache or, if not cached, from the API server."""
        body = informer.store.get(namespace, name)
        if body is None:
            body = await self._client.find(informer.resource, name, namespace=namespace or None)
        return body

    def context(self, train_job: Object) -> RenderContext:
        """Return the render context of a TrainJob."""
        metadata = train_job["metadata"]
        namespace = metadata.get("namespace") or "default"
        policy = self.tenant_policies.store.get(namespace, TENANT_POLICY_NAME)
        queue = parse(TenantPolicy, policy).spec.default_queue if policy is not None else None
        known = self.priority_classes.store.keys() if self.priority_classes.synced else None
        job_set = self.job_sets.store.get(namespace, metadata.get("name") or "")
        return replace(
            self.platform_context(),
            default_queue=queue,
            priority_classes=None if known is None else frozenset(name for _, name in known),
            active_replicated_jobs=active_replicated_jobs(job_set),
            status_server=self._status_server(),
        )

    def _status_server(self) -> StatusServerAddress | None:
        server = self.platform_context().status_server
        if server is None or self._authority is None:
            return None
        return replace(server, authority=self._authority())

    def platform_context(self) -> RenderContext:
        """Return the context derived from the Platform object, computed once per version."""
        body = self.platforms.store.get("", PLATFORM_NAME)
        identity = (uid_of(body), version_of(body)) if body is not None else None
        if self._platform[0] != identity:
            self._platform = identity, context_of(_platform(body), self._base)
        return self._platform[1]

    def _runtime_informer(self, train_job: Object) -> tuple[Informer | None, str, str]:
        group, kind, name = runtime_reference(train_job)
        if group == GROUP and kind == CLUSTER_TRAINING_RUNTIME:
            return self.cluster_training_runtimes, "", name
        if group == GROUP and kind == TRAINING_RUNTIME:
            return self.training_runtimes, train_job["metadata"].get("namespace") or "default", name
        return None, "", name

    def _parse_cached(self, body: Object) -> Runtime:
        """Parse a cached runtime, once per version."""
        version, found = self._parsed.get(uid_of(body), (None, None))
        if found is None or version != version_of(body):
            found = _parse(body)
            self._parsed[uid_of(body)] = version_of(body), found
        return found

    def _forget_runtime(self, change: StoreChange) -> None:
        if change.old is not None and (change.new is None or uid_of(change.old) != uid_of(change.new)):
            self._parsed.pop(uid_of(change.old), None)


def _parse(body: Object) -> Runtime:
    namespaced = body["kind"] == TRAINING_RUNTIME
    return parse(TrainingRuntime, body) if namespaced else parse(ClusterTrainingRuntime, body)


def _platform(body: Object | None) -> Platform | None:
    try:
        return None if body is None else parse(Platform, body)
    except TrainyardError as error:
        _LOG.warning("the Platform object is invalid and ignored: %s", error)
        return None


def _metadata_only(body: Object) -> Object:
    metadata = kept_metadata(body)
    return {"apiVersion": body.get("apiVersion"), "kind": body.get("kind"), "metadata": metadata}


def _labels_only(body: Object) -> Object:
    kept = _metadata_only(body)
    kept["metadata"]["labels"] = body["metadata"].get("labels") or {}
    return kept


def _owned(informer: Informer, train_job: Object) -> Object | None:
    body = informer.store.get(*_key(train_job))
    return body if body is not None and owns(train_job, body) else None


def _key(train_job: Object) -> Key:
    return train_job["metadata"].get("namespace") or "", train_job["metadata"]["name"]
