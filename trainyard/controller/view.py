"""What the controller sees of the cluster: the informers, and what rendering needs to know from them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trainyard.api import ClusterTrainingRuntime, Runtime, TenantPolicy, TrainingRuntime, parse
from trainyard.api.constants import (
    CLUSTER_TRAINING_RUNTIME,
    GROUP,
    GROUP_NAME_ANNOTATION,
    TENANT_POLICY_NAME,
    TRAINING_RUNTIME,
)
from trainyard.controller import resources
from trainyard.kube import Client, Informer, Object, uid_of, version_of
from trainyard.render import RenderContext

__all__ = ["ClusterView", "runtime_reference"]

Reference = tuple[str, str, str]


def runtime_reference(train_job: Object) -> Reference:
    """Return API group, kind and name of the runtime a TrainJob names, with the API's defaults."""
    reference = (train_job.get("spec") or {}).get("runtimeRef") or {}
    group = reference.get("apiGroup")
    return (
        GROUP if group is None else group,
        reference.get("kind") or CLUSTER_TRAINING_RUNTIME,
        reference.get("name") or "",
    )


class ClusterView:
    """The informers of one controller process.

    Parameters
    ----------
    client
        API client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._parsed: dict[tuple[str, int], Runtime] = {}
        self.train_jobs = Informer(client, resources.TRAIN_JOBS)
        self.job_sets = Informer(client, resources.JOB_SETS, transform=_job_set)
        self.pod_groups = Informer(client, resources.POD_GROUPS, transform=_metadata_only)
        self.training_runtimes = Informer(client, resources.TRAINING_RUNTIMES)
        self.cluster_training_runtimes = Informer(client, resources.CLUSTER_TRAINING_RUNTIMES)
        self.tenant_policies = Informer(client, resources.TENANT_POLICIES)
        self.priority_classes = Informer(client, resources.PRIORITY_CLASSES, transform=_metadata_only)

    @property
    def informers(self) -> Sequence[Informer]:
        """All informers."""
        return (*self.owned, *self.inputs)

    @property
    def owned(self) -> Sequence[Informer]:
        """TrainJobs and what is made for them."""
        return (self.train_jobs, self.job_sets, self.pod_groups)

    @property
    def inputs(self) -> Sequence[Informer]:
        """What a TrainJob is rendered from, beside itself."""
        return (self.training_runtimes, self.cluster_training_runtimes, self.tenant_policies, self.priority_classes)

    @property
    def settled(self) -> bool:
        """Whether every kind that is served is completely known."""
        return all(informer.settled for informer in self.informers)

    async def wait_settled(self) -> None:
        """Wait until every kind that is served is completely known."""
        await asyncio.gather(*(informer.wait_settled() for informer in self.informers))

    def runtime(self, train_job: Object) -> Runtime | None:
        """Return the runtime a TrainJob names, None where it is not known.

        Raises
        ------
        TrainyardError
            If the stored runtime does not fit its schema.
        """
        informer, namespace, name = self._where(train_job)
        body = informer.store.get(namespace, name) if informer is not None else None
        return None if body is None else self._parse(body)

    async def live_runtime(self, train_job: Object) -> Runtime | None:
        """Return the runtime a TrainJob names, asking the API server where it is not known yet."""
        informer, namespace, name = self._where(train_job)
        if informer is None or not name:
            return None
        body = informer.store.get(namespace, name)
        if body is None:
            body = await self._client.find(informer.resource, name, namespace=namespace or None)
        return None if body is None else self._parse(body)

    def context(self, train_job: Object) -> RenderContext:
        """Return what rendering a TrainJob needs to know of the cluster."""
        metadata = train_job["metadata"]
        namespace = metadata.get("namespace") or "default"
        policy = self.tenant_policies.store.get(namespace, TENANT_POLICY_NAME)
        queue = parse(TenantPolicy, policy).spec.default_queue if policy is not None else None
        known = self.priority_classes.store.keys() if self.priority_classes.synced else None
        job_set = self.job_sets.store.get(namespace, metadata.get("name") or "")
        observed = ((job_set or {}).get("status") or {}).get("replicatedJobsStatus") or ()
        return RenderContext(
            default_queue=queue,
            priority_classes=None if known is None else frozenset(name for _, name in known),
            active_replicated_jobs=tuple(entry["name"] for entry in observed if entry.get("active")),
        )

    def _where(self, train_job: Object) -> tuple[Informer | None, str, str]:
        group, kind, name = runtime_reference(train_job)
        if group == GROUP and kind == CLUSTER_TRAINING_RUNTIME:
            return self.cluster_training_runtimes, "", name
        if group == GROUP and kind == TRAINING_RUNTIME:
            return self.training_runtimes, train_job["metadata"].get("namespace") or "default", name
        return None, "", name

    def _parse(self, body: Object) -> Runtime:
        identity = uid_of(body), version_of(body)
        found = self._parsed.get(identity)
        if found is None:
            namespaced = body["kind"] == TRAINING_RUNTIME
            found = parse(TrainingRuntime, body) if namespaced else parse(ClusterTrainingRuntime, body)
            if len(self._parsed) >= 1024:
                self._parsed.clear()
            self._parsed[identity] = found
        return found


_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)


def _metadata_only(body: Object) -> Object:
    metadata = {name: body["metadata"][name] for name in _METADATA if name in body["metadata"]}
    return {"apiVersion": body.get("apiVersion"), "kind": body.get("kind"), "metadata": metadata}


def _job_set(body: Object) -> Object:
    kept = _metadata_only(body)
    spec = body.get("spec") or {}
    templates = [job["template"]["spec"]["template"] for job in spec.get("replicatedJobs") or ()]
    annotations = [(template.get("metadata") or {}).get("annotations") or {} for template in templates]
    gang = any(GROUP_NAME_ANNOTATION in names for names in annotations)
    kept["spec"] = {"suspend": bool(spec.get("suspend")), "gang": gang}
    kept["status"] = body.get("status") or {}
    return kept
