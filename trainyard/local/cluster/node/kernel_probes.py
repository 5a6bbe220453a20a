"""Kernel features that nodes use, each tried in namespaces of its own: what a kernel lists may not be allowed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.checks.finding import Finding

Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]
_TIMEOUT = 20

_OVERLAY = "mount -t overlay overlay -o lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work {0}/merged"
_TABLE = """nft --file - <<'END'
table inet trainyard-probe {
  set addresses { type ipv4_addr; elements = { 10.0.0.1 } }
  chain forward { type filter hook forward priority 0; ip saddr @addresses drop; }
  chain nat { type nat hook prerouting priority 0; ip daddr 10.0.0.2 dnat ip to 10.0.0.3; }
}
END"""


@dataclass(frozen=True)
class _Probe:
    feature: str
    programs: tuple[str, ...]
    script: str
    fix: str


def _probes(folder: Path) -> Iterator[_Probe]:
    yield _Probe("bridge", ("ip",), "ip link add probe type bridge", "run `modprobe bridge`")
    yield _Probe("veth", ("ip",), "ip link add one type veth peer name two", "run `modprobe veth`")
    fix = "run `modprobe nf_tables nft_nat nft_chain_nat`, or start this container with the capability NET_ADMIN"
    yield _Probe("nftables", ("nft",), _TABLE, fix)
    fix = "run `modprobe overlay`, or set TRAINYARD_STATE_HOME to a folder on ext4 or xfs, not on an overlay"
    yield _Probe("overlay", ("mount",), _OVERLAY.format(folder), fix)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)  # noqa: S603


def failing_probes(
    state: Path, which: Callable[[str], str | None] = shutil.which, run: Run = _run
) -> Iterator[Finding]:
    """Yield the features that the kernel, or the container that this process runs in, does not give.

    Parameters
    ----------
    state
        Folder on the file system that will have the files of containers.
    which, run
        Find and run programs; a probe without its program is left out, because that is reported by itself.
    """
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=state, ignore_cleanup_errors=True) as folder:
        for part in ("lower", "upper", "work", "merged"):
            (Path(folder) / part).mkdir()
        for probe in _probes(Path(folder)):
            if not all(map(which, probe.programs)):
                continue
            try:
                done = run(["unshare", "--mount", "--net", "sh", "-c", probe.script])
            except subprocess.TimeoutExpired:
                yield Finding(probe.feature, f"not within {_TIMEOUT} s", probe.fix)
                continue
            if done.returncode:
                yield Finding(probe.feature, " ".join(done.stderr.split())[-200:] or "not available", probe.fix)
