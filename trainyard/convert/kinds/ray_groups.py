"""Head and worker groups of a Ray cluster, and the command that starts Ray in each pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.convert.draft import Draft
from trainyard.convert.part import Part
from trainyard.convert.variables import literal, note_legacy_hosts, set_first, set_variables
from trainyard.render.devices import cpu_count, gpu_count
from trainyard.render.frameworks.ray_scripts import HEAD as HEAD_SCRIPT
from trainyard.render.frameworks.ray_scripts import WORKER as WORKER_SCRIPT

__all__ = ["HEAD", "PORT", "read_groups"]

HEAD: Final = "head"
PORT: Final = 6379
_DASHBOARD_PORT: Final = 8265
_BASH: Final = ("/bin/bash", "-c")
_FIXED: Final = {
    "block": ("true", ""),
    "dashboard-host": ("0.0.0.0", "::"),  # noqa: S104
    "port": (str(PORT),),
    "dashboard-port": (str(_DASHBOARD_PORT),),
    "ray-client-server-port": ("10001",),
}
_KEEPS_VALUE: Final = ("log-color", "include-dashboard")
_SHELLS: Final = re.compile(r"(/bin/)?(ba)?sh( -\w+)*( --)?")
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
_WITHOUT: Final = {
    "autoscalerOptions": ("the number of workers is fixed", "set the replicas that the job needs"),
    "gcsFaultToleranceOptions": ("a head that is lost ends the job", "set backoffLimit, and resume from a checkpoint"),
    "headServiceAnnotations": ("the head has no Service but the job's own", "make a Service for it"),
}
_HEAD_WITHOUT: Final = {
    "headService": ("the head has no Service but the job's own", "make a Service for it"),
    "enableIngress": ("there is no Ingress", "make an Ingress for the dashboard"),
    "serviceType": ("the head has no Service but the job's own", "make a Service for it"),
}


def read_groups(draft: Draft, path: str, driver: list[str] | None, *, submitted: bool = False) -> Part:
    """Read a cluster spec and return its head.

    Parameters
    ----------
    path
        Path of the cluster spec.
    driver
        Command of the head; None for a cluster without a driver.
    submitted
        Whether a separate pod submits the driver.
    """
    source = draft.source
    draft.framework, draft.policy = "ray", {"ray": {}}
    head_path = f"{path}.headGroupSpec"
    source.keys(path)
    source.keys(head_path)
    head = draft.read(f"{head_path}.template", HEAD, 1)
    workers = [
        part for index in range(source.count(f"{path}.workerGroupSpecs")) if (part := _group(draft, path, index))
    ]
    first = workers[0] if workers else head
    draft.nodes = first.pods
    if workers or not submitted:
        first.name = CONTAINER_NODE
        draft.train(first)
    kept = draft.annotations.get(_OVERWRITE) == "true"
    _start(draft, head, f"{head_path}.rayStartParams", HEAD_SCRIPT, driver, kept=kept)
    for part in workers:
        _start(draft, part, f"{part.role}.rayStartParams", WORKER_SCRIPT, None, kept=kept, extra=part is not first)
    _set_kuberay_variables(draft, head)
    source.text(f"{path}.rayVersion")
    source.same(f"{path}.rayVersion", "the images say which version runs")
    _read_rest(draft, path)
    return head


def _group(draft: Draft, path: str, index: int) -> Part | None:
    source = draft.source
    own = f"{path}.workerGroupSpecs[{index}]"
    group = source.text(f"{own}.groupName") or f"workers-{index}"
    least, most = (source.integer(f"{own}.{name}Replicas") for name in ("min", "max"))
    replicas = source.integer(f"{own}.replicas")
    wanted = (least or 0) if replicas is None else max(replicas, least or 0)
    hosts = source.integer(f"{own}.numOfHosts", 1) or 1
    for field, value in (("minReplicas", least), ("maxReplicas", most)):
        if value is not None and value != wanted:
            source.lost(f"{own}.{field}", "the number of workers is fixed", "set the replicas that the job needs")
        else:
            source.same(f"{own}.{field}", "the number of workers is fixed")
    for field in ("idleTimeoutSeconds", "scaleStrategy"):
        source.lost(f"{own}.{field}", "the number of workers is fixed", "set the replicas that the job needs")
    suspended = source.flag(f"{own}.suspend")
    if wanted == 0 or suspended:
        source.changed(own, "left out: it has no pods")
        return None
    source.same(f"{own}.suspend", "the group has its pods")
    source.same(f"{own}.replicas", "number of pods")
    source.changed(f"{own}.numOfHosts", "number of pods, together with replicas")
    first = all(part.name == HEAD for part in draft.parts)
    name = CONTAINER_NODE if first else _group_name(draft, group)
    source.changed(f"{own}.groupName", "replicatedJob node" if first else "replicatedJob of the same name")
    return draft.read(f"{own}.template", name, wanted * hosts)


def _group_name(draft: Draft, group: str) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", group.lower()).strip("-") or "workers"
    taken = {part.name for part in draft.parts} | {"launcher"}
    return name if name not in taken else f"{name}-{len(draft.parts)}"


def _start(
    draft: Draft, part: Part, path: str, script: str, driver: list[str] | None, *, kept: bool, extra: bool = False
) -> None:
    """Let the framework start Ray, or set the command if the legacy job uses options that the framework does not know.

    Parameters
    ----------
    kept
        Whether the containers start Ray themselves.
    extra
        Whether the framework does not manage this group.
    """
    source = draft.source
    params = source.texts(path)
    options = _options(params, part.container)
    for key, value in params.items():
        if key in _FIXED and value not in _FIXED[key]:
            source.changed(f"{path}.{key}", f"not {value}: the framework's own is used")
        elif key in _FIXED:
            source.same(f"{path}.{key}", "what the framework does")
        else:
            source.changed(f"{path}.{key}", "option of `ray start`")
    if kept:
        return
    before = _own_command(draft, part)
    plain = not before and not any(key not in _FIXED for key in params)
    if not plain or extra:
        text = script.replace("@PORT@", str(PORT)).replace("@OPTIONS@", " ".join(options))
        setup = f"{before} || exit 1\n" if before else ""
        part.container["command"] = [*_BASH, f"{setup}{text}", "ray"]
        if driver:
            part.container["args"] = driver
    elif driver:
        part.container["command"] = driver
    if extra:
        head = draft.parts[0].first_host(draft.name)
        set_first(part, [literal("RAY_HEAD_HOST", head), literal("RAY_ADDRESS", f"{head}:{PORT}")])


def _own_command(draft: Draft, part: Part) -> str:
    """Remove and return the container's own command, which KubeRay runs before Ray."""
    words = [*part.container.pop("command", ()), *part.container.pop("args", ())]
    index = part.pod["containers"].index(part.container)
    text = " ".join(words)
    shell = _SHELLS.fullmatch(text) is not None
    for field in ("command", "args"):
        message = "left out: Ray is started without a shell of the job's own" if shell else "run before Ray is started"
        draft.source.changed(f"{part.path}.spec.containers[{index}].{field}", message)
    return "" if shell else text


def _options(params: Mapping[str, str], container: Body) -> list[str]:
    """Return the options of ``ray start``, with the container's CPUs and GPUs as set by KubeRay."""
    resources = container.get("resources", {})
    given = {key: value for key, value in params.items() if key not in _FIXED}
    cores, gpus = ceil(cpu_count(resources)), ceil(gpu_count(resources))
    if cores > 0:
        given.setdefault("num-cpus", str(cores))
    if gpus > 0:
        given.setdefault("num-gpus", str(gpus))
    options = []
    for key in sorted(given):
        value = given[key]
        if value in ("true", "") and key not in _KEEPS_VALUE:
            options.append(f"--{key}")
        elif value != "false" or key in _KEEPS_VALUE:
            options.append(f"--{key}={value}")
    return options


def _set_kuberay_variables(draft: Draft, head: Part) -> None:
    """Set KubeRay's variables for commands that name them."""
    host = head.first_host(draft.name)
    variables = [
        *(literal(name, host) for name in ("FQ_RAY_IP", "RAY_IP")),
        literal("RAY_PORT", PORT),
        literal("RAY_CLUSTER_NAME", draft.name),
        literal("RAY_DASHBOARD_ADDRESS", f"{host}:{_DASHBOARD_PORT}"),
    ]
    for part in draft.parts:
        set_variables(draft.source, part, variables, always=False)
        note_legacy_hosts(draft.source, part, ["-head-svc"], host)


def _read_rest(draft: Draft, path: str) -> None:
    source = draft.source
    for field, (message, fix) in _WITHOUT.items():
        source.lost(f"{path}.{field}", message, fix)
    for field, (message, fix) in _HEAD_WITHOUT.items():
        if source.peek(f"{path}.headGroupSpec.{field}") in (False, "ClusterIP"):
            source.same(f"{path}.headGroupSpec.{field}", "the head is reached inside the cluster")
        else:
            source.lost(f"{path}.headGroupSpec.{field}", message, fix)
    scales = source.flag(f"{path}.enableInTreeAutoscaling")
    if scales:
        fix = "set the replicas that the job needs"
        source.lost(f"{path}.enableInTreeAutoscaling", "the number of workers is fixed", fix)
    else:
        source.same(f"{path}.enableInTreeAutoscaling", "the number of workers is fixed")
