"""The admission webhooks that stand between the controller and what it makes: JobSet's and Volcano's.

Read in jobset v0.12.0 pkg/webhooks/jobset_webhook.go, in the rules of its CRD, and in Volcano's podgroups webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.api_server import Admission, ApiServer, Call, RefusedError
from tests.simulation.kinds import Kind, kind_of
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, QUEUES

_MUTABLE_METADATA = ("annotations", "labels")
_MUTABLE_POD_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")
_IMMUTABLE = ("failurePolicy", "successPolicy", "startupPolicy", "network", "coordinator", "volumeClaimPolicies")


def kind_named(plural: str, group_version: str) -> Kind:
    """Return a served kind."""
    kind = kind_of(group_version, plural)
    assert kind is not None
    return kind


class Webhook(Admission):
    """A webhook of another owner that fails closed and is sometimes away."""

    name = ""
    away = False
    hangs = False
    """Whether it accepts connections and does not answer: the API server waits for its timeout."""
    timeout = 10.0

    def reviews(self, call: Call) -> bool:
        """Return whether the API server asks it about a request."""
        return False

    @property
    def timed_out(self) -> RefusedError:
        """The refusal of the API server after the timeout of the webhook."""
        text = f'Internal error occurred: failed calling webhook "{self.name}": context deadline exceeded'
        return RefusedError(500, "InternalError", text)

    def require(self) -> None:
        """Refuse as the API server does while a fail-closed webhook is away."""
        if self.away:
            text = f'Internal error occurred: failed calling webhook "{self.name}": connection refused'
            raise RefusedError(500, "InternalError", text)


class JobSetWebhook(Webhook):
    """Defaults of a JobSet, and what cannot be changed of it."""

    name = "vjobset.kb.io"
    removes_label = False
    """Whether a further mutating webhook removes the controller's label."""

    def reviews(self, call: Call) -> bool:
        """Return whether the API server asks it about a request: about creates and updates of JobSets."""
        changes = call.verb in ("create", "update", "patch") and not call.subresource
        return call.kind.resource == JOB_SETS and changes

    def mutate(self, call: Call, old: Object | None, new: Object) -> Object:
        """Fill in what the JobSet API defaults."""
        if call.kind.resource != JOB_SETS or call.verb == "delete":
            return new
        self.require()
        if self.removes_label and TRAIN_JOB_LABEL in (new["metadata"].get("labels") or {}):
            labels = {name: value for name, value in new["metadata"]["labels"].items() if name != TRAIN_JOB_LABEL}
            new = {**new, "metadata": {**new["metadata"], "labels": labels}}
        spec = dict(new.get("spec") or {})
        spec.setdefault("successPolicy", {"operator": "All"})
        spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
        spec["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **(spec.get("network") or {})}
        spec["replicatedJobs"] = [_defaulted(job) for job in spec.get("replicatedJobs") or ()]
        return {**new, "spec": spec}

    def validate(self, call: Call, old: Object | None, new: Object | None) -> None:
        """Refuse changes of what is immutable."""
        if call.kind.resource != JOB_SETS or new is None:
            return
        self.require()
        if old is None:
            return
        wrong = sorted(immutable_changes(old["spec"], new["spec"]))
        if wrong:
            listed = "; ".join(f"{path}: Invalid value: field is immutable" for path in wrong)
            text = f'JobSet.jobset.x-k8s.io "{call.name}" is invalid: {listed}'
            raise RefusedError(422, "Invalid", f'admission webhook "{self.name}" denied the request: {text}')


class PodGroupWebhook(Webhook):
    """A PodGroup is admitted only into a queue that exists and is open."""

    name = "validatepodgroup.volcano.sh"

    def __init__(self) -> None:
        self.server: ApiServer | None = None

    def reviews(self, call: Call) -> bool:
        """Return whether the API server asks it about a request: about creates of PodGroups."""
        return call.kind.resource == POD_GROUPS and call.verb == "create"

    def validate(self, call: Call, old: Object | None, new: Object | None) -> None:
        """Refuse PodGroups of queues that take none."""
        if call.kind.resource != POD_GROUPS or old is not None or new is None:
            return
        self.require()
        assert self.server is not None
        name = (new.get("spec") or {}).get("queue") or "default"
        queue = self.server.find(kind_named(QUEUES.plural, QUEUES.path().rpartition("/")[0]), name)
        state = None if queue is None else (queue.body.get("status") or {}).get("state")
        if state != "Open":
            what = "not found" if queue is None else f"state is {state!r}"
            text = f"unable to find queue {name}: {what}" if queue is None else f"queue {name} {what}"
            raise RefusedError(400, "", f'admission webhook "{self.name}" denied the request: {text}')


def _defaulted(job: Mapping[str, Any]) -> Object:
    template = dict(job.get("template") or {})
    spec = {"completionMode": "Indexed", **(template.get("spec") or {})}
    pod = dict(spec.get("template") or {})
    pod["spec"] = {"restartPolicy": "OnFailure", **(pod.get("spec") or {})}
    return {"replicas": 1, "groupName": "default", **job, "template": {**template, "spec": {**spec, "template": pod}}}


def immutable_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that an update changes but may not."""
    yields = bool(old.get("suspend")) or bool(new.get("suspend"))
    before = {job["name"]: job for job in old.get("replicatedJobs") or ()}
    jobs = [_munged(job, before.get(job["name"])) if yields else job for job in new.get("replicatedJobs") or ()]
    if jobs != list(old.get("replicatedJobs") or ()):
        yield "spec.replicatedJobs"
    if new.get("managedBy") != old.get("managedBy"):
        yield "spec.managedBy"
    for name in _IMMUTABLE:
        if new.get(name) != old.get(name):
            yield f"spec.{name}"


def _munged(job: Mapping[str, Any], old: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a replicated job with what may change in it as it was."""
    if old is None:
        return job
    pod, was = job["template"]["spec"]["template"], old["template"]["spec"]["template"]
    metadata = _as_before(pod.get("metadata") or {}, was.get("metadata") or {}, _MUTABLE_METADATA)
    spec = _as_before(pod.get("spec") or {}, was.get("spec") or {}, _MUTABLE_POD_FIELDS)
    changed = {**pod, "metadata": metadata, "spec": spec}
    if not metadata and "metadata" not in was:
        changed.pop("metadata")
    return {**job, "template": {**job["template"], "spec": {**job["template"]["spec"], "template": changed}}}


def _as_before(new: Mapping[str, Any], old: Mapping[str, Any], names: tuple[str, ...]) -> Object:
    result = {name: value for name, value in new.items() if name not in names}
    return {**result, **{name: old[name] for name in names if name in old}}
