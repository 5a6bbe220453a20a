"""The Go compiler: find it and run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.settings.versions import Program, ProgramGroup

BUILD_FLAGS = "-mod=readonly -trimpath -buildvcs=false"
PROFILE = "profile.pgo"
"""File name of a group's CPU profile for profile-guided optimization."""
_OLDEST = (1, 26)
_COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "3GiB"}
"""The compiler runs for seconds; rare garbage collection saves a tenth of a build's CPU time."""


@dataclass(frozen=True)
class Go:
    """A Go compiler.

    Parameters
    ----------
    path
        The ``go`` program.
    version
        Such as ``go1.26.6``.
    """

    path: str
    version: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment without the user's module flags and without toolchain downloads."""
        return {**_COLLECTION, **os.environ, "GOFLAGS": BUILD_FLAGS, "GOTOOLCHAIN": "local", "GOWORK": "off"}

    def run(self, folder: Path, *arguments: str) -> str:
        """Run a ``go`` command in a folder and return its output.

        Raises
        ------
        TrainyardError
            It failed; the message contains the end of its output.
        """
        command = [self.path, *arguments]
        done = subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise TrainyardError(
                f"`go {' '.join(arguments)}` failed in {folder}: {' '.join(done.stderr.split())[-500:]}",
                fix="check the network and GOPROXY, then run the command again (finished work is kept)",
            )
        return done.stdout


def find_go() -> Go:
    """Return PyPI's Go compiler in this virtual environment, which is there if PATH had none, else that on PATH.

    In this order, since processes of a run have programs of the environment first on PATH: all find the same compiler,
    whose version names the folders of what it built.

    Raises
    ------
    TrainyardError
        Go is missing or too old.
    """
    beside = Path(sys.prefix) / "bin" / "go"
    too_old = ""
    in_environment = sys.prefix != sys.base_prefix and beside.is_file()
    for candidate in (str(beside) if in_environment else None, shutil.which("go")):
        if candidate is None:
            continue
        done = subprocess.run(  # noqa: S603
            [candidate, "version"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
        found = re.search(r"go(\d+)\.(\d+)\S*", done.stdout)
        if found and (int(found[1]), int(found[2])) >= _OLDEST:
            return Go(candidate, found[0])
        too_old = f"; {candidate} is {found[0] if found else 'not a Go compiler'}"
    oldest = ".".join(map(str, _OLDEST))
    raise TrainyardError(
        f"Building the programs of the control plane requires Go {oldest} or newer, which was not found{too_old}",
        fix="install Go from your package manager, or run "
        f"`{sys.executable} -m pip install --require-hashes -r toolchain/go.lock`",
    )


def link_flags(group: ProgramGroup) -> str:
    """Return the linker flags of a group: without debug information, with version stamps."""
    return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in group.stamps.items())])


def output_name(package: str, folder: str) -> str:
    """Return the file name that ``go build`` gives the program of a package."""
    if package == ".":
        return folder
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v[2-9]\d*", parts[-1]) else parts[-1]


def build_command(
    go: Go, group: ProgramGroup, programs: Mapping[str, Program], source: Path, output: Path
) -> list[str]:
    """Return the command line that builds programs of a group into an output folder."""
    profile = source / PROFILE
    optimized = ["-pgo", str(profile)] if profile.is_file() else []
    packages = [program.package for program in programs.values()]
    return [go.path, "build", "-v", "-o", f"{output}{os.sep}", *optimized, "-ldflags", link_flags(group), *packages]
