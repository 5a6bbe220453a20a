"""Runs the test of provider kind with the real command and podman in namespaces of its own; says why where it cannot.

In its network namespace only the loopback interface exists at first, so no packet of a node leaves it. podman has its
own settings, images and containers in a folder that is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.real.isolated import RUN, run_within
from trainyard.cluster.image_sources import image_builder
from trainyard.cluster.kind import PLATFORM_IMAGES
from trainyard.cluster.kind_requirements import find_kind
from trainyard.cluster.node.control_groups import hierarchies, remove
from trainyard.errors import TrainyardError

_SECONDS = 1500.0
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child")
_GROUPS = "/libpod_parent"
"""Of podman's containers; its empty groups outlive the namespaces."""
_PREPARE = """\
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 1
writable() {
  mkdir -p "/run/layers$1/upper" "/run/layers$1/work"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=/run/layers$1/upper,workdir=/run/layers$1/work" "$1"
}
writable /var/lib || exit 1  # podman writes to /var/lib/containers/cache, whatever its settings.
if [ ! -d /lib/modules ]; then writable /usr/lib && mkdir /lib/modules; fi  # kind mounts it into nodes.
"$@"
"""


def obstacles() -> list[str]:
    """Return why the test cannot run here; builds nothing, because a namespace has no network for downloads."""
    found = []
    if sys.platform != "linux" or os.geteuid():
        found.append("Linux and root are required (fix: run the command as root on Linux)")
    for program in ("podman", "runc", "netavark", "unshare", "ip"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/lib/podman:/usr/sbin") is None:
            packages = "podman runc netavark aardvark-dns iproute2"
            found.append(f"{program} is not installed (fix, on Debian 12: apt-get install {packages})")
    if find_kind() is None:
        found.append("kind is not built (fix: trainyard cluster toolchain --with kind)")
    try:
        image_builder(build=False).require_current(["kind-node", *PLATFORM_IMAGES])
    except TrainyardError as error:
        found.append(f"{error.message} (fix: trainyard images build, and trainyard images build kind-node)")
    return found


def settings(folder: Path) -> dict[str, str]:
    """Write podman's settings to a folder, and return the variables that name them."""
    (folder / "containers.conf").write_text(
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        '[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "/run/containers-networks"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "/run/containers/storage"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "KIND_EXPERIMENTAL_PROVIDER": "podman",
        RUN: "kind",
    }


def main() -> int:
    """Run pytest; 0 also where the test is skipped."""
    if found := obstacles():
        sys.stdout.write("Skipped: the test of provider kind (docs/real.md) cannot run here:\n")
        sys.stdout.writelines(f"  {each}\n" for each in found)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known = hierarchies()
    present = any((hierarchy.root / _GROUPS.strip("/")).exists() for hierarchy in known)
    pytest = [sys.executable, "-m", "pytest", "-n0", "-m", "real", "tests/real/test_kind.py", *sys.argv[1:]]
    folder = Path(tempfile.mkdtemp(prefix="trainyard-kind-"))
    command = [*_NAMESPACES, "sh", "-c", _PREPARE, "sh", *pytest]
    try:
        return run_within(_SECONDS, command, settings(folder))
    finally:
        if not present:
            remove(_GROUPS, known)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
