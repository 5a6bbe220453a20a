from __future__ import annotations

import asyncio

from tests.simulation.cluster_controllers import terminal
from tests.simulation.virtual_time import VirtualTimeLoop, run_in_virtual_time
from tests.simulation.world import NAMESPACE, World
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import JOB_SETS

POD = {"containers": [{"name": "node", "image": "image:1"}]}
SPEC = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": POD}}}}]}
METADATA = {"name": "a", "namespace": NAMESPACE}


def test_a_job_set_runs_ends_and_goes_after_its_ttl() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        world = World(loop, 1, replicas=1)
        world.create(JOB_SETS, {"metadata": METADATA, "spec": {**SPEC, "ttlSecondsAfterFinished": 30}})
        await asyncio.sleep(2)
        running = world.find(JOB_SETS, "a", NAMESPACE)
        assert running is not None
        assert running.body["status"]["replicatedJobsStatus"][0]["active"] == 1
        world.end_job_set("a", "Completed")
        await asyncio.sleep(20)
        ended = world.find(JOB_SETS, "a", NAMESPACE)
        assert ended is not None
        assert terminal(ended.body)["reason"] == "AllJobsCompleted"
        await asyncio.sleep(20)
        assert world.find(JOB_SETS, "a", NAMESPACE) is None

    run_in_virtual_time(main, seed=1)


def test_a_suspended_job_set_completes_only_if_it_has_run() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        world = World(loop, 1, replicas=1)
        world.create(JOB_SETS, {"metadata": METADATA, "spec": {**SPEC, "suspend": True}})
        for suspend, completes in ((True, False), (False, False), (True, True)):
            world.patch(JOB_SETS, "a", {"spec": {"suspend": suspend}}, namespace=NAMESPACE)
            await asyncio.sleep(2)
            if suspend:
                world.end_job_set("a", "Completed")
            stored = world.find(JOB_SETS, "a", NAMESPACE)
            assert stored is not None
            assert bool(terminal(stored.body)) == completes

    run_in_virtual_time(main, seed=1)


def test_what_loses_its_owner_goes_and_a_foreground_deletion_waits_for_it() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        world = World(loop, 1, replicas=1)
        owner = world.create(JOB_SETS, {"metadata": METADATA, "spec": SPEC})
        assert owner is not None
        reference = {
            "apiVersion": JOB_SETS.api_version,
            "kind": "JobSet",
            "name": "a",
            "uid": owner.metadata["uid"],
            "blockOwnerDeletion": True,
        }
        held = {"name": "kept", "namespace": NAMESPACE, "ownerReferences": [reference], "finalizers": ["example.com/x"]}
        world.create(CONFIG_MAPS, {"metadata": held})
        world.delete(JOB_SETS, "a", NAMESPACE, "Foreground")
        await asyncio.sleep(30)
        assert world.find(JOB_SETS, "a", NAMESPACE) is not None
        world.patch(CONFIG_MAPS, "kept", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await asyncio.sleep(10)
        assert world.find(JOB_SETS, "a", NAMESPACE) is None
        assert world.find(CONFIG_MAPS, "kept", NAMESPACE) is None

    run_in_virtual_time(main, seed=1)
