"""RayJob and RayCluster of KubeRay."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import KUEUE_QUEUE_LABEL
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.gang_scheduling import read_priority, read_schedulers
from trainyard.jobs.convert.kinds.ray_groups import read_groups
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.restarts import NEVER, adapt_restart_policy, note_limit
from trainyard.jobs.convert.run_policy import read_deadline, read_lifetime, read_managed_by, read_suspend
from trainyard.jobs.convert.source import shown
from trainyard.jobs.convert.variables import literal, set_first
from trainyard.jobs.render.frameworks.ray import DASHBOARD_PORT
from trainyard.jobs.render.pod_set import LAUNCHER
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError

_API_SERVER: Final = "RAY_API_SERVER_ADDRESS"
_AWAIT_HEAD: Final = f"""until ray job list --address "${_API_SERVER}" >/dev/null 2>&1; do
  sleep 2
done
"""
_RUNTIME_ENV: Final = "spec.runtimeEnvYAML"
_LABELS: Final = (
    ("ray.io/gang-scheduling-enabled", "all pods are one gang"),
    ("ray.io/scheduler-name", "podGroupPolicy says which scheduler"),
)
_TOPOLOGY: Final = "volcano.sh/network-topology-"
_PRIORITY_LABEL: Final = "ray.io/priority-class-name"
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
_INTERACTIVE: Final = "InteractiveMode"
_SUBMITTER: Final = "spec.submitterPodTemplate"
_ONE_WORD: Final = re.compile(r"[\w./:=@,+-]+", re.ASCII)
_EXPANDED: Final = re.compile(r"[$`\\]")


def convert_job(draft: Draft) -> None:
    """Convert a RayJob to a draft."""
    source = draft.source
    if source.mapping("spec.clusterSelector"):
        message = "the job runs on a cluster of its own: one that is there already cannot be named"
        raise draft.refuse("spec.clusterSelector", message, "move the cluster's spec into the RayJob first")
    entry_point = (source.text("spec.entrypoint") or "").strip()
    options = _submit_options(draft)
    overwritten = draft.annotations.get(_OVERWRITE) == "true"
    submitter = source.peek(_SUBMITTER) is not None
    interactive = source.peek("spec.submissionMode") == _INTERACTIVE
    driver: list[str] | None
    if not entry_point:
        if not interactive and not source.peek(f"{_SUBMITTER}.spec.containers[0].command"):
            raise source.malformed("spec.entrypoint", "is missing")
        driver = None
        overwritten = overwritten and not interactive
    elif options or submitter or overwritten:
        driver = [*_submit(options), *_script(entry_point)]
        source.changed("spec.entrypoint", "submitted to the head with `ray job submit`")
    else:
        driver = ["/bin/bash", "-c", entry_point]
        source.changed("spec.entrypoint", "command of the head, run when all workers have joined")
    submitted = submitter or overwritten
    head = read_groups(draft, "spec.rayClusterSpec", None if submitted else driver, submitted=submitted)
    if submitted:
        _read_submitter(draft, head, driver)
    if submitted or driver is not None:
        _fail_with(draft, draft.trainer if submitted else head)
    if submitted and KUEUE_QUEUE_LABEL in draft.labels:
        path = _SUBMITTER if submitter else ("metadata", "annotations", _OVERWRITE)
        fix = "leave out submitterPodTemplate" if submitter else f"leave out annotation {_OVERWRITE}"
        message = "Kueue counts a pod that submits like the nodes, and the new objects are rejected"
        source.lost(path, message, f"{fix}: the head runs the entry point itself")
    _read_submission(draft, submitted=submitted)
    read_suspend(draft, "spec.suspend")
    _read_rest(draft)
    read_deadline(draft, "spec.activeDeadlineSeconds")
    message = "no limit for the time before the job runs"
    source.lost("spec.preRunningDeadlineSeconds", message, "suspend the TrainJob if it waits for too long")
    read_lifetime(draft, "spec.ttlSecondsAfterFinished")
    restarts = source.integer("spec.backoffLimit")
    if restarts is not None:
        draft.restart(restarts)
        source.same("spec.backoffLimit", "failurePolicy.maxRestarts: each retry has a new cluster")
    if source.flag("spec.shutdownAfterJobFinishes"):
        source.same("spec.shutdownAfterJobFinishes", "the cluster ends with its driver")
    else:
        source.changed("spec.shutdownAfterJobFinishes", "the cluster ends with its driver")
    for name in ("deletionPolicy", "deletionStrategy"):
        source.changed(f"spec.{name}", "the cluster ends with its driver")


def convert_cluster(draft: Draft) -> None:
    """Convert a RayCluster to a draft: it runs until the TrainJob is deleted."""
    read_groups(draft, "spec", None)
    draft.source.changed("kind", "a TrainJob whose head serves without a driver: it ends when it is deleted")
    _read_rest(draft)


def _read_rest(draft: Draft) -> None:
    """Read the scheduling settings and the managing controller."""
    source = draft.source
    for key, message in _LABELS:
        if draft.labels.pop(key, None) is not None:
            source.forget(("metadata", "labels", key))
            source.changed(("metadata", "labels", key), message)
    if draft.labels.pop(_PRIORITY_LABEL, None) is not None:
        source.forget(("metadata", "labels", _PRIORITY_LABEL))
        read_priority(draft, ("metadata", "labels", _PRIORITY_LABEL))
    if draft.annotations.pop(_OVERWRITE, None) is not None:
        source.forget(("metadata", "annotations", _OVERWRITE))
        source.changed(("metadata", "annotations", _OVERWRITE), "the commands of the containers stay as they are")
    _read_topology(draft)
    cluster = "spec.rayClusterSpec" if source.peek("spec.rayClusterSpec") is not None else "spec"
    for path in dict.fromkeys((f"{cluster}.suspend", "spec.suspend")):
        if path == "spec.suspend" and draft.suspend is not None:
            continue
        if source.peek(path) is not None:
            read_suspend(draft, path)
    for path in dict.fromkeys(("spec.managedBy", f"{cluster}.managedBy")):
        read_managed_by(draft, path)
    read_schedulers(draft)
    for part in draft.parts:
        adapt_restart_policy(source, part, fails=False)
        note_limit(source, part, "set backoffLimit of the Job in the runtime's template")


def _read_topology(draft: Draft) -> None:
    """Read the labels from which KubeRay sets the network topology of the PodGroup."""
    source = draft.source
    mode, tier = (draft.labels.pop(f"{_TOPOLOGY}{name}", None) for name in ("mode", "highest-tier-allowed"))
    paths = [("metadata", "labels", f"{_TOPOLOGY}{name}") for name in ("mode", "highest-tier-allowed")]
    for path in paths:
        source.forget(path)
    if mode is None:
        source.changed(paths[1], "has no effect without a mode")
        return
    if mode not in ("hard", "soft"):
        raise source.malformed(paths[0], f"must be hard or soft, but is {shown(mode)}")
    topology: Body = {"mode": mode}
    if tier is not None:
        if not tier.isdecimal():
            raise source.malformed(paths[1], f"must be a whole number, but is {shown(tier)}")
        topology["highestTierAllowed"] = int(tier)
    draft.gang = {"volcano": {"networkTopology": topology}}
    for path in paths:
        source.changed(path, "podGroupPolicy.volcano.networkTopology")


def _submit_options(draft: Draft) -> list[str]:
    """Read the fields that become options of ``ray job submit``."""
    source = draft.source
    options = []
    environment = source.text(_RUNTIME_ENV)
    if environment:
        options.append(f"--runtime-env-json={_runtime_env(draft, environment)}")
        source.changed(_RUNTIME_ENV, "--runtime-env-json of `ray job submit`")
    metadata = source.texts("spec.metadata")
    if metadata:
        options.append(f"--metadata-json={json.dumps(metadata, sort_keys=True)}")
        source.changed("spec.metadata", "--metadata-json of `ray job submit`")
    for field, option in (("jobId", "submission-id"), ("entrypointResources", "entrypoint-resources")):
        text = source.text(f"spec.{field}")
        if text:
            options.append(f"--{option}={text}")
            source.changed(f"spec.{field}", f"--{option} of `ray job submit`")
    for field, option in (("entrypointNumCpus", "entrypoint-num-cpus"), ("entrypointNumGpus", "entrypoint-num-gpus")):
        number = source.take(f"spec.{field}")
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
            raise source.malformed(f"spec.{field}", f"must be a number, but is {shown(number)}")
        options.append(f"--{option}={number:g}")
        source.changed(f"spec.{field}", f"--{option} of `ray job submit`")
    return options


def _runtime_env(draft: Draft, text: str) -> str:
    try:
        value: Any = load(text)
    except InvalidYamlError as error:
        raise draft.source.malformed(_RUNTIME_ENV, f"is not YAML: {error.reason}") from error
    if not isinstance(value, dict):
        raise draft.source.malformed(_RUNTIME_ENV, f"must be an object, but is {shown(value)}")
    return json.dumps(value, sort_keys=True, default=str)


def _submit(options: list[str]) -> list[str]:
    return ["ray", "job", "submit", "--address=$(RAY_API_SERVER_ADDRESS)", *options, "--"]


def _script(entry_point: str) -> list[str]:
    """Return words that run a script, whether `ray job submit` joins them for a shell or for Windows.

    Ray up to 2.55 joins with list2cmdline: in its quotes a shell expands what begins with ``$``, ````` or a backslash,
    and words without blanks have none.
    """
    if _EXPANDED.search(entry_point):
        encoded = b64encode(entry_point.encode()).decode()
        return ["/bin/bash", "-c", f"exec /bin/bash <(echo {encoded} | base64 -d)"]
    blank = " " in entry_point or "\t" in entry_point or _ONE_WORD.fullmatch(entry_point)
    return ["/bin/bash", "-c", entry_point if blank else f"{entry_point} "]


def _read_submitter(draft: Draft, head: Part, driver: list[str] | None) -> None:
    """Add a pod that submits the entry point."""
    path = _SUBMITTER
    if draft.source.peek(path) is not None:
        launcher = draft.read(path, LAUNCHER, 1)
    else:
        container: Body = {"name": LAUNCHER, "image": head.container.get("image", "")}
        launcher = Part(LAUNCHER, path, {"spec": {"containers": [container]}}, 1, LAUNCHER)
        draft.parts.append(launcher)
    if "command" not in launcher.container and "args" not in launcher.container:
        launcher.container["command"] = ["/bin/bash", "-c", f'{_AWAIT_HEAD}exec "$@"\n', "ray"]
        launcher.container["args"] = driver or []
    else:
        # KubeRay creates the submitter when the cluster is ready.
        launcher.pod["initContainers"] = [_await_head(draft, head), *launcher.pod.get("initContainers", ())]
    given = {
        "RAY_DASHBOARD_ADDRESS": f"{head.first_host(draft.name)}:{DASHBOARD_PORT}",
        "RAY_JOB_SUBMISSION_ID": draft.source.peek("spec.jobId") or draft.name,
    }
    own = {each["name"] for each in launcher.container.get("env", ())}
    set_first(launcher, [literal(name, value) for name, value in given.items() if name not in own])
    for part in draft.parts:
        part.trains = False
    draft.train(launcher)


def _await_head(draft: Draft, head: Part) -> Body:
    """Return a container that waits until the head takes jobs; the submitter's image may have no Ray."""
    address = {"name": _API_SERVER, "value": f"http://{head.first_host(draft.name)}:{DASHBOARD_PORT}"}
    command = ["/bin/bash", "-c", _AWAIT_HEAD]
    return {"name": "await-head", "image": head.container.get("image", ""), "command": command, "env": [address]}


def _fail_with(draft: Draft, driver: Part) -> None:
    """Let the job fail with its driver, as often as backoffLimit says with a new cluster."""
    driver.job["backoffLimit"] = 0
    driver.pod["restartPolicy"] = NEVER
    path = f"{driver.path}.spec.restartPolicy"
    if draft.source.peek(path) not in (None, NEVER):
        draft.source.changed(path, "Never: a driver that fails fails the job")


def _read_submission(draft: Draft, *, submitted: bool) -> None:
    source = draft.source
    path = "spec.submissionMode"
    mode = source.text(path)
    if mode in (None, "K8sJobMode"):
        source.same(path, "the driver's exit status is that of the job")
    elif mode == _INTERACTIVE:
        what = "the entry point is run" if source.peek("spec.entrypoint") else "the cluster serves until it is deleted"
        fix = "use a RayCluster without an entry point"
        source.lost(path, f"interactive submission is not supported: {what}", fix)
    else:
        source.changed(path, "the driver is a process of a pod, whose exit status is that of the job")
    source.integer("spec.submitterConfig.backoffLimit")
    message = "0 of the submitter's pod: nothing is submitted twice" if submitted else "has no effect: nothing submits"
    fix = "set backoffLimit to run the job again, with a new cluster"
    source.changed("spec.submitterConfig.backoffLimit", message, fix)


CONVERTERS: Final = {("ray.io/v1", "RayJob"): convert_job, ("ray.io/v1", "RayCluster"): convert_cluster}
