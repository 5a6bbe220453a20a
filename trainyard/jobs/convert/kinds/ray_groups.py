"""Head and worker groups of a Ray cluster, and the command that starts Ray in each pod."""

from __future__ import annotations

import re
from typing import Final

from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.kinds.ray_options import FIXED, METRICS_PORT, as_arguments, ray_options
from trainyard.jobs.convert.operator_labels import OperatorLabels, label_part
from trainyard.jobs.convert.part import SIDECAR_MESSAGE, Part, end_with_main
from trainyard.jobs.convert.variables import (
    Variable,
    indexed,
    literal,
    note_legacy_hosts,
    set_first,
    set_variables,
    words_of,
)
from trainyard.jobs.render.frameworks.ray import DASHBOARD_PORT, PORT
from trainyard.jobs.render.frameworks.ray_scripts import HEAD as HEAD_SCRIPT
from trainyard.jobs.render.frameworks.ray_scripts import WORKER as WORKER_SCRIPT
from trainyard.jobs.render.pod_editing import prepend_env, section

HEAD: Final = "head"
_PREFIX: Final = "ray.io/"
_METRICS: Final = "metrics"
_BASH: Final = ("/bin/bash", "-c")
_START: Final = "ray start"
_GENERATED: Final = re.compile(r"\$(KUBERAY_GEN_RAY_START_CMD\b|\{KUBERAY_GEN_RAY_START_CMD\})")
_SHELLS: Final = re.compile(r"(/bin/)?(ba)?sh( -\w+)*( --)?")
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
_FIXED_NUMBER: Final = "the number of workers is fixed"
_NUMBER_FIX: Final = "set the replicas that the job needs"
_WITHOUT: Final = {
    "gcsFaultToleranceOptions": ("a head that is lost ends the job", "set backoffLimit, and resume from a checkpoint"),
    "historyServerOptions": ("no collector runs beside the nodes", "add it to the containers of the pods"),
    "networkPolicy": ("no NetworkPolicy is made", "set networkPolicies of the platform, or make one"),
    "headServiceAnnotations": ("the head has no Service but the job's own", "make a Service for it"),
}
_HEAD_WITHOUT: Final = {
    "headService": ("the head has no Service but the job's own", "make a Service for it"),
    "ingressOptions": ("there is no Ingress", "make an Ingress for the dashboard"),
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
    _label_as_kuberay(draft, head, "head", "headgroup")
    workers = [
        part for index in range(source.count(f"{path}.workerGroupSpecs")) if (part := _group(draft, path, index))
    ]
    first = workers[0] if workers else head
    draft.nodes = first.pods
    if workers or not submitted:
        first.name = CONTAINER_NODE
        draft.train(first)
    kept = draft.annotations.get(_OVERWRITE) == "true"
    _start(draft, head, HEAD_SCRIPT, driver, kept=kept)
    for part in workers:
        _start(draft, part, WORKER_SCRIPT, None, kept=kept, extra=part is not first)
    _set_kuberay_variables(draft, head)
    if driver:
        for position in end_with_main(head):
            source.changed(f"{head.path}.spec.containers[{position}]", SIDECAR_MESSAGE)
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
    wanted = max(replicas or 0, least or 0)
    wanted = wanted if most is None or (least or 0) > most else min(wanted, most)
    scales = source.peek(f"{path}.enableInTreeAutoscaling") is True
    hosts = source.integer(f"{own}.numOfHosts", 1) or 1
    for field, value in (("minReplicas", least), ("maxReplicas", most)):
        if scales and value is not None and value != wanted:
            source.lost(f"{own}.{field}", _FIXED_NUMBER, _NUMBER_FIX)
        else:
            source.same(f"{own}.{field}", "a bound of the number of workers, which is fixed")
    if scales:
        source.lost(f"{own}.idleTimeoutSeconds", _FIXED_NUMBER, _NUMBER_FIX)
    else:
        source.changed(f"{own}.idleTimeoutSeconds", "has no effect: the cluster does not scale")
    source.changed(f"{own}.scaleStrategy", "has no effect: it names pods of the old cluster")
    source.changed(f"{own}.priority", "a group is placed with the whole gang")
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
    part = draft.read(f"{own}.template", name, wanted * hosts)
    _label_as_kuberay(draft, part, "worker", group)
    return part


def _label_as_kuberay(draft: Draft, part: Part, node: str, group: str) -> None:
    """Set the labels that KubeRay sets on its pods; the job's own count over those that it allows to override."""
    name = str(draft.source.peek("metadata.name"))
    own = {**part.template.get("metadata", {}).get("labels", {}), **draft.source.texts(f"{part.role}.labels")}
    weak = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{name}-{node}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    static = {"ray.io/cluster": name, "ray.io/node-type": node, "ray.io/group": group}
    static |= {key: value for key, value in weak.items() if key not in own}
    label_part(draft, part, OperatorLabels(_PREFIX, static))
    part.known_labels |= frozenset(key for key in own if key.startswith(_PREFIX))


def _group_name(draft: Draft, group: str) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", group.lower()).strip("-") or "workers"
    taken = {part.name for part in draft.parts} | {"launcher"}
    return name if name not in taken else f"{name}-{len(draft.parts)}"


def _start(draft: Draft, part: Part, script: str, driver: list[str] | None, *, kept: bool, extra: bool = False) -> None:
    """Set the command that starts Ray with the options that KubeRay would give to it.

    Parameters
    ----------
    kept
        Whether the containers start Ray themselves.
    extra
        Whether the framework does not manage this group.
    """
    source, path = draft.source, f"{part.role}.rayStartParams"
    params = source.texts(path)
    options = ray_options(source, part.role, params, part.container)
    if labels := source.texts(f"{part.role}.labels"):
        section(part.template, "metadata", "labels").update(labels)
    for key, value in params.items():
        if key in FIXED and value not in FIXED[key]:
            source.changed(f"{path}.{key}", f"not {value}: the framework's own is used")
        elif key in FIXED:
            source.same(f"{path}.{key}", "what the framework does")
        else:
            source.changed(f"{path}.{key}", "option of `ray start`")
    arguments = as_arguments(options)
    _insert_generated(part, script, arguments)
    if extra:
        head = draft.parts[0].first_host(draft.name)
        set_first(part, [literal("RAY_HEAD_HOST", head), literal("RAY_ADDRESS", f"{head}:{PORT}")])
    _declare_metrics(draft, part)
    if kept or _START in words_of(part.container):
        return
    before = _own_command(draft, part)
    text = script.replace("@PORT@", str(PORT)).replace("@OPTIONS@", arguments)
    # KubeRay starts Ray even if the command fails.
    part.container["command"] = [*_BASH, f"{before}\n{text}" if before else text, "ray"]
    if driver:
        part.container["args"] = driver


def _declare_metrics(draft: Draft, part: Part) -> None:
    """Declare the port of Ray's metrics by the name that monitors of KubeRay select, as KubeRay does.

    A JobSet has each port of a container once, so a port of the container's own with this number keeps its name.
    """
    ports = part.container.setdefault("ports", [])
    if any(port.get("name") == _METRICS for port in ports):
        return
    used = (METRICS_PORT, "TCP")
    if any((port.get("containerPort"), port.get("protocol") or "TCP") == used for port in ports):
        message = f"port {METRICS_PORT} keeps its name: monitors that select {_METRICS} do not find Ray's metrics"
        draft.source.changed(f"{part.container_path}.ports", message)
    else:
        ports.append({"name": _METRICS, "containerPort": METRICS_PORT})


def _insert_generated(part: Part, script: str, options: str) -> None:
    """Write the command that KubeRay generates where a container's own command names its variable."""
    head = script is HEAD_SCRIPT
    place = f"--head --port={PORT} --dashboard-host=0.0.0.0" if head else '--address="$RAY_ADDRESS"'
    command = " ".join([_START, place, *([options] if options else []), "--block"])
    for field in ("command", "args"):
        words = part.container.get(field)
        if words:
            part.container[field] = [_GENERATED.sub(lambda _: command, word) for word in words]


def _own_command(draft: Draft, part: Part) -> str:
    """Remove and return the container's own command, which KubeRay runs before Ray."""
    words = [*part.container.pop("command", ()), *part.container.pop("args", ())]
    text = " ".join(words)
    shell = _SHELLS.fullmatch(text) is not None
    for field in ("command", "args"):
        message = "left out: Ray is started without a shell of the job's own" if shell else "run before Ray is started"
        draft.source.changed(f"{part.container_path}.{field}", message)
    return "" if shell else text


def _set_kuberay_variables(draft: Draft, head: Part) -> None:
    """Set KubeRay's variables: those of workers and init containers always, others where a command names them."""
    host = head.first_host(draft.name)
    given = [literal(name, host) for name in ("FQ_RAY_IP", "RAY_IP")]
    for part in draft.parts:
        group = draft.source.peek(f"{part.role}.groupName") or ("headgroup" if part is head else part.name)
        named: list[Variable] = [
            *given,
            literal("RAY_PORT", PORT),
            literal("RAY_CLUSTER_NAME", draft.name),
            indexed("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            indexed("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
            literal("RAY_NODE_TYPE_NAME", group),
            literal("RAY_DASHBOARD_ADDRESS", f"{host}:{DASHBOARD_PORT}"),
        ]
        set_variables(draft.source, part, named, always=False)
        containers = part.pod.get("initContainers", [])
        for container in containers if part is head else [part.container, *containers]:
            prepend_env(container, [variable.entry for variable in given])
        _note_address(draft, part)
        note_legacy_hosts(draft.source, part, ["-head-svc"], host)


def _note_address(draft: Draft, part: Part) -> None:
    """Note an address of the job's own, which the framework replaces."""
    path = f"{part.container_path}.env"
    for position, variable in enumerate(draft.source.peek(path) or ()):
        if variable.get("name") == "RAY_ADDRESS":
            draft.source.changed(f"{path}[{position}]", "the address of the new head")


def _read_authentication(draft: Draft, path: str) -> None:
    """Read the tokens and certificates that KubeRay makes."""
    source = draft.source
    if source.peek(f"{path}.authOptions.mode") == "disabled":
        source.same(f"{path}.authOptions", "Ray asks for no token")
    else:
        fix = "set RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH, and mount the Secret with the token"
        source.lost(f"{path}.authOptions", "Ray asks for no token: none is made", fix)
    if source.flag(f"{path}.tlsOptions.enabled"):
        fix = "mount certificates, and set RAY_USE_TLS and RAY_TLS_* in the pods"
        source.lost(f"{path}.tlsOptions", "connections inside the cluster are not encrypted: no certificates", fix)
    else:
        source.same(f"{path}.tlsOptions.enabled", "connections inside the cluster are not encrypted")


def _read_rest(draft: Draft, path: str) -> None:
    source = draft.source
    for field, (message, fix) in _WITHOUT.items():
        source.lost(f"{path}.{field}", message, fix)
    _read_authentication(draft, path)
    source.changed(f"{path}.upgradeStrategy", "pods are not replaced: a changed job is a new one")
    for field, (message, fix) in _HEAD_WITHOUT.items():
        if source.peek(f"{path}.headGroupSpec.{field}") in (False, "ClusterIP"):
            source.same(f"{path}.headGroupSpec.{field}", "the head is reached inside the cluster")
        else:
            source.lost(f"{path}.headGroupSpec.{field}", message, fix)
    scales = source.flag(f"{path}.enableInTreeAutoscaling")
    if scales:
        for name in ("enableInTreeAutoscaling", "autoscalerOptions"):
            source.lost(f"{path}.{name}", _FIXED_NUMBER, _NUMBER_FIX)
    else:
        source.changed(f"{path}.autoscalerOptions", "has no effect: the cluster does not scale")
        source.same(f"{path}.enableInTreeAutoscaling", _FIXED_NUMBER)
