"""The first process of a node in namespaces of its own: what it may change on the machine, and what it survives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard.local.cluster.node import node_init

_NAMESPACES = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")

# The shell is where every machine has it; this Python may be below a folder that the node covers.
_TRY = """
for folder in $1; do touch "$folder/trainyard-written" 2>/dev/null && echo "written $folder"; done
for name in $2; do echo "setting $name $(cat "/proc/sys/$name")"; done
for name in $2; do echo 7 > "/proc/sys/$name"; done
echo "host $(cat /proc/sys/kernel/hostname)"
for path in "$3"/*; do [ -e "$path" ] && echo "seen $path"; done
echo "program $(cat /run/programs/kubelet)"
"""


@pytest.fixture
def folder_below(parent: str) -> Iterator[Path]:
    """A folder below a certain one."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@_ROOT
@pytest.mark.parametrize("parent", ["/var/tmp", "/tmp"])  # A node covers the second one.
def test_a_node_changes_no_file_and_no_setting_of_the_machine(folder_below: Path) -> None:
    clusters, program = folder_below / "clusters", folder_below / "kubelet"
    folder = clusters / "dev" / "nodes" / "a"
    for part in ("lib", "log"):
        (folder / part).mkdir(parents=True)
    program.write_text("program")
    outside = ["/opt", "/etc", "/usr/libexec", "/root", "/", "/sys", "/dev"]
    own = ["/var/lib", "/var/log", "/run", "/tmp", "/dev/shm"]
    names = list(node_init._KERNEL)
    script = f"({_TRY}) > /var/log/result"
    command = ["/bin/sh", "-c", script, "try", " ".join([*outside, *own]), " ".join(names), str(clusters)]
    document = {
        "name": "a",
        "folder": str(folder),
        "hidden": str(clusters),
        "files": {"kubelet": str(program)},
        "cgroups": [],
        "programs": [{"name": "try", "command": command, "log": "/var/log/try.log"}],
    }
    file = folder_below / "init.json"
    file.write_text(json.dumps(document))
    before = {name: Path("/proc/sys", name).read_text() for name in names}
    result = folder / "log" / "result"
    started = [*_NAMESPACES, sys.executable, "-I", node_init.__file__, str(file)]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    assert line == "try ended with status 0\n", (line, (folder / "log" / "try.log").read_text())
    found = result.read_text().splitlines()
    assert found == [
        *(f"written {path}" for path in own if Path(path).is_dir()),
        *(f"setting {name} {value}" for name, value in node_init._KERNEL.items()),
        "host a",
        "program program",
    ]
    assert {name: Path("/proc/sys", name).read_text() for name in names} == before


def test_a_node_survives_a_full_disk_and_a_program_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = {"name": "kubelet", "command": ["true"], "log": str(tmp_path / "absent" / "log")}

    class Full:
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    def free(_: float) -> None:
        Path(program["log"]).parent.mkdir()

    monkeypatch.setattr(node_init, "sys", SimpleNamespace(stderr=Full()))
    monkeypatch.setattr(node_init, "time", SimpleNamespace(sleep=free))
    pid = node_init._start(program)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    subprocess.run(["true"], check=True)  # Reaps children that a process object has left.
    assert os.waitpid(pid, 0) == (pid, 0)


def test_large_logs_of_a_node_are_rotated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_init, "_LOG_LIMIT", 4)
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_text("12345")
    small.write_text("1234")
    node_init._rotate([str(large), str(small), str(tmp_path / "absent")])
    assert (large.read_text(), (tmp_path / "large.1").read_text(), small.read_text()) == ("", "12345", "1234")


def test_mounts_keep_their_flags_when_they_become_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []

    def mount(_source: Any, target: str, _kind: Any = None, flags: int = 0) -> None:
        done.append((target, flags))

    monkeypatch.setattr(node_init, "_mount", mount)
    node_init._make_read_only(
        "1 0 0:1 / / rw,relatime - ext4 /dev/a rw\n"
        "2 1 0:2 / /a\\040b rw,nosuid,nodev shared:1 - tmpfs none rw\n"
        "3 1 0:3 / /var/lib rw - ext4 /dev/a rw\n"
        "4 1 0:3 / /var/library ro,noexec - ext4 /dev/a rw\n"
    )
    remount = 1 | 1 << 5 | 1 << 12
    assert done == [("/", remount | 1 << 21), ("/a b", remount | 2 | 4), ("/var/library", remount | 8)]
