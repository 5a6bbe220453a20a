"""The cluster with real nodes that the tests share, and what this machine has before it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.real.isolated import RUN
from tests.support import LiveCluster, environment, require, stack_file, trainyard
from trainyard.kube.blocking import BlockingSession
from trainyard.local.cluster.node.requirements import missing

NAME = os.environ.get(RUN, "")
"""Of the cluster; `isolated` gives each run one of its own."""
_SETTINGS = (
    *("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops"),
    *("kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes"),
)
_FOLDERS = ("/usr/libexec/kubernetes", "/opt", "/etc")
"""Where kubelets and containerds create files on other machines."""


FIGURES: dict[str, str] = {}
"""What the tests have measured, for docs/real.md."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests have measured."""
    if FIGURES:
        terminalreporter.section("figures for docs/real.md")
        for name, value in FIGURES.items():
            terminalreporter.write_line(f"{name}: {value}")


@dataclass
class RealCluster:
    """A cluster with three real nodes.

    Parameters
    ----------
    cluster
        Access to it.
    output
        Output of the commands that made it, by command.
    seconds
        Their duration.
    before
        What this machine had before.
    objects
        What the cluster had before the installation.
    """

    cluster: LiveCluster
    output: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    before: dict[str, list[str]] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)

    def timed(self, *arguments: str) -> str:
        """Run a command on the cluster's stack, and record its output and duration."""
        began = time.monotonic()
        result = trainyard(*arguments, *self.options, env=self.cluster.env)
        name = " ".join(arguments)
        self.seconds[name] = time.monotonic() - began
        self.output[name] = require(result) + result.stderr
        return self.output[name]

    @property
    def options(self) -> tuple[str, ...]:
        return ("--stack", "node", "--name", NAME)

    @property
    def root(self) -> Path:
        return Path(self.cluster.env["TRAINYARD_STATE_HOME"]) / "clusters" / NAME


def lines(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(done.stdout.splitlines())


def machine_state() -> dict[str, list[str]]:
    """Return the interfaces, namespaces, cgroups, mounts, packet filter rules, settings and files of this machine."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/trainyard-*")]
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return {
        "interfaces": lines("ip", "-o", "link"),
        "addresses": lines("ip", "-o", "address"),
        "routes": lines("ip", "route", "show", "table", "all"),
        "network namespaces": lines("ip", "netns"),
        "cgroups": sorted(groups),
        "mounts": sorted(mounts),
        "rules": lines("nft", "list", "ruleset"),
        "settings": lines("sysctl", *_SETTINGS),
        "files": sorted(str(path) for folder in _FOLDERS for path in Path(folder).rglob("*")),
    }


def node_commands() -> list[str]:
    """Return the command lines of processes that belong to nodes."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder.name.isdigit() and any(
            name in command for name in ("kubelet", "containerd", "relay.py", "node_init")
        ):
            found.append(command)
    return found


def cluster_memory() -> int:
    """Return the bytes of all processes of the cluster; shared pages count in part (proportional set size).

    In the process namespace of the tests every process belongs to it, but the tests and what started them.
    """
    own, found = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}, 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in own:
            continue
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return found


def every_object(cluster: LiveCluster) -> set[str]:
    """Return all objects of all kinds, those with generated names without them; events are not listed."""
    with BlockingSession(cluster.kubeconfig) as session:

        def read(path: str) -> Any:
            response = session.request("GET", path)
            if not response.ok:
                raise response.error
            return response.body

        groups = ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in read("/apis")["groups"])]
        found = set()
        for group in groups:
            for kind in read(group)["resources"]:
                if "/" in kind["name"] or "list" not in kind["verbs"] or kind["kind"] == "Event":
                    continue
                for each in read(f"{group}/{kind['name']}")["items"]:
                    metadata = each["metadata"]
                    name = metadata.get("generateName") or metadata["name"]
                    found.add(f"{kind['kind']} {metadata.get('namespace', '')}/{name}")
        return found


def process_of(real: RealCluster, name: str) -> int:
    """Return the id of a process of the cluster."""
    status = require(trainyard("cluster", "status", *real.options, "-o", "json", env=real.cluster.env))
    return next(int(line["pid"]) for line in json.loads(status)["processes"] if line["name"] == name)


def _with_devices(config: dict[str, Any]) -> None:
    """Give nodes and shares devices, and keep the record of usage and of progress, which metrics are about."""
    device = "nvidia.com/gpu"
    config["trainyard:fabric"]["nodeShape"]["capacity"][device] = "2"
    for name, share in (("research", "2"), ("vision", "1"), ("language", "1")):
        queue = config["trainyard:queues"][name]
        queue["deserved"][device], queue["capability"][device] = share, "6"
    config["trainyard:trainer"] |= {"recordUsage": True, "progressReports": True}


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """The stack of production on three nodes, with its smoke job."""
    if not NAME:
        pytest.fail("these tests need namespaces of their own: use `make test-real` or `python -m tests.real.isolated`")
    if found := missing():
        pytest.skip("; ".join(map(str, found)))
    before = machine_state()
    env = environment(tmp_path_factory.mktemp("state"))
    config = stack_file(tmp_path_factory.mktemp("real"), NAME, _with_devices, stack="node")
    found = RealCluster(LiveCluster(NAME, config, env), before=before)
    try:
        found.timed("cluster", "up")
        exported = json.loads(require(trainyard("cluster", "env", *found.options, "-o", "json", env=env)))
        found.cluster = LiveCluster(NAME, config, env | exported)
        found.objects = every_object(found.cluster)
        began = time.monotonic()
        done = trainyard("quickstart", "--stack", "node", "--config-file", str(config), env=env)
        found.output["quickstart"], found.seconds["quickstart"] = require(done), time.monotonic() - began
        yield found
    finally:
        trainyard("cluster", "down", "--delete", *found.options, env=env)
