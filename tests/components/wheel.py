"""A fresh environment with the wheel: the locked requirements of extra ``pulumi``, and no file of the clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainyard.local.cluster.go import find_go
from trainyard.upstream import module_cache

ROOT = Path(__file__).resolve().parents[2]
_ENTRY = re.compile(r"^(?=[A-Za-z0-9])", re.MULTILINE)


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def packages(self) -> Path:
        """Folder of its packages."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    @property
    def modules(self) -> Path:
        """Folder of its Go modules, which is empty at first."""
        return self.folder / "modules"

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment variables of an activated environment."""
        inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"], str(Path(find_go().path).parent)])
        own = {"VIRTUAL_ENV": str(self.folder), "PATH": path, "GOMODCACHE": str(self.modules), "GOFLAGS": "-modcacherw"}
        # The proxy has what this machine has downloaded; the lock file has the checksums.
        proxy = {"GOPROXY": f"file://{module_cache()}/cache/download", "GOSUMDB": "off"}
        return {**inherited, **own, **proxy, **more}

    def run(self, *command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [*map(str, command)],
            cwd=folder,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def create(folder: Path) -> Environment:
    """Create an environment as a user does: hash-locked requirements, the wheel, and the upstream manifests."""
    environment = Environment(folder / "environment")
    locked = folder / "requirements.txt"
    locked.write_text("".join(_locked("trainyard-platform", "pulumi")))
    _require([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)])
    (wheel,) = folder.glob("*.whl")
    _require([sys.executable, "-m", "venv", str(environment.folder)])
    install = [str(environment.folder / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet"]
    _require([*install, "--no-compile", "--require-hashes", "-r", str(locked)])
    _require([*install, "--no-deps", f"{wheel}[pulumi]"])
    manifests = environment.run("trainyard", "cluster", "toolchain", "--manifests", folder=folder)
    assert manifests.returncode == 0, manifests.stderr
    return environment


def _require(command: list[str]) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


def _locked(package: str, extra: str) -> Iterator[str]:
    """Yield the entries of requirements.lock that a package needs with an extra."""
    needed, pending, seen = set[str](), [(package, frozenset({extra}))], set[tuple[str, frozenset[str]]]()
    while pending:
        name, extras = current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for text in distribution(name).requires or ():
            each = Requirement(text)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                needed.add(canonicalize_name(each.name))
                pending.append((canonicalize_name(each.name), frozenset(each.extras)))
    for entry in _ENTRY.split((ROOT / "requirements.lock").read_text()):
        if (found := re.match(r"[A-Za-z0-9._-]+", entry)) and canonicalize_name(found[0]) in needed:
            yield entry
