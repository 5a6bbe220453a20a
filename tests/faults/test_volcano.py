"""With Volcano's own controller: a queue closes once the jobs in it have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compatibility.servers import install
from tests.faults.bench import Bench
from tests.faults.conftest import Replica, exhaustive
from tests.faults.scene import Scene, runtime
from tests.support import awaited
from trainyard import upstream
from trainyard.cluster import ports
from trainyard.cluster.controlplane import ControlPlaneProcess
from trainyard.cluster.health_probes import Probe
from trainyard.cluster.process import ProcessSpec
from trainyard.cluster.toolchain import program_path
from trainyard.kube.training_kinds import COMMANDS, POD_GROUPS, QUEUES, TRAINING_RUNTIMES
from trainyard.settings.versions import supported_versions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("volcano"), exhaustive]
PROGRAM = "vc-controller-manager"
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
    kind = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
    stored = scene.api.create(QUEUES, {**kind, "metadata": {"name": queue}, "spec": {"weight": 1}})
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
