"""`trainyard up` that was killed goes on where it was when it is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from tests.cluster.owned_objects import live_uids, recorded_uids
from tests.conftest import live
from tests.support import ROOT, LiveCluster, awaited, environment, plain_project, require, run, stack_file, trainyard
from trainyard.local.cluster.environment import LOCAL_PASSPHRASE
from trainyard.local.cluster.folders import cache_home, config_home

pytestmark = pytest.mark.cluster

KILLS = int(os.environ.get("TRAINYARD_KILLS", "4"))
"""Runs that are killed at random; `make kills` kills more, half of them with checkpoints."""

MANY: Final = "TRAINYARD_KILLS" in os.environ

SHARED_KILLS = KILLS // 5
"""Pairs of a `destroy` and an `up` that are killed on a shared backend."""

MODES: Final = {"one-write-of-the-state": False} | ({"checkpoints": True} if MANY else {})
"""Whether Pulumi writes its state after every step, by name of the mode."""

BETWEEN_CHECKS = 4
"""Kills after which a run finishes: otherwise the state would end up empty, and no operation would have work."""

YES: Final = {"up": ("--yes",), "destroy": ("--yes",), "refresh": (), "preview": ()}


@pytest.fixture(scope="module")
def interrupted(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane on which `up` will be killed."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("resume"), "resume")
    try:
        require(trainyard("cluster", "up", "--name", "resume", env=env))
        yield live("resume", config, env)
    finally:
        trainyard("cluster", "down", "--name", "resume", "--delete", env=env)


@pytest.fixture(scope="module")
def state(state_home: Path) -> Path:
    """The state file of the stack."""
    return state_home / "clusters" / "resume" / "pulumi" / ".pulumi" / "stacks" / "trainyard" / "local.json"


@pytest.fixture(scope="module")
def complete(interrupted: LiveCluster, state: Path) -> LiveCluster:
    """The control plane with the whole platform, which the test of kills has left."""
    recorded = recorded_uids(state)
    if not recorded or recorded != live_uids(interrupted.kubeconfig):
        require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    return interrupted


def killed(cluster: LiveCluster, operation: str, moment: Callable[[], bool], *, whole_group: bool) -> bool:
    """Run `up` or `destroy` until a moment or its end, then kill it: the command alone, or with what it started.

    Returns whether it still ran.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "trainyard", operation, "--yes", "--config-file", str(cluster.config_file)],
        cwd=ROOT,
        env=cluster.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        awaited("the moment to kill it", lambda: moment() or process.poll() is not None, timeout=180, lag=0)
    finally:
        if whole_group and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
    return process.returncode == -signal.SIGKILL


def backups(state: Path) -> list[dict[str, Any]]:
    """Return the copies of a state file that Pulumi keeps beside it, oldest first."""
    folder = state.parents[2] / "backups" / state.parent.name / state.stem
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def require_equal(cluster: LiveCluster, state: Path) -> None:
    """Finish an interrupted run; then the state equals the cluster, and nothing is left to change."""
    arguments = ("--config-file", str(cluster.config_file))
    require(cluster.trainyard("up", "--yes", *arguments))
    assert recorded_uids(state) == live_uids(cluster.kubeconfig)
    assert "nothing to change" in require(cluster.trainyard("up", "--yes", *arguments))


def test_up_on_an_empty_cluster_finishes_after_kills(interrupted: LiveCluster, state: Path) -> None:
    def exists(kind: str, name: str, *where: str) -> Callable[[], bool]:
        return lambda: interrupted.get(kind, name, *where) is not None

    for moment, whole_group in (
        (exists("namespace", "volcano-system"), False),
        (exists("deployment", "volcano-admission", "-n", "volcano-system"), True),
    ):
        assert killed(interrupted, "up", moment, whole_group=whole_group), "`up` ended before it could be killed"
        assert moment()
    require_equal(interrupted, state)
    assert interrupted.get("queue", "vision")["status"]["state"] == "Open"
    assert interrupted.get("namespace", "vision") is not None
    states = [each["checkpoint"]["latest"] or {} for each in backups(state)]
    assert any(each.get("resources") for each in states), "backups of the state are on"


def test_a_lost_state_is_rebuilt_by_imports(complete: LiveCluster, state: Path) -> None:
    """Every object keeps its uid and none is created, so the provider need not take over existing objects."""
    arguments = ("--config-file", str(complete.config_file))
    former = live_uids(complete.kubeconfig)
    assert len(former) > 100
    state.unlink()
    done = json.loads(require(complete.trainyard("up", "--yes", "-o", "json", *arguments)))
    assert live_uids(complete.kubeconfig) == recorded_uids(state) == former
    imported = [each["resource"] for each in done["changes"] if each["operation"] == "import"]
    assert len(imported) == len(set(imported)) == len(former)
    others = {each["resource"] for each in done["changes"] if each["operation"] not in ("import", "update")}
    assert others
    assert all(each.partition("/")[0].endswith("Patch") for each in others), others
    assert "nothing to change" in require(complete.trainyard("up", "--yes", *arguments))


@pytest.mark.parametrize("checkpoints", MODES.values(), ids=MODES)
def test_the_state_equals_the_cluster_after_random_kills(
    complete: LiveCluster, state: Path, *, checkpoints: bool
) -> None:
    """`destroy` and `up` are killed in turn, each after a random share of what it has to delete or to create."""
    env = complete.env | {"PULUMI_SKIP_CHECKPOINTS": str(not checkpoints).lower()}
    cluster, random = replace(complete, env=env), Random(1)
    kills, hits, pending = KILLS // 2, 0, False
    size = len(live_uids(cluster.kubeconfig))
    for turn in range(kills):
        operation, before = ("destroy", "up")[turn % 2], live_uids(cluster.kubeconfig)
        possible = len(before.items() & recorded_uids(state).items()) if turn % 2 == 0 else size - len(before)
        wanted = max(1, int(possible * random.uniform(0.1, 0.9)))

        def moved(start: int = len(before), wanted: int = wanted) -> bool:
            return abs(len(live_uids(cluster.kubeconfig)) - start) >= wanted

        # The first one is killed with the engine, which then cannot end what it has begun.
        hits += killed(cluster, operation, moved, whole_group=turn == 0 or random.random() < 0.5)
        pending = pending or '"pending_operations"' in state.read_text()
        if turn % BETWEEN_CHECKS == BETWEEN_CHECKS - 1 or turn == kills - 1:
            require_equal(complete, state)
            assert len(live_uids(cluster.kubeconfig)) == size
    assert hits * 6 >= kills * 5, f"only {hits} of {kills} runs were killed before they ended"
    assert pending is checkpoints
    assert "nothing to change" in require(complete.trainyard("refresh", "--config-file", str(cluster.config_file)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the backend that two people share."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "backend").mkdir()
    return folder


@pytest.fixture(scope="module")
def colleagues(complete: LiveCluster, shared: Path) -> tuple[LiveCluster, LiveCluster]:
    """Two people with homes of their own, for whom the platform is on an existing cluster; they share a backend.

    The first has installed the stack, whose objects all existed.
    """
    context = yaml.safe_load(complete.kubeconfig.read_text())["current-context"]

    def on_an_existing_cluster(config: dict[str, Any]) -> None:
        config["trainyard:cluster"] = {"provider": "existing", "context": context}
        config.update({f"trainyard:{name}": {"install": "existing"} for name in ("volcano", "jobset", "trainer")})
        config["trainyard:console"] = {"install": False}  # its certificate is issued by the trainer

    config = stack_file(shared, "shared", on_an_existing_cluster)

    def person(name: str) -> LiveCluster:
        home = shared / name
        home.mkdir()
        env = {key: value for key, value in complete.env.items() if not key.startswith(("PULUMI_", "XDG_"))}
        env |= {
            "HOME": str(home),
            "PULUMI_HOME": str(home / ".pulumi"),
            "TRAINYARD_STATE_HOME": str(home / "state"),
            "TRAINYARD_CACHE_HOME": str(cache_home()),
            "TRAINYARD_CONFIG_HOME": str(config_home()),  # has the key of the cache's records
            "PULUMI_BACKEND_URL": f"file://{shared / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": LOCAL_PASSPHRASE,
        }
        return LiveCluster(complete.name, config, env)

    first, second = person("first"), person("second")
    before = live_uids(complete.kubeconfig)
    require(first.trainyard("up", "--yes", "--config-file", str(config)))
    assert live_uids(complete.kubeconfig) == before, "the objects of the stack are those of an empty state too"
    return first, second


@pytest.mark.skipif(not MANY, reason="only in `make kills`")
def test_a_colleague_continues_after_random_kills_on_a_shared_backend(
    complete: LiveCluster, colleagues: tuple[LiveCluster, LiveCluster], shared: Path, tmp_path: Path
) -> None:
    """The lock of a killed run says so and is never released; after `pulumi cancel` the state equals the cluster."""
    file, random = colleagues[0].config_file, Random(2)
    arguments = ("--config-file", str(file))
    state = shared / "backend" / ".pulumi" / "stacks" / "trainyard" / "local.json"
    locks = shared / "backend" / ".pulumi" / "locks"
    project = plain_project(tmp_path, file, "local")
    objects = recorded_uids(state)
    kept = live_uids(complete.kubeconfig).keys() - objects.keys()
    assert len(objects) > 50

    def live_objects() -> dict[str, str]:
        return {name: uid for name, uid in live_uids(complete.kubeconfig).items() if name not in kept}

    hits = 0
    operations = ("destroy", "up") * SHARED_KILLS
    for turn, operation in enumerate(operations):
        person, other = colleagues if turn % 4 < 2 else colleagues[::-1]
        if operation == "up":
            person.trainyard("destroy", "--yes", *arguments)  # The installed programs remain, which it reports.
            assert live_objects() == {}
        wanted = max(1, int(len(objects) * random.uniform(0.1, 0.9)))

        def moved(start: int = len(live_objects()), wanted: int = wanted) -> bool:
            return abs(len(live_objects()) - start) >= wanted

        # At its end it holds the stack no longer, and has done its work.
        hit = killed(person, operation, moved, whole_group=True) and any(locks.rglob("*.json"))
        hits += hit
        if hit:
            output = rejected(other.trainyard("up", "--yes", *arguments))
            assert "holds the stack local" in output, output
            assert "pulumi cancel" in output, output
            require(run("pulumi", "-C", project, "cancel", "--yes", "--stack", "local", env=other.env))
        require(other.trainyard("up", "--yes", *arguments))
        assert recorded_uids(state) == live_objects()
        assert live_objects().keys() == objects.keys()
        assert "nothing to change" in require(other.trainyard("up", "--yes", *arguments))
    assert hits * 2 > len(operations), f"only {hits} of {len(operations)} runs were killed before they ended"
    assert len(backups(state)) > len(operations)


def test_of_two_runs_at_once_one_is_rejected_or_waits(
    complete: LiveCluster, colleagues: tuple[LiveCluster, LiveCluster]
) -> None:
    """The one that is rejected names the fix, and both end well when they are repeated."""
    first = colleagues[0]
    arguments = ("--config-file", str(first.config_file))
    document = yaml.safe_load(first.config_file.read_text())
    document["config"]["trainyard:priorityClasses"]["nightly"] = {"value": 10}
    document["config"]["trainyard:queues"]["nightly"] = {"parent": "research"}
    first.config_file.write_text(yaml.safe_dump(document, sort_keys=False))

    command = [sys.executable, "-m", "trainyard", "up", "--yes", *arguments]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=each.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for each in colleagues
    ]
    printed = [each.communicate(timeout=300)[0] for each in processes]
    assert any(each.returncode == 0 for each in processes), printed
    for process, text in zip(processes, printed, strict=True):
        assert "Traceback" not in text
        if process.returncode != 0:
            assert process.returncode == 2, text
            assert "holds the stack local" in text, text
            assert "Fix: wait" in text, text
    require(first.trainyard("up", "--yes", *arguments))
    assert complete.get("queue", "nightly") is not None
    assert complete.get("priorityclass", "nightly") is not None
    for operation, each in zip(("refresh", "up"), colleagues, strict=True):
        assert "nothing to change" in require(each.trainyard(operation, *YES[operation], *arguments))


def rejected(result: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed that failed without a traceback."""
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert "Traceback" not in output, output
    return output


def test_a_rebuilt_cluster_is_recognized_and_refresh_makes_it_usable(complete: LiveCluster, state: Path) -> None:
    """The state of the former cluster says that all objects exist; the new one, under the same context, has none."""

    def command(operation: str) -> subprocess.CompletedProcess[str]:
        return complete.trainyard(operation, *YES[operation], "--config-file", str(complete.config_file))

    former = state.read_bytes()
    require(complete.trainyard("cluster", "down", "--name", "resume", "--delete"))
    require(complete.trainyard("cluster", "up", "--name", "resume"))
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(former)
    for operation in ("preview", "up", "destroy"):
        output = rejected(command(operation))
        assert "describes another cluster" in output, output
        assert "trainyard refresh --stack local" in output, output
    assert state.read_bytes() == former
    require(command("refresh"))
    require(command("up"))
    assert complete.get("queue", "vision")["status"]["state"] == "Open"
    assert "nothing to change" in require(command("up"))
