"""Queue trees change on the real Volcano without a step that it refuses, and never under the feet of jobs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from components.hooks.queues import QueueMigration
from tests.queues.random_trees import Tree, applied, random_tree
from tests.queues.trees import gpus
from tests.support import LiveCluster, awaited, require
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.provider import ClusterAccess

pytestmark = pytest.mark.cluster

Settings = dict[str, Any]
HOME = "volcano-system"
"""A namespace that tenant rules do not bind."""
PAIRS = int(os.environ.get("TRAINYARD_QUEUE_WALK", "20"))
"""Changes from one random tree to the next."""


@pytest.fixture
def changing(changing_platform: LiveCluster, tmp_path: Path) -> Iterator[LiveCluster]:
    """The platform with settings of the test's own; they are put back afterwards, if the test has not done it."""
    own = tmp_path / changing_platform.config_file.name
    own.write_text(changing_platform.config_file.read_text())
    yield LiveCluster(changing_platform.name, own, changing_platform.env)
    changing_platform.kubectl("delete", "podgroup", "waits", "-n", HOME, "--ignore-not-found")
    if yaml.safe_load(own.read_text()) != yaml.safe_load(changing_platform.config_file.read_text()):
        require(changing_platform.trainyard("up", "--yes", "--config-file", str(changing_platform.config_file)))


def configure(
    cluster: LiveCluster, change: Callable[[Settings], None], section: str | None = "trainyard:queues"
) -> None:
    """Change a section of the settings, or all of them."""
    document = yaml.safe_load(cluster.config_file.read_text())
    change(document["config"][section] if section else document["config"])
    cluster.config_file.write_text(yaml.safe_dump(document, sort_keys=False))


def up(
    cluster: LiveCluster, change: Callable[[Settings], None], section: str | None = "trainyard:queues"
) -> dict[str, str]:
    """Apply a change; return the operation on each queue."""
    configure(cluster, change, section)
    output = cluster.trainyard("up", "--yes", "--config-file", str(cluster.config_file), "-o", "json")
    changes = json.loads(require(output))["changes"]
    return {
        each["resource"].rpartition("/")[2]: each["operation"]
        for each in changes
        if each["resource"].startswith("Queue/")
    }


def refused(cluster: LiveCluster, change: Callable[[Settings], None], section: str | None = "trainyard:queues") -> str:
    """Return what a preview of a change says, and take the change back."""
    before = cluster.config_file.read_text()
    configure(cluster, change, section)
    result = cluster.trainyard("preview", "--config-file", str(cluster.config_file))
    cluster.config_file.write_text(before)
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    return result.stderr


def queue(cluster: LiveCluster, name: str) -> dict[str, Any]:
    body = cluster.get("queue", name)
    assert body is not None, f"no queue {name}"
    found: dict[str, Any] = body
    return found


def retired_queues(cluster: LiveCluster) -> list[str]:
    found: list[str] = cluster.get("platform", "platform")["spec"]["retiredQueues"]
    return found


def in_state(cluster: LiveCluster, name: str, state: str) -> bool:
    return awaited(f"queue {name} to be {state}", lambda: queue(cluster, name)["status"].get("state") == state)


def amounts(gpus: int, parent: str = "root", **more: Any) -> Settings:
    amount = {"cpu": str(12 * gpus), "memory": f"{gpus}Ti", "nvidia.com/gpu": str(gpus)}
    return {"parent": parent, "deserved": amount, "capability": amount, **more}


def said_of_volcanos_queues(cluster: LiveCluster) -> tuple[Any, Any, Any]:
    """Return the capability of root, and capability and weight of default."""
    root, default = (queue(cluster, name) for name in ("root", "default"))
    assert not {label for each in (root, default) for label in each["metadata"].get("labels", {})}
    return root["spec"].get("capability"), default["spec"].get("capability"), default["spec"].get("weight")


def test_a_tree_is_turned_inside_out_while_a_queue_is_closed_drained_retired_and_removed(changing: LiveCluster) -> None:
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "waits", "namespace": HOME},
        "spec": {"queue": "old", "minMember": 1},
    }

    def at_first(queues: Settings) -> None:
        queues |= {"root": {"capability": gpus(64)}, "default": {"capability": gpus(8), "weight": 3}}
        queues |= {"outer": amounts(16), "inner": amounts(16, "outer"), "leaf": amounts(16, "inner")}
        queues |= {"beside": amounts(8), "old": amounts(8)}

    def old(queues: Settings, **more: Any) -> None:
        queues["old"] = amounts(8, **more)

    def without_old(queues: Settings) -> None:
        del queues["old"]

    def with_child(queues: Settings) -> None:
        queues["new"] = amounts(4, "old")

    def turned(queues: Settings) -> None:
        queues |= {"root": {"capability": gpus(32)}, "default": {"capability": gpus(4)}}
        queues |= {"leaf": amounts(4), "inner": amounts(4, "leaf"), "outer": amounts(2, "inner")}
        queues |= {"beside": amounts(2, "inner"), "between": amounts(2, "outer")}
        old(queues, state="closed")

    assert set(up(changing, at_first).values()) == {"create"}
    assert said_of_volcanos_queues(changing) == (gpus(64), gpus(8), 3)
    assert retired_queues(changing) == []
    in_state(changing, "old", "Open")
    require(changing.apply(gang))

    message = refused(changing, without_old)
    assert "queue 'old' would be removed, but it has 1 job: volcano-system/waits (" in message
    assert "queue 'old' would get child queues (new)" in refused(changing, with_child)

    changes = up(changing, turned)
    assert changes.pop("old", None) in (None, "update")
    assert changes == {
        "leaf": "update", "inner": "update", "outer": "update", "beside": "update", "between": "create"
    }  # fmt: skip
    parents = {name: queue(changing, name)["spec"]["parent"] for name in changes}
    assert parents == {"leaf": "root", "inner": "leaf", "outer": "inner", "beside": "inner", "between": "outer"}
    assert queue(changing, "outer")["spec"]["capability"]["nvidia.com/gpu"] == "2"
    assert said_of_volcanos_queues(changing) == (gpus(32), gpus(4), 1)
    in_state(changing, "old", "Closing")
    assert "is closing, and Volcano rejects changes" in refused(
        changing, lambda queues: queues.update(old=amounts(4, state="closed"))
    )

    def retired(queues: Settings) -> None:
        for name in changes:
            queues[name]["state"] = "retired"
        old(queues, state="open")

    def gone(queues: Settings) -> None:
        for name in (*changes, "root", "default"):
            del queues[name]
        old(queues, state="retired")

    deletions = up(changing, retired)
    assert deletions.pop("old", None) in (None, "update")
    assert deletions == dict.fromkeys(changes, "delete")
    assert set(retired_queues(changing)) == changes.keys()
    assert [name for name in changes if changing.get("queue", name) is not None] == []
    in_state(changing, "old", "Open")

    assert set(up(changing, gone)) <= {"old"}
    assert said_of_volcanos_queues(changing) == (None, None, 1)
    assert retired_queues(changing) == ["old"]
    in_state(changing, "old", "Closing")
    require(changing.kubectl("delete", "podgroup", "waits", "-n", HOME))
    in_state(changing, "old", "Closed")
    assert up(changing, without_old) == {"old": "delete"}
    # Until an `up` finds it gone: the controller must not open a queue before it is deleted.
    assert retired_queues(changing) == ["old"]


def test_a_protected_stack_lets_go_of_what_is_retired_in_one_up(changing: LiveCluster) -> None:
    """Of nothing else, and of the data in a tenant's namespace only if the settings say so.

    The queues are open, and one has a job in that namespace.
    """
    job = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "waits", "namespace": "leaving"},
        "spec": {"queue": "old", "minMember": 1},
    }
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "leaving"}}

    def protected(config: Settings) -> None:
        config["trainyard:protect"] = True
        config["trainyard:queues"] |= {"top": amounts(8), "old": amounts(8, "top")}
        config["trainyard:tenants"]["leaving"] = {"queues": ["old"]}

    def queue_state(value: str) -> Callable[[Settings], None]:
        return lambda config: [config["trainyard:queues"][name].update(state=value) for name in ("top", "old")]

    def retired(config: Settings, **more: Any) -> None:
        queue_state("retired")(config)
        config["trainyard:tenants"]["leaving"] |= {"state": "retired", **more}

    def gone(config: Settings) -> None:
        del config["trainyard:queues"]["old"], config["trainyard:queues"]["top"], config["trainyard:tenants"]["leaving"]
        del config["trainyard:protect"]

    up(changing, protected, section=None)
    require(changing.apply(data, job))
    assert "mark it retired first" in refused(changing, gone, section=None)
    assert "'old', which is retired" in refused(changing, queue_state("retired"), section=None)
    assert "contains 1 ConfigMap (notes), 1 PodGroup (waits)" in refused(changing, retired, section=None)

    configure(changing, lambda config: retired(config, deleteData=True), section=None)
    shown = json.loads(require(changing.trainyard("preview", "--config-file", str(changing.config_file), "-o", "json")))
    deleted = {each["resource"] for each in shown["changes"] if each["operation"] == "delete"}
    assert {"Queue/top", "Queue/old", "Namespace/leaving"} <= deleted
    assert not [each for each in deleted if "leaving" not in each and "Queue/" not in each]
    (note,) = [each for each in shown["notes"] if "namespace leaving" in each]
    assert "namespace leaving is deleted with 1 ConfigMap (notes), 1 PodGroup (waits)" in note
    assert any("so that the controller closes queues old, top" in each for each in shown["notes"])
    assert {each["change"] for each in shown["queues"]["queues"] if each["queue"] in ("old", "top")} == {"removed"}

    assert up(changing, lambda _: None, section=None) == {"top": "delete", "old": "delete"}
    assert [changing.get(*each) for each in (("queue", "old"), ("queue", "top"), ("namespace", "leaving"))] == [
        None
    ] * 3
    assert up(changing, lambda _: None, section=None) == {}
    result = changing.trainyard("destroy", "--yes", "--config-file", str(changing.config_file))
    assert "Queue/vision: protected" in result.stderr
    assert up(changing, gone, section=None) == {}


def test_the_real_webhook_refuses_no_step_from_any_tree_to_any_other(changing_platform: LiveCluster) -> None:
    asyncio.run(_walk(changing_platform))


async def _walk(platform: LiveCluster) -> None:
    random = Random(20)
    names = tuple(f"walk-{letter}" for letter in "abcdef")
    access = ClusterAccess(platform.name, platform.kubeconfig)
    async with Client.from_kubeconfig(platform.kubeconfig) as client:
        live: Tree = {}
        for wanted in [*(random_tree(random, names) for _ in range(PAIRS)), {}]:
            migration = QueueMigration(access, [_manifest(name, spec) for name, spec in wanted.items()], names)
            await migration.prepare(client)
            for name, _ in applied(wanted, live, random):
                if name in wanted:
                    await migration.wait_until_admitted(client, name)
                    await client.apply(QUEUES, _manifest(name, wanted[name]), field_manager="trainyard")
                else:
                    await _deleted(client, name)
            live = wanted
        assert not {queue["metadata"]["name"] for queue in await client.list(QUEUES)} & set(names)


async def _deleted(client: Client, name: str) -> None:
    """Delete a queue once the webhook has seen its last child go."""
    async with asyncio.timeout(10):
        while True:
            try:
                await client.delete(QUEUES, name)
                return
            except ApiError as error:
                if "child queues" not in error.message:
                    raise
                await asyncio.sleep(0.05)


def _manifest(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
