"""With Volcano's own controller and webhooks: a queue closes once its jobs have ended, and an outage delays gangs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compatibility.servers import install
from tests.faults.bench import Bench
from tests.faults.conftest import Replica, exhaustive
from tests.faults.scene import Scene, runtime, within
from tests.queues.real_webhook import certificate, manager, registrations
from tests.support import awaited
from trainyard import upstream
from trainyard.kube.training_kinds import COMMANDS, JOB_SETS, POD_GROUPS, QUEUES, TRAINING_RUNTIMES
from trainyard.local.cluster import ports
from trainyard.local.cluster.controlplane import ControlPlaneProcess
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.process import ProcessSpec
from trainyard.local.cluster.toolchain import program_path
from trainyard.settings.versions import supported_versions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("volcano"), exhaustive]
PROGRAM = "vc-controller-manager"
KIND = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
AGAIN = 62.0
"""Seconds after which every rejection has been retried."""
KINDS = ("batch.volcano.sh_jobs", "batch.volcano.sh_cronjobs", "bus.volcano.sh_commands")
CONFIGURATIONS = ("config.volcano.sh_colocationconfigurations",)
MORE = ("scheduling.volcano.sh_queues", "shard.volcano.sh_nodeshards", "topology.volcano.sh_hypernodes")
FLOWS = ("flow.volcano.sh_jobflows", "flow.volcano.sh_jobtemplates")


def definitions() -> list[dict[str, Any]]:
    version = supported_versions("volcano")[0]
    paths = [f"config/crd/volcano/bases/{name}.yaml" for name in (*KINDS, *MORE, *CONFIGURATIONS)]
    paths += [f"config/crd/jobflow/bases/{name}.yaml" for name in FLOWS]
    return [yaml.safe_load(upstream.read("volcano", version, path)) for path in paths]


@pytest.fixture(scope="module")
def volcano(control_plane: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Volcano's controller manager."""

    async def prepare() -> None:
        async with control_plane.server.client() as client:
            await install(client, definitions())

    asyncio.run(prepare())
    folder: Path = tmp_path_factory.mktemp("volcano")
    taken = set(control_plane.parts["etcd"].ports.values()) | set(control_plane.parts["kube-apiserver"].ports.values())
    health, metrics, *_ = ports.allocate(str(folder), {}, taken).values()
    command = (
        str(program_path(PROGRAM)),
        f"--kubeconfig={control_plane.server.kubeconfig}",
        "--leader-elect=false",
        "--enable-healthz=true",
        f"--healthz-address=127.0.0.1:{health}",
        f"--listen-address=127.0.0.1:{metrics}",
    )
    spec = ProcessSpec(PROGRAM, "", command, folder / "volcano.log")
    part = ControlPlaneProcess(spec, Probe(health, "/healthz"), None, {})
    control_plane.parts = {**control_plane.parts, PROGRAM: part}
    try:
        control_plane.start(PROGRAM)
        yield
    finally:
        control_plane.stop(PROGRAM)


def state(scene: Scene, queue: str) -> str:
    body = scene.api.get(QUEUES, queue)
    return str(((body or {}).get("status") or {}).get("state") or "")


def test_a_queue_closes_when_its_jobs_have_ended(scene: Scene, shared: Replica) -> None:
    queue = scene.namespace
    stored = scene.api.create(QUEUES, {**KIND, "metadata": {"name": queue}, "spec": {"weight": 1}})
    try:
        awaited("the queue to be open", lambda: state(scene, queue) == "Open")
        body = runtime(gang=True)
        annotations = {"annotations": {"scheduling.volcano.sh/queue-name": queue}}
        body["spec"]["template"]["metadata"] = annotations
        scene.create(TRAINING_RUNTIMES, body)
        for name in ("done", "lost"):
            scene.running(name)
            scene.awaited(POD_GROUPS, name, lambda group: group["spec"].get("queue") == queue)
        owner = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": queue, "uid": stored["metadata"]["uid"]}
        scene.create(
            COMMANDS,
            {
                "metadata": {"name": "close", "ownerReferences": [{**owner, "controller": True}]},
                "action": "CloseQueue",
                "target": {**owner, "controller": True},
            },
        )
        awaited("the queue to be closing", lambda: state(scene, queue) == "Closing")
        scene.play("done", "Completed")
        scene.condition("Complete", "done")
        scene.play("lost", "Failed")
        scene.condition("Failed", "lost")
        awaited("the queue to be closed", lambda: state(scene, queue) == "Closed")
    finally:
        scene.api.delete(QUEUES, queue)


@contextmanager
def registered(control_plane: Bench, port: int, authority: bytes) -> Iterator[None]:
    """Have the API server ask the webhooks of PodGroups."""
    found = list(registrations(POD_GROUPS, port, authority))
    try:
        for resource, body in found:
            control_plane.api.create(resource, body)
        yield
    finally:
        for resource, body in found:
            control_plane.api.delete(resource, body["metadata"]["name"])


def accepted(scene: Scene) -> bool:
    """Return whether the webhooks of PodGroups answer."""
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    body = {**kind, "metadata": {"name": "probe"}, "spec": {"minMember": 1}}
    return bool(scene.api.session.request("POST", POD_GROUPS.path(namespace=scene.namespace), body, dry_run=True).ok)


def test_gangs_start_within_a_minute_of_the_return_of_volcanos_webhook(
    scene: Scene, shared: Replica, control_plane: Bench, tmp_path: Path
) -> None:
    scene.api.ensure(QUEUES, {**KIND, "metadata": {"name": "default"}, "spec": {"weight": 1}})
    awaited("the queue to be open", lambda: state(scene, "default") == "Open")
    scene.runtime(gang=True)
    scene.runtime("plain")
    port, files, authority = certificate(tmp_path)
    served = partial(manager, POD_GROUPS, control_plane.server.kubeconfig, port, files, tmp_path)
    with registered(control_plane, port, authority):
        with served():
            awaited("the webhooks", lambda: accepted(scene), timeout=60)
            scene.running("before")
        since = len(shared.proxy.calls)
        scene.submit()
        scene.awaited_event("failed calling webhook")
        scene.change("before", suspend=True)
        scene.suspended("before")
        scene.condition("Suspended", "before")
        scene.running("plain", runtime="plain")

        def attempts() -> int:
            return sum(call.plural == "podgroups" and call.target == "job" for call in shared.proxy.writes(since=since))

        awaited("long pauses between attempts", lambda: attempts() >= 6, timeout=120)
        assert scene.find(JOB_SETS, "job") is None
        with served():
            awaited("the webhooks", lambda: accepted(scene), timeout=60)
            with within(AGAIN):
                scene.job_set(timeout=AGAIN)
            assert scene.find(POD_GROUPS, "job")
