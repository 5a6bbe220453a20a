"""Requirements of real nodes: each is named with its fix, and kernel features are tried, not only looked up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainyard.local.cluster.node import requirements
from trainyard.local.cluster.node.kernel_probes import failing_probes
from trainyard.local.cluster.node.requirements import missing

Result = subprocess.CompletedProcess[str]


def no_program(_name: str) -> str | None:
    return None


def any_program(name: str) -> str | None:
    return f"/usr/bin/{name}"


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(requirements, "_kernel", list)


def test_programs_are_named_with_their_package() -> None:
    found = {finding.path: finding for finding in missing(no_program, root=False, linux=True)}
    assert found.keys() >= {"user", "containerd", "ctr", "runc", "ip", "nft", "C compiler"}
    assert "apt-get install gcc libc6-dev" in found["C compiler"].fix
    paths = {finding.path for finding in missing(any_program, root=True, linux=True)}
    assert not paths & {"user", "containerd", "C compiler"}
    assert "C compiler" not in {each.path for each in missing(lambda name: "/usr/bin/gcc" if name == "gcc" else None)}


def test_a_small_machine_is_named_with_its_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements.psutil, "virtual_memory", lambda: SimpleNamespace(total=2 << 30))
    monkeypatch.setattr(requirements.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    found = {each.path: each.message for each in missing(any_program, root=True, linux=True)}
    assert "the machine has 2048 MiB" in found["memory"]
    assert "1024 MiB are free" in found[str(tmp_path / "state")]


def answers(broken: str) -> Callable[[list[str]], Result]:
    """Return a runner in which scripts with a word fail."""

    def run(command: list[str]) -> Result:
        assert command[:3] == ["unshare", "--mount", "--net"]
        failed = broken in command[-1]
        return Result(command, int(failed), "", "Operation not\n  supported" if failed else "")

    return run


@pytest.mark.parametrize(
    ("broken", "feature"),
    [("type bridge", "bridge"), ("type veth", "veth"), ("nft", "nftables"), ("-t overlay", "overlay")],
)
def test_a_feature_that_the_kernel_refuses_is_named(broken: str, feature: str, tmp_path: Path) -> None:
    (finding,) = failing_probes(tmp_path / "state", any_program, answers(broken))
    assert (finding.path, finding.message) == (feature, "Operation not supported")
    assert "modprobe" in finding.fix
    assert list((tmp_path / "state").iterdir()) == []


def test_a_feature_whose_program_is_missing_is_not_tried(tmp_path: Path) -> None:
    assert list(failing_probes(tmp_path, no_program, answers(""))) == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="namespaces need root, interfaces iproute2")
def test_the_probes_leave_nothing_on_the_machine(tmp_path: Path) -> None:
    def interfaces() -> str:
        return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout

    before = interfaces()
    assert {finding.path for finding in failing_probes(tmp_path)} <= {"bridge", "veth", "nftables", "overlay"}
    assert interfaces() == before
    assert list(tmp_path.iterdir()) == []
