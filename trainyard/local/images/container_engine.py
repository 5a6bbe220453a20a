"""Container engine that kind uses: docker, podman or nerdctl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.errors import TrainyardError

ENGINES: Final = ("docker", "podman", "nerdctl")
ENGINE_VARIABLE: Final = "KIND_EXPERIMENTAL_PROVIDER"
"""Variable of kind that names the engine; unset: docker first."""
_TIMEOUT: Final = 60
_PODMAN: Final = "podman"

Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class ContainerEngine:
    """What an engine reports of itself and its machine.

    Parameters
    ----------
    program
        docker, podman or nerdctl.
    cgroup_version
        1 or 2; 0 if it is not reported.
    memory
        Bytes of the machine, or of the virtual machine that the engine runs in; 0 if it is not reported.
    runtime
        Program that starts containers, such as runc; empty if it is not reported.
    rootless
        Whether it runs without root.
    """

    program: str
    cgroup_version: int = 0
    memory: int = 0
    runtime: str = ""
    rootless: bool = False


def find_engine(which: Callable[[str], str | None] = shutil.which) -> str | None:
    """Return the engine that the variable of kind names, else the first one on PATH; None if it is not on PATH."""
    wanted = os.environ.get(ENGINE_VARIABLE)
    return next((engine for engine in ([wanted] if wanted else ENGINES) if which(engine)), None)


def kind_command(*arguments: str, program: str = "kind") -> list[str]:
    """Return a command of kind that uses `find_engine`: kind by itself looks for docker only."""
    engine = find_engine()
    chosen = ["env", f"{ENGINE_VARIABLE}={engine}"] if engine and engine != ENGINES[0] else []
    return [*chosen, program, *arguments]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)  # noqa: S603


def describe_engine(program: str, run: Run = _run) -> ContainerEngine:
    """Return what an engine reports.

    Raises
    ------
    TrainyardError
        It does not respond.
    """
    template = "json" if program == _PODMAN else "{{json .}}"
    try:
        done = run([program, "info", "--format", template])
        document = json.loads(done.stdout) if not done.returncode else None
    except subprocess.TimeoutExpired:
        raise TrainyardError(f"{program} does not respond", fix=f"start {program}") from None
    except ValueError:
        document = None
    if not isinstance(document, Mapping) or document.get("ServerErrors"):
        said = done.stderr if done.returncode or document is None else " ".join(document["ServerErrors"])
        raise TrainyardError(
            f"{program} does not respond: {' '.join(said.split())[-300:]}",
            fix=f"start {program}, and check that this user may use it (`{program} info`)",
        )
    return _of_podman(document) if program == _PODMAN else _of_docker(program, document)


def _of_podman(document: Mapping[str, Any]) -> ContainerEngine:
    host = document.get("host") or {}
    runtime, security = host.get("ociRuntime") or {}, host.get("security") or {}
    return ContainerEngine(
        _PODMAN,
        _version(host.get("cgroupVersion")),
        int(host.get("memTotal") or 0),
        str(runtime.get("name") or ""),
        bool(security.get("rootless")),
    )


def _of_docker(program: str, document: Mapping[str, Any]) -> ContainerEngine:
    return ContainerEngine(
        program,
        _version(document.get("CgroupVersion")),
        int(document.get("MemTotal") or 0),
        str(document.get("DefaultRuntime") or ""),
        any("rootless" in str(each) for each in document.get("SecurityOptions") or ()),
    )


def _version(value: object) -> int:
    digits = str(value or "").lstrip("v")
    return int(digits) if digits.isdigit() else 0
