"""Volcano on a bare embedded control plane: upstream's own manifests, run as host processes.

Only Volcano is installed, without the platform and Pulumi. The scheduler runs five sessions a second instead of one,
because a replay waits for its decisions; the decisions do not depend on it.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import datetime
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trainyard import pki, upstream
from trainyard.errors import TrainyardError
from trainyard.kube import kinds
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS, DEPLOYMENTS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.kwok_stages import HOST_PROCESS_LABEL
from trainyard.local.cluster.provider import ClusterAccess, ClusterStatus
from trainyard.local.simulate.programs import PROGRAM_OF_DEPLOYMENT, PROGRAMS
from trainyard.settings.versions import component_release, supported_versions

NAMESPACE = "volcano-system"
MANAGER = "trainyard-simulate"
CONFIGURATION = ("volcano-scheduler-configmap", "volcano-scheduler.conf")

_SCHEDULER = "volcano-scheduler"
_INSTALLER = "installer/volcano-development.yaml"
_CRDS = "config/crd/"
"""Folder of the CustomResourceDefinitions among the upstream files of component `volcano`."""
_KINDS = ("ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Deployment")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_RESOURCES = {each.kind: each for each in vars(kinds).values() if isinstance(each, Resource)}
_MARK = "trainyard.dev/scheduler-configuration"
PATIENCE, PAUSE = 120.0, 0.05
"""Default timeout and polling interval in seconds."""
PLATFORM_TAINT: Mapping[str, str] = {"key": "trainyard.dev/platform", "value": "true", "effect": "NoSchedule"}
"""Taint of the node of the platform's own pods."""
ON_PLATFORM_NODE: Mapping[str, Any] = {
    "nodeSelector": {PLATFORM_TAINT["key"]: PLATFORM_TAINT["value"]},
    "tolerations": [{"key": PLATFORM_TAINT["key"], "operator": "Exists"}],
}
"""Fields of a pod of the platform."""


async def install(client: Client, access: ClusterAccess, status: Callable[[], ClusterStatus]) -> None:
    """Install Volcano unless it is installed, and wait until it is healthy.

    Parameters
    ----------
    client
        Administrator's client.
    access
        The cluster.
    status
        Returns the status of its processes.

    Raises
    ------
    TrainyardError
        It does not become healthy.
    """
    if await client.find(DEPLOYMENTS, _SCHEDULER, namespace=NAMESPACE) is None:
        for body in objects(access):
            await client.apply(_RESOURCES[body["kind"]], body, field_manager=MANAGER)
    await _await_healthy(status)
    await wait_until("queue default is open", lambda: queue_open(client, "default"))


async def configure(client: Client, text: str, mark: str, status: Callable[[], ClusterStatus]) -> None:
    """Restart the scheduler with a configuration, unless it already runs with it.

    Parameters
    ----------
    text
        Text of ``volcano-scheduler.conf``.
    mark
        Digest of further inputs whose change requires a restart.
    """
    name, key = CONFIGURATION
    live = await client.find(CONFIG_MAPS, name, namespace=NAMESPACE)
    marked = ((live or {}).get("metadata", {}).get("annotations") or {}).get(_MARK)
    if live is not None and live["data"].get(key) == text and marked == mark:
        return
    before = _pids(status())[PROGRAMS["scheduler"]]
    patch = {"metadata": {"annotations": {_MARK: mark}}, "data": {key: text}}
    await client.merge_patch(CONFIG_MAPS, name, patch, namespace=NAMESPACE)
    stamp = {_MARK: datetime.datetime.now(datetime.UTC).isoformat()}
    restarted = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
    await client.merge_patch(DEPLOYMENTS, _SCHEDULER, restarted, namespace=NAMESPACE)

    await _wait_for_restart(PROGRAMS["scheduler"], before, status)


async def kill(names: Iterable[str], status: Callable[[], ClusterStatus]) -> None:
    """Kill programs of Volcano, and wait until they have restarted.

    Parameters
    ----------
    names
        Keys of `PROGRAMS`.
    status
        Returns the status of the cluster's processes.
    """
    pids = _pids(await asyncio.to_thread(status))
    victims = [PROGRAMS[name] for name in names]
    for program in victims:
        if (pid := pids[program]) is not None:
            os.kill(pid, signal.SIGKILL)
    for program in victims:
        await _wait_for_restart(program, pids[program], status)


async def _wait_for_restart(program: str, before: int | None, status: Callable[[], ClusterStatus]) -> None:
    async def started() -> bool:
        return _pids(await asyncio.to_thread(status))[program] not in (None, before)

    await wait_until(f"{program} has restarted", started)
    await _await_healthy(status)


async def queue_open(client: Client, name: str) -> bool:
    """Return whether a queue is open."""
    body = await client.find(QUEUES, name)
    return body is not None and (body.get("status") or {}).get("state") == "Open"


async def wait_until(what: str, probe: Callable[[], Any], *, patience: float = PATIENCE, pause: float = PAUSE) -> None:
    """Wait for a condition, with timeout and polling interval in seconds.

    Raises
    ------
    TrainyardError
        It is not true in time.
    """
    deadline = time.monotonic() + patience
    why = ""
    while time.monotonic() < deadline:
        try:
            if await probe():
                return
        except ApiError as error:
            why = f": {error}"
        await asyncio.sleep(pause)
    raise TrainyardError(
        f"Timed out after {patience:.0f} s waiting until {what}{why}", fix="see `trainyard cluster status`"
    )


def _pids(status: ClusterStatus) -> dict[str, int | None]:
    found = {each.name: each.pid for each in status.processes}
    return {program: found.get(program) for program in PROGRAMS.values()}


async def _await_healthy(status: Callable[[], ClusterStatus]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        found = await asyncio.to_thread(status)
        waiting = [each for each in found.processes if each.name in PROGRAMS.values() and each.health != "healthy"]
        if not waiting:
            return
        if time.monotonic() > deadline:
            details = "; ".join(f"{each.name} is {each.health} ({each.detail})" for each in waiting)
            fix = f"see `trainyard cluster logs {waiting[0].name} --name {found.name}`"
            raise TrainyardError(f"Volcano does not become healthy: {details}", fix=fix)
        await asyncio.sleep(0.1)


def objects(access: ClusterAccess) -> Iterator[dict[str, Any]]:
    """Yield the objects of Volcano, in the order of their creation."""
    version = supported_versions("volcano")[0]
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for path in upstream.locked_files("volcano", version):
        for definition in upstream.documents("volcano", version, path) if path.startswith(_CRDS) else ():
            yield upstream.without_descriptions(definition)
    found = upstream.documents("volcano", version, _INSTALLER, kinds=_KINDS + _WEBHOOKS)
    now, lifetime = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=365)
    authority = pki.authority("trainyard-simulate", now=now, lifetime=lifetime)
    server = pki.issue(authority, "volcano", now=now, lifetime=lifetime, ip_addresses=["127.0.0.1"], server=True)
    files = {"tls.crt": server.certificate, "tls.key": server.key, "ca.crt": authority.certificate}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "volcano-admission-secret", "namespace": NAMESPACE},
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }
    bundle = base64.b64encode(authority.certificate).decode()
    for body in sorted(found, key=lambda body: (*_KINDS[:-1], *_WEBHOOKS, "Deployment").index(body["kind"])):
        if body["metadata"].get("namespace", NAMESPACE) != NAMESPACE:
            continue
        if body["kind"] in _WEBHOOKS:
            yield _webhooks(body, access, bundle)
        elif body["kind"] != "Deployment":
            yield body
        elif body["metadata"]["name"] in PROGRAM_OF_DEPLOYMENT:
            yield _deployment(body, component_release("volcano", version).tag)


def _webhooks(body: dict[str, Any], access: ClusterAccess, bundle: str) -> dict[str, Any]:
    body = copy.deepcopy(body)
    for webhook in body["webhooks"]:
        service = webhook["clientConfig"]["service"]
        webhook["clientConfig"] = {
            **access.client_config(
                PROGRAMS["admission"], service=service["name"], namespace=NAMESPACE, path=service["path"]
            ),
            "caBundle": bundle,
        }
    return body


def _deployment(body: dict[str, Any], tag: str) -> dict[str, Any]:
    body = copy.deepcopy(body)
    program = PROGRAM_OF_DEPLOYMENT[body["metadata"]["name"]]
    template = body["spec"]["template"]
    for metadata in (body["metadata"], template["metadata"]):
        metadata.setdefault("labels", {})[HOST_PROCESS_LABEL] = program
    body["spec"]["strategy"] = {"type": "Recreate"}  # Two schedulers at once would schedule the same pods.
    pod = template["spec"]
    pod["serviceAccountName"] = body["metadata"]["name"]
    pod.update(ON_PLATFORM_NODE)
    container = pod["containers"][0]
    container["image"] = f"{container['image'].rpartition(':')[0]}:{tag}"
    changed = {"-v": "-v=2", "--schedule-period": "--schedule-period=200ms", "--kube-api-qps": "--kube-api-qps=2000"}
    changed |= {"--kube-api-burst": "--kube-api-burst=2000"}
    arguments = [changed.get(each.partition("=")[0], each) for each in container["args"] if each != "2>&1"]
    command = [f"/{program}"]
    container |= {"command": command, "args": arguments}
    return body
