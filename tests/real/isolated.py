"""Runs the tests on real nodes in mount, process and network namespaces of their own; says why where it cannot.

In that network namespace only the loopback interface exists, so no packet can leave it, and all processes and mounts
end with the process namespace.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.support import ROOT
from trainyard.cluster.image_sources import image_builder
from trainyard.cluster.node.requirements import missing
from trainyard.cluster.toolchain import own_program
from trainyard.errors import TrainyardError

_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
_FILES = ("test_platform", "test_job_lifecycle", "test_network_policies", "test_disturbances", "test_removal")
"""In this order, on one cluster; the first one also runs after the other tests."""


def obstacles() -> list[str]:
    """Return why the tests cannot run here; without the network they can build nothing."""
    found = [str(finding) for finding in missing()]
    for program in ("kubelet", "kube-proxy"):
        try:
            own_program(program, build=False)
        except TrainyardError as error:
            found.append(f"{error.message} (fix: trainyard cluster toolchain --with {program})")
    try:
        builder = image_builder(build=False)
        builder.archives(builder.recipes)
    except TrainyardError as error:
        found.append(f"{error.message} (fix: trainyard images build)")
    return found


def main() -> int:
    """Run pytest; 0 also where the tests are skipped."""
    parser = argparse.ArgumentParser(description="Run the tests on real nodes.")
    parser.add_argument("--slice", action="store_true", help="the part of at most five minutes")
    arguments, others = parser.parse_known_args()
    if found := obstacles():
        sys.stdout.write("Skipped: the tests on real nodes (docs/real.md) cannot run here:\n")
        sys.stdout.writelines(f"  {each}\n" for each in found)
        return 0
    files = [f"tests/real/{name}.py" for name in (_FILES[:1] if arguments.slice else _FILES)]
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-m",
        "real",
        "--durations=20",
        "--durations-min=1",
        *files,
        *others,
    ]
    # The shell stays as the first process, because it reaps orphans, which pytest would not.
    script = 'mount -t tmpfs tmpfs /run && ip link set lo up && "$@"'
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execvp(_NAMESPACES[0], [*_NAMESPACES, "sh", "-c", script, "sh", *pytest])
    return 1


if __name__ == "__main__":
    sys.exit(main())
