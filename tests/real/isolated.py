"""Runs the tests on real nodes in mount, process and network namespaces of their own; says why where it cannot.

In that network namespace only the loopback interface exists, so no packet can leave it, and all processes and mounts
end with the process namespace.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.real.prometheus import fetched
from tests.support import ROOT
from trainyard.errors import TrainyardError
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.cluster.node.control_groups import hierarchies, remove
from trainyard.local.cluster.node.requirements import missing
from trainyard.local.cluster.toolchain import own_program

RUN = "TRAINYARD_REAL_RUN"
"""Variable with the name of the run, inside the namespaces only."""
_LOCK = Path("/tmp/trainyard-test-real.lock")
_SLICE_SECONDS, _SECONDS = 300.0, 1800.0
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
_FILES = (
    *("test_platform", "test_job_lifecycle", "test_competition", "test_network_policies", "test_metrics"),
    *("test_certificates", "test_upgrade", "test_disturbances", "test_removal"),
)
"""In this order, on one cluster; the first one also runs after the other tests."""


def obstacles(*, build_images: bool = True) -> list[str]:
    """Return why the tests cannot run here.

    Parameters
    ----------
    build_images
        Whether the images that have changed are built, which the tests cannot without a network; if not, these images
        are an obstacle.
    """
    found = [str(finding) for finding in missing()]
    for program in ("kubelet", "kube-proxy"):
        try:
            own_program(program, build=False)
        except TrainyardError as error:
            found.append(f"{error.message} (fix: trainyard cluster toolchain --with {program})")
    if found:
        return found
    try:
        builder = image_builder(build=False)
        if build_images:
            builder.build()
        else:
            builder.require_current()
    except TrainyardError as error:
        found.append(f"{error.message} (fix: trainyard images build)")
    return found


def main() -> int:
    """Run pytest; 0 also where the tests are skipped."""
    parser = argparse.ArgumentParser(description="Run the tests on real nodes.")
    parser.add_argument("--slice", action="store_true", help="the part of at most five minutes")
    arguments, others = parser.parse_known_args()
    if found := obstacles(build_images=not arguments.slice):
        sys.stdout.write("Skipped: the tests on real nodes (docs/real.md) cannot run here:\n")
        sys.stdout.writelines(f"  {each}\n" for each in found)
        return 0
    try:
        fetched()
    except TrainyardError as error:
        sys.stdout.write(f"Without Prometheus, which cannot be downloaded: {error.message}\n")
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
    return _run([*_NAMESPACES, "sh", "-c", script, "sh", *pytest], _SLICE_SECONDS if arguments.slice else _SECONDS)


def _run(command: list[str], seconds: float) -> int:
    """Run a command as the only one of its kind on this machine, and remove its cgroups, which outlive namespaces.

    The command inherits the lock, so another run waits for it even if this process was killed.
    """
    name = f"real-{os.getpid()}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stdout.write("Waiting for another run of the tests on real nodes\n")
            sys.stdout.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
        sys.stdout.flush()
        try:
            return run_within(seconds, command, {RUN: name}, (lock.fileno(),))
        finally:
            _remove_groups(name)


def run_within(
    seconds: float, command: list[str], variables: Mapping[str, str], inherited: Collection[int] = ()
) -> int:
    """Run a command in the checkout and return its exit code; kill it, and return 124, when its time is over.

    Parameters
    ----------
    variables
        Further variables of its environment.
    inherited
        Open files that it keeps.
    """
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=inherited) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            sys.stdout.write(f"The tests did not end within {seconds / 60:.0f} minutes\n")
            return 124
        finally:
            process.kill()
            process.wait()


def _remove_groups(name: str) -> None:
    known = hierarchies()
    for path in {f"/{each.name}" for hierarchy in known for each in hierarchy.root.glob(f"trainyard-{name}-*")}:
        remove(path, known)


if __name__ == "__main__":
    sys.exit(main())
