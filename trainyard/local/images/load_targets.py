"""Load images into containerd, podman, docker or the nodes of a kind cluster, without a registry."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trainyard.errors import TrainyardError
from trainyard.local.images.container_engine import kind_command

if TYPE_CHECKING:
    from trainyard.local.images.built_image import BuiltImage


_TIMEOUT: Final = 600


class LoadTarget(StrEnum):
    """Where images are loaded."""

    CONTAINERD = "containerd"
    PODMAN = "podman"
    DOCKER = "docker"
    KIND = "kind"


@dataclass(frozen=True)
class _Program:
    name: str
    probe: tuple[str, ...]
    package: str


_PROGRAMS: Final = {
    LoadTarget.CONTAINERD: _Program("ctr", ("version",), "containerd"),
    LoadTarget.PODMAN: _Program("podman", ("version",), "podman"),
    LoadTarget.DOCKER: _Program("docker", ("version",), "docker.io"),
    LoadTarget.KIND: _Program("kind", ("version",), "kind, from its Go module sigs.k8s.io/kind"),
}
Run = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)  # noqa: S603


def detect(run: Run = _run) -> LoadTarget:
    """Return the first of containerd, podman and docker whose program responds; kind must be chosen.

    Raises
    ------
    TrainyardError
        None of them responds.
    """
    states = []
    for target in (LoadTarget.CONTAINERD, LoadTarget.PODMAN, LoadTarget.DOCKER):
        state = _state(target, run)
        if state is None:
            return target
        states.append(state)
    raise TrainyardError(
        f"Images cannot be loaded: {'; '.join(states)}",
        fix="install or start one of them (Debian: apt-get install podman), or push the images: trainyard images push",
    )


def load(
    images: Iterable[BuiltImage],
    target: LoadTarget,
    *,
    cluster: str = "kind",
    address: str | None = None,
    run: Run = _run,
) -> list[str]:
    """Load images and return their references.

    Parameters
    ----------
    images
        Built images.
    target
        Where to.
    cluster
        Name of the kind cluster.
    address
        Socket of containerd; None: its default.

    Raises
    ------
    TrainyardError
        The program is missing or does not respond, or it rejects an image.
    """
    program = _PROGRAMS[target]
    options = ["--address", address] if address else []
    if (state := _state(target, run, options)) is not None:
        raise TrainyardError(f"Images cannot be loaded: {state}", fix=f"install or start {program.package}")
    loaded = []
    for image in images:
        for command in _commands(image, target, options, cluster):
            done = run(command)
            if done.returncode:
                reason = " ".join((done.stderr or done.stdout).split())[-300:]
                raise TrainyardError(
                    f"{program.name} does not load {image.reference}: {reason}",
                    fix=f"run `{' '.join(command)}` to see its output",
                )
        loaded.append(image.reference)
    return loaded


def _state(target: LoadTarget, run: Run, options: Iterable[str] = ()) -> str | None:
    """Return why a program cannot be used; None if it responds."""
    program = _PROGRAMS[target]
    if shutil.which(program.name) is None:
        return f"{program.name} is not on PATH"
    try:
        done = run([program.name, *options, *program.probe])
    except subprocess.TimeoutExpired:
        return f"{program.name} does not respond"
    return f"{program.name} does not respond: {' '.join(done.stderr.split())[-200:]}" if done.returncode else None


def _commands(image: BuiltImage, target: LoadTarget, options: Iterable[str], cluster: str) -> list[list[str]]:
    archive = str(image.archive)
    if target is LoadTarget.KIND:
        return [kind_command("load", "image-archive", archive, "--name", cluster)]
    if target is not LoadTarget.CONTAINERD:
        return [[_PROGRAMS[target].name, "load", "--input", archive]]
    ctr = ["ctr", *options, "--namespace", "k8s.io", "images"]
    # The kubelet finds an image that a pod names by digest only under the name with the digest.
    by_digest = f"{image.reference.rpartition(':')[0]}@{image.digest}"
    return [[*ctr, "import", "--all-platforms", archive], [*ctr, "tag", "--force", image.reference, by_digest]]
