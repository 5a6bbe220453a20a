"""Pods of one role of a legacy job: template, number, and behavior on failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.api.structural import schema_violations
from trainyard.jobs.convert.source import LegacySource, Path, dotted, parts_of
from trainyard.jobs.convert.template_fields import drop_unused_fields
from trainyard.jobs.render.hosts import HOST_NETWORK_DNS, MOST_PODS
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.render.shape import JOB_SET_SPEC

SIDECAR_MESSAGE: Final = "a sidecar (an init container that stays): it ends with the driver"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_CLUSTER_DNS: Final = "ClusterFirst"
_AMOUNT_MAPS: Final = ("limits", "requests", "overhead")
_AMOUNTS: Final = ("sizeLimit", "divisor")
_WRAPPED: Final = "replicatedJobs[0].template.spec.template"


@dataclass
class Part:
    """Draft of one replicatedJob.

    Parameters
    ----------
    name
        Name of the replicatedJob.
    path
        Path of the pod template in the legacy job.
    template
        The pod template; mutable.
    pods
        Pods per replica.
    main
        Name of the main container.
    role
        Path of the role in the legacy job.
    trains
        Whether it is configured by the TrainJob's trainer.
    replicas
        Number of Jobs; more than one only if every pod requires a global index among all parts.
    job
        Further fields of the Job's spec.
    waits_for
        Names of parts that start first, with the required status.
    operator_labels
        Prefixes of the label keys of the legacy operator; empty if it set none on these pods.
    known_labels
        Keys of the operator's labels that these pods have, or that have a substitute.
    index_labels
        Keys that the job names and whose value was the index of the pod.
    """

    name: str
    path: str
    template: Body
    pods: int
    main: str
    role: str = ""
    trains: bool = False
    replicas: int = 1
    job: Body = field(default_factory=dict)
    waits_for: tuple[tuple[str, str], ...] = ()
    operator_labels: tuple[str, ...] = ()
    known_labels: frozenset[str] = frozenset()
    index_labels: tuple[str, ...] = ()

    @property
    def pod(self) -> Body:
        """Return the pod specification."""
        found: Body = self.template["spec"]
        return found

    @property
    def total(self) -> int:
        """Return the number of pods of all replicas."""
        return self.pods * self.replicas

    @property
    def container(self) -> Body:
        """Return the main container."""
        return next(each for each in self.pod["containers"] if each["name"] == self.main)

    @property
    def container_path(self) -> str:
        """Return the path of the main container."""
        return f"{self.path}.spec.containers[{self.pod['containers'].index(self.container)}]"

    @property
    def containers(self) -> list[Body]:
        """Return all containers, including init containers."""
        return [*self.pod["containers"], *self.pod.get("initContainers", ())]

    def first_host(self, job: str) -> str:
        """Return the host name of the first pod of a TrainJob."""
        return self._host(job, 0, 0)

    def hosts(self, job: str) -> list[str]:
        """Return the host names of the pods of a TrainJob."""
        return [self._host(job, replica, index) for replica in range(self.replicas) for index in range(self.pods)]

    def _host(self, job: str, replica: int, index: int) -> str:
        return f"{job}-{self.name}-{replica}-{index}.{job}"


def require_pod_count(source: LegacySource, path: Path, pods: int) -> None:
    """Reject more pods than one Job runs.

    Raises
    ------
    TrainyardError
        There are more.
    """
    if pods > MOST_PODS:
        raise source.malformed(path, f"would run {pods} pods; Kubernetes runs at most {MOST_PODS} in a Job")


def read_part(source: LegacySource, path: Path, name: str, pods: int, mains: Sequence[str] = ()) -> Part:
    """Read a pod template.

    Parameters
    ----------
    path
        Path of the template.
    name
        Name of the replicatedJob.
    pods
        Number of pods.
    mains
        Names of the container that the legacy operator configures, in order of preference; default: the first one.
    """
    text = dotted(path)
    require_pod_count(source, text, pods)
    template = copied(source.mapping(path))
    wrapped = {"replicatedJobs": [{"name": name, "template": {"spec": {"template": template}}}]}
    for fault in schema_violations(wrapped, JOB_SET_SPEC, ""):
        inner = fault.path.lstrip(".").removeprefix(_WRAPPED)
        raise source.malformed(f"{text}{inner}".replace("..", "."), fault.message)
    containers = template["spec"]["containers"]
    if not containers:
        raise source.malformed(f"{text}.spec.containers", "is empty")
    names = [container["name"] for container in [*containers, *template["spec"].get("initContainers", ())]]
    if len(set(names)) < len(names):
        raise source.malformed(f"{text}.spec", f"has two containers of one name: {', '.join(sorted(names))}")
    own = [container["name"] for container in containers]
    main = next((wanted for wanted in mains if wanted in own), own[0])
    part = Part(name, text, template, pods, main, role=text.rpartition(".")[0])
    drop_unused_fields(source, template, text)
    drop_empty_metadata(part)
    _write_amounts(source, template, parts_of(text))
    return part


def set_trainer(source: LegacySource, part: Part) -> None:
    """Mark a part as configured by the TrainJob's trainer: its main container gets the name required by the API."""
    part.trains = True
    if part.main == CONTAINER_NODE:
        return
    for position, other in enumerate(part.containers):
        if other["name"] == CONTAINER_NODE:
            kind = "containers" if position < len(part.pod["containers"]) else "initContainers"
            index = position if kind == "containers" else position - len(part.pod["containers"])
            _rename(source, part, CONTAINER_NODE, "node-sidecar")
            message = f"the name {CONTAINER_NODE} belongs to the training container: now node-sidecar"
            source.changed(f"{part.path}.spec.{kind}[{index}].name", message)
    _rename(source, part, part.main, CONTAINER_NODE)
    part.main = CONTAINER_NODE
    source.changed(
        f"{part.container_path}.name",
        f"the training container is named {CONTAINER_NODE}",
        f"use `kubectl logs POD -c {CONTAINER_NODE}`",
    )


def end_with_main(part: Part) -> list[int]:
    """Make the other containers sidecars, which end with the main one, and return their positions.

    Operators that watch the driver's container end the job with it; a Job waits for all containers of a pod.
    """
    main, containers = part.container, part.pod["containers"]
    others = [(position, each) for position, each in enumerate(containers) if each is not main]
    if others:
        sidecars = [{**each, "restartPolicy": "Always"} for _, each in others]
        part.pod["initContainers"] = [*part.pod.get("initContainers", ()), *sidecars]
        part.pod["containers"] = [main]
    return [position for position, _ in others]


def resolve_on_host_network(source: LegacySource, part: Part) -> None:
    """Let pods on the network of their node resolve names of the cluster, by which they find each other."""
    if part.pod.get("hostNetwork") and part.pod.get("dnsPolicy", _CLUSTER_DNS) == _CLUSTER_DNS:
        part.pod["dnsPolicy"] = HOST_NETWORK_DNS
        message = f"with dnsPolicy {HOST_NETWORK_DNS}, so that the pods find each other"
        own = f"{part.path}.spec.hostNetwork"
        path = own if source.peek(own) is not None else f"{part.role}.hostNetwork"
        source.forget(path)
        source.changed(path, message)


def written_variables(source: LegacySource, part: Part) -> Iterator[tuple[str, Body]]:
    """Yield the variables of a part's containers as the legacy job has them, with their paths."""
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(source.peek(f"{part.path}.spec.{kind}") or ()):
            for index, variable in enumerate(container.get("env") or ()):
                yield f"{part.path}.spec.{kind}[{position}].env[{index}]", variable


def drop_empty_metadata(part: Part) -> None:
    """Remove empty metadata of a pod template."""
    metadata = {name: value for name, value in part.template.pop("metadata", {}).items() if value}
    if metadata:
        part.template["metadata"] = metadata


def _rename(source: LegacySource, part: Part, old: str, new: str) -> None:
    _note_references(source, part, old)
    for container in part.containers:
        if container["name"] == old:
            container["name"] = new
        for reference in _own_references(container):
            if reference.get("containerName") == old:
                reference["containerName"] = new
    for rule in part.job.get("podFailurePolicy", {}).get("rules", ()):
        codes = rule.get("onExitCodes", {})
        if codes.get("containerName") == old:
            codes["containerName"] = new
    annotations = part.template.get("metadata", {}).get("annotations", {})
    if annotations.get(_DEFAULT_CONTAINER) == old:
        annotations[_DEFAULT_CONTAINER] = new


def _note_references(source: LegacySource, part: Part, old: str) -> None:
    """Note references to a container that is renamed."""
    message = "follows the new name of the container"
    path = (*parts_of(part.path), "metadata", "annotations", _DEFAULT_CONTAINER)
    if source.peek(path) == old:
        source.changed(path, message)
    for own, variable in written_variables(source, part):
        reference = f"{own}.valueFrom.resourceFieldRef.containerName"
        if variable.get("valueFrom") and source.peek(reference) == old:
            source.changed(reference, message)


def _own_references(container: Body) -> Iterator[Body]:
    for variable in container.get("env", ()):
        reference: Any = variable.get("valueFrom", {}).get("resourceFieldRef")
        if isinstance(reference, dict):
            yield reference


def _write_amounts(source: LegacySource, value: Any, path: tuple[str | int, ...]) -> None:
    """Write fractional numbers as text: built-in kinds accept a number for a quantity, custom resources do not."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            _write_amounts(source, inner, (*path, key))
        elif isinstance(inner, float) and (key in _AMOUNTS or path[-1] in _AMOUNT_MAPS):
            value[key] = str(inner)
            source.same((*path, key), "the same amount as text")
