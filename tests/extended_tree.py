"""Copy of the project with new files, to run commands on: what one file adds is known everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_COPIED = ("trainyard", "components", "policies", "runtimes")
_LINKED = (
    "stacks",
    "toolchain",
    "tests",
    "docs",
    "Pulumi.yaml",
    "pyproject.toml",
    "requirements.lock",
    "controller.lock",
    "console.lock",
)


def extended(root: Path, added: Mapping[str, Path], *, copied: Collection[str] = ()) -> Path:
    """Return a copy of the project with further files.

    Parameters
    ----------
    root
        Empty folder for the copy.
    added
        Files by the path that they get in the copy.
    copied
        Folders to copy even if nothing is added to them; commands may write there.
    """
    for name in _COPIED:
        if name == "trainyard" or name in copied or any(path.startswith(f"{name}/") for path in added):
            # With the bytecode, which is valid for copies too: a command starts in half the time.
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            (root / name).symlink_to(ROOT / name)
    for name in _LINKED:
        (root / name).symlink_to(ROOT / name)
    for path, source in added.items():
        shutil.copy(source, root / path)
    return root


def run(tree: Path, *arguments: str, rc: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, and return what it printed; the exit code must be the expected one."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "120"}
    answer = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert answer.returncode == rc, answer.stdout + answer.stderr
    return answer
