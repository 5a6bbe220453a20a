"""Causes in admission: what webhooks, policies and quotas refuse of the objects that controllers create."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Final

from trainyard.api.constants import BLOCKED, POLICY_DENIED, RESOURCES_CREATION_FAILED
from trainyard.cluster_state.body_fields import Body, condition, name_of, sequence, text, time, whole
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.named_objects import short_kind

_MAXIMUM: Final = 400
_RETRIED: Final = datetime.timedelta(minutes=15)
"""Longer than controllers wait before they create an object again."""
_RULE: Final = re.compile(r"(?:^|denied (?:the )?request: )(?!POL-000)([A-Z]{3}-[0-9]{3})\b:? ?")
"""Identifier at the start of what a rule says; elsewhere it is another word, as SHA-256."""
_NO_DECISION: Final = "POL-000"
_PREFIX: Final = "TrainJob resources reconciliation failed: "
_PATH: Final = re.compile(r"\b((?:spec|metadata)(?:[.\[][^\s:,;]*)?)")
_CALLING: Final = re.compile(r"failed calling webhook \"([^\"]+)\": (.+)", re.DOTALL)
_DENIED: Final = re.compile(
    r"(?:admission webhook|ValidatingAdmissionPolicy) ['\"]([^'\"]+)['\"].*? denied(?: the)? request:? ?(.*)", re.DOTALL
)
_QUOTA: Final = re.compile(r"exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (.+)", re.DOTALL)
_UNCOUNTED: Final = re.compile(r"status unknown for quota: ([^,\s]+)")
_CREATION: Final = frozenset(
    {"FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed"}
)

POLICY: Final = Cause(
    "policy-denied",
    "Admission rule that rejects what the controller creates",
    "events of the TrainJob with reason PolicyDenied, and rejections by ValidatingAdmissionPolicies",
    "rule {rule} rejects {object} at {field}: {reason}",
    "change {field}, or ask the platform team about rule {rule} (docs/reference/rules.md)",
    {
        **{"rule": "ACC-002", "object": "TrainJob vision/train", "field": "spec.trainer.resourcesPerNode"},
        "reason": "40 accelerators exceed the limit of 32 of the tenant",
    },
)
POLICY_SERVER: Final = Cause(
    "policy-server-away",
    "Policy server that does not answer",
    "events of the TrainJob with rule POL-000",
    "the policy server gives no decision, and without one nothing is created: {reason}",
    "wait a minute: the controller tries again; then ask the platform team to look at the policy server",
    {"reason": "POL-000 the policy server did not answer within 2 s"},
)
WEBHOOK_AWAY: Final = Cause(
    "webhook-away",
    "Webhook that does not answer",
    "events about rejected creations: `failed calling webhook`",
    "webhook {webhook} does not answer, so the API server rejects {object}: {reason}",
    "ask the platform team to look at the Deployment behind {webhook}; creations are tried again",
    {
        **{"webhook": "validatepod.volcano.sh", "object": "the pods of Job train-node-0"},
        "reason": "dial tcp 10.0.0.7:443: connect: connection refused",
    },
)
WEBHOOK_REJECTED: Final = Cause(
    "webhook-rejected",
    "Webhook that rejects what a controller creates",
    "events about rejected creations: `denied the request`",
    "webhook {webhook} rejects {object}: {reason}",
    "change what the message names, in the job or in its runtime",
    {
        **{"webhook": "validatejob.volcano.sh", "object": "the pods of Job train-node-0"},
        "reason": "spec.queue: can only submit job to queue with state `Open`",
    },
)
QUOTA: Final = Cause(
    "quota-exceeded",
    "Object quota of the namespace",
    "events about rejected creations: `exceeded quota`",
    "ResourceQuota {quota} of namespace {namespace} rejects {object}: it requests {requested}, "
    "and {used} of {limited} are used",
    "delete finished jobs or unused objects of the namespace, or ask the platform team for a larger quota",
    {
        **{"quota": "tenant", "namespace": "vision", "object": "the pods of Job train-node-0", "requested": "pods=1"},
        **{"used": "pods=200", "limited": "pods=200"},
    },
)
UNCOUNTED: Final = Cause(
    "quota-not-counted",
    "Quota that is not counted yet",
    "events about rejected creations: `status unknown for quota`; status of the ResourceQuota",
    "ResourceQuota {quota} of namespace {namespace} is not counted yet, so the API server rejects {object}",
    "wait: the controller manager counts a new quota within five minutes, and creations are tried again",
    {"quota": "tenant", "namespace": "vision", "object": "TrainJob vision/train"},
)
CREATION: Final = Cause(
    "creation-failed",
    "Objects that cannot be created",
    "warnings about the TrainJob, its JobSet and its Jobs while objects are missing; condition Blocked of the TrainJob",
    "the objects of {object} cannot be created: {reason}",
    "change what the message names; `trainyard check` shows invalid fields before a job is submitted, "
    "but no quotas, other objects or webhooks of the cluster",
    {"object": "TrainJob vision/train", "reason": "spec.trainer.numNodes: 0 is less than 1"},
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    for body, since in _incomplete(job_state):
        for event in (*reversed(job_state.index.events(body)), *_blocked(job_state, body)):
            if text(event, "type") == "Normal" or _is_old(job_state, event, since):
                continue
            found = _of_event(job_state, body, event)
            if found is not None:
                yield found
                break


def _blocked(job_state: JobState, body: Body) -> Iterator[Body]:
    """Yield the condition of a TrainJob whose JobSet cannot be created: it is kept longer than events."""
    blocked = condition(body, BLOCKED) if job_state.job_set is None else None
    if blocked is not None:
        yield blocked


def _is_old(job_state: JobState, event: Body, since: datetime.datetime | None) -> bool:
    """Return whether an event is older than the last success, or too old for a running job: creations are retried."""
    when = time(event, "lastTimestamp") or time(event, "eventTime")
    if when is None:
        return False
    if since is not None and when < since:
        return True
    return job_state.state is ExplainedState.RUNNING and job_state.index.observed.now - when > _RETRIED


def _incomplete(job_state: JobState) -> Iterator[tuple[Body, datetime.datetime | None]]:
    """Yield the objects for which a controller has to create others, and has not; and when it last did."""
    job_set = job_state.job_set
    reads = job_state.reads
    if job_state.train_job is not None and job_set is None and reads(Kind.JOB_SET):
        yield job_state.root, None
    if job_state.holds_job_set:
        # It is resumed, or created again, with the fields of the TrainJob.
        yield job_state.root, time(condition(job_set, "Suspended"), "lastTransitionTime")
    if job_set is not None:
        wanted = sum(whole(part, "replicas", default=1) for part in sequence(job_set, "spec", "replicatedJobs"))
        if len(job_state.jobs) < wanted and reads(Kind.JOB):
            yield job_set, _newest(job_state.jobs)
    for job in job_state.jobs if reads(Kind.POD) else ():
        pods = job_state.index.children(job, Kind.POD)
        succeeded = sum(text(pod, "status", "phase") == "Succeeded" for pod in pods)
        gone = max(0, whole(job, "status", "succeeded") - succeeded)
        finished = sequence(job, "status", "conditions")
        if len(pods) + gone < whole(job, "spec", "parallelism", default=1) and not finished:
            yield job, _newest(pods)
    if job_state.kind == Kind.VOLCANO_JOB and not job_state.all_pods and reads(Kind.POD):
        yield job_state.root, None


def _newest(bodies: Iterable[Body]) -> datetime.datetime | None:
    times = (time(body, "metadata", "creationTimestamp") for body in bodies)
    return max((each for each in times if each is not None), default=None)


def _of_event(job_state: JobState, body: Body, event: Body) -> Found | None:
    message, reason = text(event, "message").removeprefix(_PREFIX), text(event, "reason")
    if not message:
        return None
    own = reason in (POLICY_DENIED, RESOURCES_CREATION_FAILED)
    if not own and reason not in _CREATION and not _DENIED.search(message) and not _CALLING.search(message):
        return None
    what = f"{short_kind(kind_of(body))} {job_state.namespace}/{name_of(body)}"
    made = {Kind.JOB: "the pods of ", Kind.JOB_SET: "the Jobs of "}.get(kind_of(body), "") + what
    namespace = job_state.namespace
    if match := _QUOTA.search(message):
        quota, requested, used, limited = match.groups()
        return QUOTA.found(
            quota=quota, namespace=namespace, object=made, requested=requested, used=used, limited=limited.strip()
        )
    if match := _UNCOUNTED.search(message):
        return UNCOUNTED.found(quota=match[1], namespace=namespace, object=made)
    if _NO_DECISION in message:
        return POLICY_SERVER.found(reason=message[:_MAXIMUM])
    if match := _CALLING.search(message):
        return WEBHOOK_AWAY.found(webhook=match[1], object=made, reason=match[2][:_MAXIMUM].strip())
    if (own or _DENIED.search(message)) and (rule := _RULE.search(message)):
        rest = message[rule.end() :]
        path = _PATH.search(rest)
        reason = rest[path.end() :].removeprefix(":") if path else rest
        return POLICY.found(
            rule=rule[1], object=made, field=path[1] if path else "the object", reason=reason[:_MAXIMUM].strip()
        )
    if match := _DENIED.search(message):
        return WEBHOOK_REJECTED.found(webhook=match[1], object=made, reason=match[2][:_MAXIMUM].strip())
    return CREATION.found(object=made, reason=message[:_MAXIMUM])


FAMILY: Final = Family(
    "Admission and quota",
    9,
    (POLICY, POLICY_SERVER, WEBHOOK_AWAY, WEBHOOK_REJECTED, QUOTA, UNCOUNTED, CREATION),
    _find,
)
