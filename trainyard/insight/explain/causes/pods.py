"""Causes in pods: images, configuration, volumes, containers that end, scheduling gates."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, sequence, text, time, whole
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState, gated, gated_by_kueue

_MAXIMUM: Final = 300
_IMAGE: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
    }
)
_REFERENCE: Final = "CreateContainerConfigError"
"""Reason of a container that refers to a missing object of the namespace."""
_CONFIGURATION: Final = frozenset(
    {
        *(_REFERENCE, "CreateContainerError", "RunContainerError"),
        *("PreCreateHookError", "PreStartHookError", "PostStartHookError"),
    }
)
_CRASH: Final = "CrashLoopBackOff"
_MOUNT: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX: Final = frozenset({"FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources"})
_WAITS: Final = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
_SHOWN: Final = 3
_CREATED_WITHIN: Final = datetime.timedelta(seconds=10)
"""Time in which the controller manager creates the claim of an ephemeral volume."""

IMAGE: Final = Cause(
    "image-pull",
    "Image that cannot be pulled",
    "`status.containerStatuses` of the pods",
    "{count} of {pods} pods cannot pull image {image} ({reason}): {message}",
    "correct the image, or add a pull secret to the ServiceAccount of the job",
    {
        **{"count": 2, "pods": 2, "image": "example.com/train:2", "reason": "ImagePullBackOff"},
        "message": "manifest unknown",
    },
)
CONFIGURATION: Final = Cause(
    "container-configuration",
    "Container that cannot be created",
    "`status.containerStatuses` of the pods",
    "container {container} of pod {pod} cannot be created ({reason}): {message}",
    "{remedy}",
    {
        **{"container": "node", "pod": "train-node-0-0", "reason": "CreateContainerConfigError"},
        "message": 'secret "token" not found',
        "remedy": "create what is missing in namespace vision, or correct the reference",
    },
)
CRASH: Final = Cause(
    "container-crash",
    "Container that ends again and again",
    "`status.containerStatuses` of the pods",
    "container {container} of pod {pod} crashes (restarts: {restarts}), last with exit code {code} ({reason})",
    "read its log: `kubectl logs -n {namespace} {pod} -c {container} --previous`",
    {
        **{"container": "node", "pod": "train-node-0-0", "restarts": 4, "code": 137, "reason": "OOMKilled"},
        "namespace": "vision",
    },
)
VOLUME_MISSING: Final = Cause(
    "volume-missing",
    "Missing PersistentVolumeClaim",
    "`spec.volumes` of the pods; the PersistentVolumeClaims of the namespace",
    "PersistentVolumeClaim {claim} does not exist in namespace {namespace}",
    "{remedy}",
    {"claim": "datasets", "namespace": "vision", "remedy": "create it, or correct claimName"},
)
VOLUME_PENDING: Final = Cause(
    "volume-pending",
    "Pending PersistentVolumeClaim",
    "`status.phase` of the PersistentVolumeClaims that the pods use, and their events",
    "PersistentVolumeClaim {claim} (storage class {storage_class}) is pending{reason}",
    "ask the platform team for a volume, or use another storage class",
    {
        **{"claim": "datasets", "storage_class": "fast"},
        "reason": ': storageclass.storage.k8s.io "fast" not found',
    },
)
MOUNT: Final = Cause(
    "volume-mount",
    "Volume that cannot be mounted",
    "events of the pods with reason FailedMount or FailedAttachVolume",
    "a volume of pod {pod} cannot be mounted: {message}",
    "create what is missing, or ask the platform team to look at the volume",
    {"pod": "train-node-0-0", "message": 'MountVolume.SetUp failed for volume "keys": secret "keys" not found'},
)
SANDBOX: Final = Cause(
    "pod-sandbox",
    "Pod that its node cannot start",
    "events of the pods with reason FailedCreatePodSandBox, NetworkNotReady or FailedPrepareDynamicResources",
    "node {node} cannot start pod {pod}: {message}",
    "correct the network, RuntimeClass or ResourceClaim that the message names, or ask the platform team about {node}",
    {
        **{"node": "rack-0-node-0", "pod": "train-node-0-0"},
        "message": 'Failed to create pod sandbox: plugin type="multus" failed: network rdma not found',
    },
)
GATED: Final = Cause(
    "pods-gated",
    "Scheduling gates",
    "`spec.schedulingGates` of the pods",
    "{count} of {pods} pods have the scheduling gates {gates}, and are not scheduled until these are removed",
    "look at the controller that removes the gates",
    {"count": 2, "pods": 2, "gates": ["kueue.x-k8s.io/admission"]},
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    yield from _gated(job_state)
    yield from _containers(job_state)
    if job_state.state is not ExplainedState.RUNNING:
        yield from _claims(job_state)
        yield from _mounts(job_state)


def _gated(job_state: JobState) -> Iterator[Found]:
    kueue = gated_by_kueue(job_state)
    held = [pod for pod in job_state.pods if gated(pod) and not any(pod is each for each in kueue)]
    if held:
        gates = sorted({text(gate, "name") for pod in held for gate in sequence(pod, "spec", "schedulingGates")})
        yield GATED.found(count=len(held), pods=len(job_state.pods), gates=gates)


def _containers(job_state: JobState) -> Iterator[Found]:
    pulling: list[tuple[Body, Body, Body]] = []
    for pod in job_state.pods:
        for status in _statuses(pod):
            waiting = mapping(status, "state", "waiting")
            reason = text(waiting, "reason")
            where = {"container": text(status, "name"), "pod": name_of(pod)}
            if reason in _IMAGE:
                pulling.append((pod, status, waiting))
            elif reason in _CONFIGURATION:
                message = text(waiting, "message")[:_MAXIMUM]
                home = _home(job_state)
                remedy = (
                    f"create what is missing in namespace {home}, or correct the reference"
                    if reason == _REFERENCE
                    else "correct the command, the mounts or the image of the container, as the message says"
                )
                yield CONFIGURATION.found(**where, reason=reason, message=message, namespace=home, remedy=remedy)
            elif reason == _CRASH:
                last = mapping(status, "lastState", "terminated")
                yield CRASH.found(
                    **where,
                    restarts=whole(status, "restartCount"),
                    code=whole(last, "exitCode"),
                    reason=text(last, "reason") or "Error",
                    namespace=_home(job_state),
                )
    if pulling:
        images = list(dict.fromkeys(text(status, "image") for _, status, _ in pulling))
        waiting = pulling[0][2]
        yield IMAGE.found(
            count=len({name_of(pod) for pod, _, _ in pulling}),
            pods=len(job_state.pods),
            image=", ".join(images[:_SHOWN]) + (", …" if len(images) > _SHOWN else ""),
            reason=text(waiting, "reason"),
            message=text(waiting, "message")[:_MAXIMUM] or "the kubelet gives no reason",
        )


def _statuses(pod: Body) -> Iterator[Body]:
    yield from sequence(pod, "status", "initContainerStatuses")
    yield from sequence(pod, "status", "containerStatuses")


def _claims(job_state: JobState) -> Iterator[Found]:
    if not job_state.index.knows(Kind.CLAIM):
        return
    for name, remedy in _claim_names(job_state).items():
        claim = job_state.index.find(Kind.CLAIM, name, job_state.namespace)
        if claim is None:
            if remedy:
                yield VOLUME_MISSING.found(claim=name, namespace=_home(job_state), remedy=remedy)
        elif text(claim, "status", "phase") == "Pending":
            events = [each for each in job_state.index.events(claim) if text(each, "message")]
            if events and text(events[-1], "reason") in _WAITS:
                continue  # it is bound when the pods are placed
            reason = f": {text(events[-1], 'message')[:_MAXIMUM]}" if events else ""
            storage_class = text(claim, "spec", "storageClassName") or "default"
            yield VOLUME_PENDING.found(claim=name, storage_class=storage_class, reason=reason)
        elif text(claim, "status", "phase") == "Lost":
            yield VOLUME_PENDING.found(
                claim=name,
                storage_class=text(claim, "spec", "storageClassName") or "default",
                reason=": it lost its PersistentVolume",
            )


def _claim_names(job_state: JobState) -> dict[str, str]:
    """Return the claims of the pods, and for each what to do if it does not exist; empty: wait for it."""
    names: dict[str, str] = {}
    for spec in job_state.pod_specs:
        for volume in sequence(spec, "volumes"):
            if name := text(volume, "persistentVolumeClaim", "claimName"):
                names[name] = "create it, or correct claimName"
    for pod in job_state.pods:
        created = time(pod, "metadata", "creationTimestamp")
        late = created is None or job_state.index.observed.now - created > _CREATED_WITHIN
        remedy = f"Kubernetes creates it for the pod: see `kubectl describe pod {name_of(pod)} -n {_home(job_state)}`"
        for volume in sequence(pod, "spec", "volumes"):
            if mapping(volume, "ephemeral"):
                names[f"{name_of(pod)}-{text(volume, 'name')}"] = remedy if late else ""
    return names


def _mounts(job_state: JobState) -> Iterator[Found]:
    """Yield what keeps nodes from starting the pods that are placed on them."""
    starting = [
        pod for pod in job_state.pods if text(pod, "spec", "nodeName") and text(pod, "status", "phase") != "Running"
    ]
    for pod in starting:
        if found := [each for each in job_state.index.events(pod) if text(each, "reason") in _MOUNT]:
            yield MOUNT.found(pod=name_of(pod), message=text(found[-1], "message")[:_MAXIMUM])
            break
    for pod in starting:
        found = [each for each in job_state.index.events(pod) if text(each, "reason") in _SANDBOX]
        if found and not _has_sandbox(pod):
            message = text(found[-1], "message")[:_MAXIMUM]
            yield SANDBOX.found(node=text(pod, "spec", "nodeName"), pod=name_of(pod), message=message)
            return


def _has_sandbox(pod: Body) -> bool:
    """Return whether a pod has its network: its events are of an earlier attempt."""
    ready = condition(pod, "PodReadyToStartContainers", None)
    return text(ready, "status") == "True" if ready is not None else bool(text(pod, "status", "podIP"))


def _home(job_state: JobState) -> str:
    return job_state.namespace or "default"


FAMILY: Final = Family(
    "Pods",
    6,
    (IMAGE, CONFIGURATION, CRASH, VOLUME_MISSING, VOLUME_PENDING, MOUNT, SANDBOX, GATED),
    _find,
)
