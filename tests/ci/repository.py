"""A platform's repository as the CI files expect it, made of this checkout, and a runner's machine without network."""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path

from tests.support import ROOT, git, new_repository
from trainyard import upstream
from trainyard.local.cluster.folders import cache_home, config_home

EXAMPLE = ROOT / "ci" / "example"
_PARTS = (
    "trainyard", "components", "stacks", "policies", "runtimes", "toolchain", "Pulumi.yaml", "pyproject.toml",
    "requirements.lock", "README.md", "LICENSE", ".gitignore", ".pre-commit-hooks.yaml",
)  # fmt: skip
_GOOD = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: good
  namespace: vision
spec:
  runtimeRef:
    name: torch-distributed-gang
  trainer:
    numNodes: 2
"""


class Repository:
    """A repository with a branch ``main`` on a server, and a checkout of a change to it.

    ``main`` holds a manifest that violates rules, from before the first check.

    Parameters
    ----------
    folder
        Where it is made.
    """

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.checkout.mkdir(parents=True)
        for part in _PARTS:
            source, target = ROOT / part, self.checkout / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copyfile(source, target)
        manifests = self.checkout / "manifests"
        manifests.mkdir()
        shutil.copyfile(EXAMPLE / "fine-tune.yaml", manifests / "known.yaml")
        new_repository(self.checkout)
        git(self.checkout, "clone", "--quiet", "--bare", str(self.checkout), str(folder / "origin.git"))
        git(self.checkout, "remote", "add", "origin", str(folder / "origin.git"))
        git(self.checkout, "fetch", "--quiet", "origin")

    def propose(self, *names: str) -> None:
        """Begin a change of ``main`` that adds manifests: those of the example by name, or ``good``."""
        git(self.checkout, "checkout", "--quiet", "--force", "-B", "change", "origin/main")
        git(self.checkout, "clean", "--quiet", "--force", "-d", "manifests")
        for name in names:
            path = self.checkout / "manifests" / f"{name}.yaml"
            path.write_text(_GOOD if name == "good" else (EXAMPLE / f"{name}.yaml").read_text())
        git(self.checkout, "add", "--all")
        git(self.checkout, "commit", "--quiet", "--allow-empty", "--message", "A change")


def runner(folder: Path) -> dict[str, str]:
    """Return the variables of a runner's machine.

    What the locked requirements name is there already, so that ``pip`` needs no network and gets none; this checkout is
    not installed. The policy server is built already, as the runner's cache keeps it; the runner
    has the key of its record.
    """
    home, programs = folder / "home", folder / "programs"
    home.mkdir(parents=True)
    programs.mkdir()
    packages = next(path for path in site.getsitepackages() if path.startswith(sys.prefix))
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    stand_in(programs / "apt-get")
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TZ", "TMPDIR")}
    system = [each for each in os.environ["PATH"].split(os.pathsep) if not Path(each).is_relative_to(ROOT)]
    return {
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(programs), *system]),
        "PYTHONPATH": packages,
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "TRAINYARD_CACHE_HOME": str(cache_home()),
        "TRAINYARD_CONFIG_HOME": str(config_home()),
        "GOMODCACHE": str(upstream.module_cache()),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }


def stand_in(file: Path, text: str = "") -> None:
    """Write a program that does what a text says, and succeeds."""
    file.write_text(f"#!/bin/sh\n{text}\nexit 0\n")
    file.chmod(0o755)
