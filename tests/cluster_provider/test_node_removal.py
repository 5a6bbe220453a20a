"""What `down` removes and what it leaves, with real namespaces and cgroups, in namespaces of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from trainyard.local.cluster.node.requirements import missing

_NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
_PREPARE = 'mount -t tmpfs tmpfs /run && ip link set lo up && "$@"'
_SCRIPT = """
import json, os, subprocess, sys
from pathlib import Path
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import private_folder
from trainyard.local.cluster.node.control_groups import create, hierarchies
from trainyard.local.cluster.node.network import connect
from trainyard.local.cluster.node.node_plan import NAMESPACE_FOLDER, junction, machine_name, plan_nodes
from trainyard.local.cluster.node.node_provider import NodeProvider
from trainyard.local.cluster.state import ClusterState, save_state
from trainyard.errors import TrainyardError
from trainyard.progress import SilentProgress

THREAD = '''
import sys, threading
from trainyard.local.cluster.node.relay import _enter
def stay():
    _enter(sys.argv[1])
    print(flush=True)
    sys.stdin.read()
threading.Thread(target=stay).start()
'''

def make(home):
    os.environ["TRAINYARD_STATE_HOME"] = home
    folder = NodeProvider("x").folder
    for part in (folder.root, folder.processes):
        private_folder(part)
    save_state(folder, ClusterState({}, {}, 0, ("a",)))
    name = machine_name(folder.root)
    (plan,) = plan_nodes(name, ["a"])
    connect(name, [plan])
    create(plan.cgroup, hierarchies())
    return folder, plan

def start(*command):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def down(provider, delete=False):
    try:
        provider("x").down(delete=delete, progress=SilentProgress())
    except TrainyardError as error:
        return error.message
    return ""

folder, plan = make(sys.argv[1])
other, plan_of_other = make(sys.argv[2])
bystander = start("cat")
neighbour = start("ip", "netns", "exec", plan_of_other.namespace, "cat")
member = start("cat")
thread = start(sys.executable, "-c", THREAD, str(NAMESPACE_FOLDER / junction(plan.cluster)))
thread.stdout.readline()
for each in hierarchies():
    group = each.root / plan.cgroup.lstrip("/")
    (group / "cgroup.procs").write_text(str(member.pid))
    if "freezer" in each.controllers:
        (group / "freezer.state").write_text("FROZEN")
os.environ["TRAINYARD_STATE_HOME"] = sys.argv[1]
result = {"first": down(EmbeddedProvider, delete=True)}
result["ended"] = [process.wait(10) for process in (member, thread)]
result["left"] = [process.poll() for process in (bystander, neighbour)]
result["folder"] = folder.root.exists()
hub = junction(plan_of_other.cluster)
result["namespaces"] = sorted(os.listdir(NAMESPACE_FOLDER)) == [hub, plan_of_other.namespace]

folder, plan = make(sys.argv[1])
subprocess.run(["ip", "netns", "delete", plan.namespace], check=True)
subprocess.run(["ip", "netns", "attach", plan.namespace, str(os.getpid())], check=True)
result["machine"] = down(NodeProvider).removeprefix(str(NAMESPACE_FOLDER / plan.namespace))
result["bystander"] = bystander.poll()
subprocess.run(["ip", "netns", "delete", plan.namespace], check=True)

for home in sys.argv[1:]:
    os.environ["TRAINYARD_STATE_HOME"] = home
    down(NodeProvider, delete=True)
result["mounted"] = str(NAMESPACE_FOLDER) in Path("/proc/self/mounts").read_text()
names = [each.cluster for each in (plan, plan_of_other)]
result["groups"] = [str(group) for name in names for group in Path("/sys/fs/cgroup").glob(f"*/trainyard-{name}")]
bystander.kill()
print(json.dumps(result))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or bool(missing()), reason="namespaces and cgroups need root")
def test_down_removes_all_of_its_cluster_and_nothing_else(tmp_path: Path) -> None:
    """Another cluster of the same name, processes of the machine and mounts that were there before are left."""
    homes = [str(tmp_path / name) for name in ("a", "b")]
    command = [*_NAMESPACES, "sh", "-c", _PREPARE, "sh", sys.executable, "-c", _SCRIPT, *homes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "first": "",
        "ended": [-9, -9],
        "left": [None, None],
        "folder": False,
        "namespaces": True,
        "machine": " is the network namespace of this machine, not that of a node",
        "bystander": None,
        "mounted": False,
        "groups": [],
    }
