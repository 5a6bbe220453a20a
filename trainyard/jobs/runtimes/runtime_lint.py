"""Lint of runtimes: warnings about likely mistakes that may be intended, so that no rule rejects them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from trainyard.api.constants import ANCESTOR_LABEL, GROUP_NAME_ANNOTATION, TRAINER
from trainyard.checks.finding import Finding
from trainyard.checks.report.text import counted
from trainyard.jobs.render.devices import gpu_count
from trainyard.jobs.render.frameworks import FRAMEWORKS
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.runtimes.pods import containers_of
from trainyard.scheduling.queues.pod_requests import exact, requests_of
from trainyard.scheduling.topology.fabric_compiler import Fabric

_JOBS: Final = "spec.template.spec.replicatedJobs"
_POD: Final = "template.spec.template.spec"
_PROCESSES_ARGUMENT: Final = re.compile(r"--nproc[-_]per[-_]node(?:=|\s+)['\"]?([^\s'\";]+)")
_SPREADING: Final = tuple(name for name, each in FRAMEWORKS.items() if each.one_process_a_device)
"""Frameworks that start numProcPerNode training processes per node, each with its own device."""


def lint_runtime(runtime: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about likely mistakes in a runtime.

    Parameters
    ----------
    runtime
        A runtime that is valid against its schema.
    """
    spec = runtime.get("spec") or {}
    jobs = (spec.get("template") or {}).get("spec", {}).get("replicatedJobs", ())
    for index, job in enumerate(jobs):
        pod = job["template"]["spec"]["template"]["spec"]
        for kind, number, container in containers_of(pod):
            yield from _command(container.get("command"), f"{_JOBS}[{index}].{_POD}.{kind}[{number}].command")
        if _step(job) == TRAINER:
            framework, processes = _processes(runtime)
            devices = _most_devices([job])
            # The argument of the launcher has precedence over its variable.
            if processes is not None and devices and not any(map(_launched, _nodes(job))):
                yield from _more_processes(processes, devices, f"spec.mlPolicy.{framework}.numProcPerNode")


def lint_train_job(
    job: Mapping[str, Any],
    runtime: Mapping[str, Any],
    objects: Iterable[Mapping[str, Any]],
    capacities: Callable[[], DomainCapacities | None] = lambda: None,
) -> Iterator[Finding]:
    """Yield warnings about likely mistakes in a TrainJob, with its own paths; commands are checked in rendered objects.

    Parameters
    ----------
    job
        The TrainJob.
    runtime
        Its runtime.
    objects
        The rendered objects.
    capacities
        Returns the capacities of the fabric's domains, None without a fabric; only called if a gang must stay in one
        domain.
    """
    by_kind = {each["kind"]: each for each in objects}
    trainer = job["spec"].get("trainer") or {}
    replicated = by_kind.get("JobSet", {}).get("spec", {}).get("replicatedJobs", ())
    yield from _processes_of_job(trainer, runtime, replicated)
    group = by_kind.get("PodGroup")
    if group is not None:
        yield from _late_members(replicated)
        yield from _too_large(group["spec"], replicated, capacities)


@dataclass(frozen=True)
class DomainCapacities:
    """Capacities of a fabric's domains.

    Parameters
    ----------
    levels
        Names of the tiers, lowest first.
    nodes
        By tier: the kinds of domains, each as its number of nodes by capacity.
    """

    levels: tuple[str, ...]
    nodes: Mapping[int, frozenset[frozenset[tuple[str, int]]]]
    capacities: Mapping[str, Mapping[str, Fraction]]

    @classmethod
    def of(cls, fabric: Fabric) -> DomainCapacities:
        """Return the capacities of a fabric's domains."""
        inside: dict[str, Counter[str]] = {domain.name: Counter() for domain in fabric.domains}
        for node in fabric.nodes:
            for domain in node.path:
                inside[domain][node.shape] += 1
        kinds: dict[int, set[frozenset[tuple[str, int]]]] = {}
        for each in fabric.domains:
            kinds.setdefault(each.tier, set()).add(frozenset(inside[each.name].items()))
        capacities = {shape: exact(capacity) for shape, capacity in fabric.shapes.items()}
        return cls(fabric.levels, {tier: frozenset(found) for tier, found in kinds.items()}, capacities)

    def tier(self, topology: Mapping[str, Any]) -> int | None:
        """Return the tier in which a gang must stay; None if unrestricted or not part of the fabric."""
        if topology.get("mode", "hard") != "hard":
            return None
        name = topology.get("highestTierName")
        if name is not None:
            return self.levels.index(name) + 1 if name in self.levels else None
        number = topology.get("highestTierAllowed", 1)
        return number if number in self.nodes else None

    def pods(self, tier: int, request: Mapping[str, Fraction]) -> int:
        """Return how many equal pods the largest domain of a tier can run when it is empty."""
        by_shape = {shape: _fitting(capacity, request) for shape, capacity in self.capacities.items()}
        return max(sum(by_shape[shape] * count for shape, count in domain) for domain in self.nodes[tier])


def _fitting(capacity: Mapping[str, Fraction], request: Mapping[str, Fraction]) -> int:
    return min(
        (int(capacity.get(resource, Fraction(0)) // amount) for resource, amount in request.items() if amount > 0),
        default=0,
    )


def _command(command: Any, path: str) -> Iterator[Finding]:
    """Yield a finding for a program name with spaces, which was probably meant for a shell."""
    if not isinstance(command, list) or not command or not isinstance(command[0], str):
        return
    program = command[0]
    if len(program.split()) > 1:
        shown = program if len(program) <= 60 else f"{program[:57]}..."
        words = ", ".join(f'"{word}"' for word in program.split()[:6])
        more = ", …" if len(program.split()) > 6 else ""
        message = f"is a program name with spaces, {shown!r}; no shell splits it"
        yield Finding(f"{path}[0]", message, f'write [{words}{more}], or ["sh", "-c", "…"]')


def _processes(runtime: Mapping[str, Any]) -> tuple[str, int | None]:
    policy = (runtime.get("spec") or {}).get("mlPolicy") or {}
    framework = next((name for name in _SPREADING if policy.get(name) is not None), "")
    processes = policy.get(framework, {}).get("numProcPerNode") if framework else None
    return framework, processes if isinstance(processes, int) else None


def _processes_of_job(
    trainer: Mapping[str, Any], runtime: Mapping[str, Any], replicated: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    framework, processes = _processes(runtime)
    given = trainer.get("numProcPerNode")
    replicated = tuple(replicated)
    launched = next((node for job in replicated for node in _nodes(job) if _launched(node)), None)
    if launched is not None:
        yield from _processes_of_command(launched, trainer, _most_devices(replicated))
        return
    if not framework or (given is None and not trainer.get("resourcesPerNode")):
        return
    processes = given if isinstance(given, int) else processes
    devices = _most_devices(replicated)
    if processes is None or not devices:
        return
    path = "spec.trainer.numProcPerNode" if given is not None else "spec.trainer.resourcesPerNode"
    yield from _more_processes(processes, devices, path)
    if given is not None:
        yield from _fewer_processes(processes, devices, path)


def _processes_of_command(node: Mapping[str, Any], trainer: Mapping[str, Any], devices: int) -> Iterator[Finding]:
    """Yield a number of processes in the TrainJob's command or args that is not the number of devices."""
    container = {**node, **copied(trainer)}
    found = _launched(container)
    if found is None or not found.group(1).isdecimal() or not devices:
        return
    # The command may end with the option, and the args begin with its value.
    field = "command" if found.start(1) < len(_words(container.get("command"))) else "args"
    if trainer.get(field):
        yield from _more_processes(int(found.group(1)), devices, f"spec.trainer.{field}")
        yield from _fewer_processes(int(found.group(1)), devices, f"spec.trainer.{field}")


def _launched(container: Mapping[str, Any]) -> re.Match[str] | None:
    """Return where the arguments of a launcher such as torchrun name the processes per node; None if unset."""
    return _PROCESSES_ARGUMENT.search(f"{_words(container.get('command'))} {_words(container.get('args'))}")


def _words(command: Any) -> str:
    return " ".join(map(str, command or ()))


def _most_devices(replicated: Iterable[Mapping[str, Any]]) -> int:
    return max((_devices(container) for job in replicated for container in _nodes(job)), default=0)


def _fewer_processes(processes: int, devices: int, path: str) -> Iterator[Finding]:
    if processes < devices:
        message = f"starts {processes} process{'' if processes == 1 else 'es'} on a node with {devices} devices"
        yield Finding(path, f"{message}: {devices - processes} stay idle", f"use {devices}, or ask for fewer devices")


def _more_processes(processes: int, devices: int, path: str) -> Iterator[Finding]:
    if processes > devices:
        message = f"{processes} processes share {counted(devices, 'device')} of a node"
        yield Finding(
            path,
            f"{message}: NCCL refuses two on one device",
            f"use {devices} processes, or more devices",
        )


def _nodes(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers: list[Mapping[str, Any]] = job["template"]["spec"]["template"]["spec"]["containers"]
    return [container for container in containers if container["name"] == "node"]


def _devices(container: Mapping[str, Any]) -> int:
    try:
        return int(gpu_count(container.get("resources") or {}))
    except ValueError:
        return 0


def _late_members(replicated: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    for job in replicated:
        waits = [entry["name"] for entry in job.get("dependsOn", ()) if entry.get("status") == "Ready"]
        if waits and _grouped(job) and (count := _count(job)) > 1:
            message = (
                f"the runtime's replicatedJob {job['name']!r} ({count} pods) starts when {', '.join(waits)} is ready: "
                "the gang starts without reserving capacity for it and may occupy devices in vain"
            )
            yield Finding(
                "spec.runtimeRef", message, "start them together, without dependsOn, or use a runtime that does"
            )


def _too_large(
    group: Mapping[str, Any], replicated: Iterable[Mapping[str, Any]], find: Callable[[], DomainCapacities | None]
) -> Iterator[Finding]:
    members = [job for job in replicated if _grouped(job)]
    topology = group.get("networkTopology") or {}
    for job in members if topology else ():
        count = min(_count(job), group["minMember"]) if len(members) == 1 else _count(job)
        yield from _too_many(count, job, topology, find, "spec.trainer.numNodes")
    sizes = {policy["name"].partition(".")[0]: policy for policy in group.get("subGroupPolicy", ())}
    for job in members:
        policy = sizes.get(job["name"], {})
        if policy.get("networkTopology"):
            yield from _too_many(policy["subGroupSize"], job, policy["networkTopology"], find, "spec.runtimeRef")


def _too_many(
    count: int,
    job: Mapping[str, Any],
    topology: Mapping[str, Any],
    find: Callable[[], DomainCapacities | None],
    path: str,
) -> Iterator[Finding]:
    request = requests_of(job["template"]["spec"]["template"]["spec"])
    capacities = find()
    tier = capacities.tier(topology) if capacities else None
    if capacities is None or tier is None or not any(request.values()):
        return
    most = capacities.pods(tier, request)
    if count > most:
        level = capacities.levels[tier - 1]
        message = f"{count} pods of replicatedJob {job['name']!r} must be in one {level}; the largest can run {most}"
        fewer = "nodes" if path.endswith("numNodes") else "in subGroupSize of the runtime"
        fix = f"use at most {most} {fewer}, smaller ones, a higher tier, or mode soft" if most else "use smaller nodes"
        yield Finding(path, message, fix)


def _grouped(job: Mapping[str, Any]) -> bool:
    metadata = job["template"]["spec"]["template"].get("metadata") or {}
    return GROUP_NAME_ANNOTATION in (metadata.get("annotations") or {})


def _count(job: Mapping[str, Any]) -> int:
    return int(job.get("replicas", 1)) * int(job["template"]["spec"].get("parallelism", 1))


def _step(job: Mapping[str, Any]) -> str:
    return str((job["template"].get("metadata") or {}).get("labels", {}).get(ANCESTOR_LABEL, ""))
