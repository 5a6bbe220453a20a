"""Runs the test of provider kind with the real command and podman or docker in namespaces of its own.

Says why where it cannot. In its network namespace only the loopback interface exists at first, so no packet of a node
leaves it. The engine has its own settings, images and containers in a folder that is removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.real.isolated import RUN, run_within
from trainyard.errors import TrainyardError
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.cluster.kind import PLATFORM_IMAGES
from trainyard.local.cluster.kind_requirements import find_kind
from trainyard.local.cluster.node.control_groups import hierarchies, remove

_SECONDS = 1500.0
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child")
_GROUPS = {"podman": "/libpod_parent", "docker": "/docker"}
"""Of the containers by engine; empty groups outlive the namespaces."""
_PROGRAMS = {
    "podman": ("podman", "runc", "netavark", "unshare", "ip"),
    "docker": ("docker", "dockerd", "containerd", "runc", "iptables", "unshare", "ip"),
}
_PACKAGES = {
    "podman": "podman runc netavark aardvark-dns iproute2",
    "docker": "docker.io iptables iproute2",
}
"""Debian packages by engine."""
_PREPARE = """\
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 1
writable() {
  mkdir -p "/run/layers$1/upper" "/run/layers$1/work"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=/run/layers$1/upper,workdir=/run/layers$1/work" "$1"
}
writable /var/lib || exit 1  # podman writes to /var/lib/containers/cache, whatever its settings.
if [ ! -d /lib/modules ]; then writable /usr/lib && mkdir /lib/modules; fi  # kind mounts it into nodes.
if [ "$KIND_EXPERIMENTAL_PROVIDER" = docker ]; then
  dockerd --data-root "$ENGINE_FOLDER/docker" --exec-root /run/docker \
    --add-runtime "own=$ENGINE_FOLDER/runtime" --default-runtime own >"$ENGINE_FOLDER/dockerd.log" 2>&1 &
  for _ in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.2; done
  docker info >/dev/null 2>&1 || { tail -5 "$ENGINE_FOLDER/dockerd.log"; exit 1; }
fi
"$@"
"""

_RUNTIME = """\
#!/usr/bin/env python3
import json, os, sys
files = {"create": ("--bundle", "config.json"), "exec": ("--process", "")}
for command, (flag, name) in files.items():
    if command not in sys.argv or flag not in sys.argv:
        continue
    path = os.path.join(sys.argv[sys.argv.index(flag) + 1], name).rstrip("/")
    with open(path) as file:
        document = json.load(file)
    for names in document.get("process", document).get("capabilities", {}).values():
        if "CAP_SYS_RESOURCE" in names:
            names.remove("CAP_SYS_RESOURCE")
    with open(path, "w") as file:
        json.dump(document, file)
os.execvp("runc", ["runc", *sys.argv[1:]])
"""
"""Runtime for docker, whose privileged containers get all capabilities, also one that root lacks in some containers."""


def obstacles(engine: str) -> list[str]:
    """Return why the test cannot run here; builds nothing, because a namespace has no network for downloads."""
    found = []
    if sys.platform != "linux" or os.geteuid():
        found.append("Linux and root are required (fix: run the command as root on Linux)")
    for program in _PROGRAMS[engine]:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/lib/podman:/usr/sbin") is None:
            found.append(f"{program} is not installed (fix, on Debian 12: apt-get install {_PACKAGES[engine]})")
    if find_kind() is None:
        found.append("kind is not built (fix: trainyard cluster toolchain --with kind)")
    try:
        image_builder(build=False).require_current(["kind-node", *PLATFORM_IMAGES])
    except TrainyardError as error:
        found.append(f"{error.message} (fix: trainyard images build, and trainyard images build kind-node)")
    return found


def settings(folder: Path, engine: str) -> dict[str, str]:
    """Write the engine's settings to a folder, and return the variables that name them."""
    variables = {"KIND_EXPERIMENTAL_PROVIDER": engine, "ENGINE_FOLDER": str(folder), RUN: "kind"}
    if engine == "docker":
        (folder / "runtime").write_text(_RUNTIME)
        (folder / "runtime").chmod(0o755)
        return variables
    (folder / "containers.conf").write_text(
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        '[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "/run/containers-networks"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "/run/containers/storage"\n'
    )
    return {
        **variables,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def main() -> int:
    """Run pytest; 0 also where the test is skipped."""
    parser = argparse.ArgumentParser(description="Run the test of provider kind.")
    parser.add_argument("--engine", choices=list(_PROGRAMS), default="podman", help="engine of the containers")
    arguments, others = parser.parse_known_args()
    engine: str = arguments.engine
    if found := obstacles(engine):
        sys.stdout.write("Skipped: the test of provider kind (docs/real.md) cannot run here:\n")
        sys.stdout.writelines(f"  {each}\n" for each in found)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known = hierarchies()
    group = _GROUPS[engine]
    present = any((hierarchy.root / group.strip("/")).exists() for hierarchy in known)
    pytest = [sys.executable, "-m", "pytest", "-n0", "-m", "real", "tests/real/test_kind.py", *others]
    folder = Path(tempfile.mkdtemp(prefix="trainyard-kind-"))
    command = [*_NAMESPACES, "sh", "-c", _PREPARE, "sh", *pytest]
    try:
        return run_within(_SECONDS, command, settings(folder, engine))
    finally:
        if not present:
            remove(group, known)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
