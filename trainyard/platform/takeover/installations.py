"""Installations by others, as read from a namespace: programs, their versions and configuration, and webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS, DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Object

_VERSION = re.compile(r":v?(\d+\.\d+\.\d+[\w.-]*)(@|$)")


@dataclass(frozen=True)
class InstalledProgram:
    """A container of a Deployment.

    Parameters
    ----------
    deployment
        Name of the Deployment.
    image
        Image reference.
    arguments
        Command and arguments.
    files
        Name of the mounted ConfigMap by folder.
    """

    deployment: str
    image: str
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the image without its repository."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]

    @property
    def version(self) -> str | None:
        """Version in the image's tag; None if the tag is none."""
        found = _VERSION.search(self.image)
        return found[1] if found else None

    def argument(self, name: str) -> str | None:
        """Return the value of ``--name=value`` or ``--name value``; the last one counts."""
        value = None
        for each, following in pairwise((*self.arguments, "")):
            if re.fullmatch(rf"--?{re.escape(name)}", each):
                value = following
            elif found := re.fullmatch(rf"--?{re.escape(name)}=(.*)", each, re.DOTALL):
                value = found[1]
        return value


@dataclass(frozen=True)
class LiveInstallation:
    """The programs in a namespace.

    Parameters
    ----------
    namespace
        The namespace.
    programs
        Containers of its Deployments.
    files
        Data of the ConfigMaps that they mount, by name.
    webhooks
        Webhook configurations of the cluster.
    """

    namespace: str
    programs: tuple[InstalledProgram, ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    webhooks: tuple[Mapping[str, Any], ...] = ()

    def program(self, name: str) -> InstalledProgram | None:
        """Return the first program with this image name."""
        return next(iter(self.each_program(name)), None)

    def each_program(self, name: str) -> list[InstalledProgram]:
        """Return the programs with this image name."""
        return [each for each in self.programs if each.name == name]

    def file(self, program: InstalledProgram, path: str) -> str | None:
        """Return the text of a program's file; None if it is not in a ConfigMap."""
        folder, _, name = path.rpartition("/")
        mounted = program.files.get(folder)
        return self.files.get(mounted, {}).get(name) if mounted else None


async def read_installation(client: Client, namespace: str) -> LiveInstallation:
    """Read the programs of a namespace, the ConfigMaps that they mount, and the webhook configurations."""
    programs = tuple(
        program
        for deployment in await client.list(DEPLOYMENTS, namespace=namespace)
        for program in _programs(deployment)
    )
    files = {}
    for name in sorted({name for program in programs for name in program.files.values()}):
        if (found := await client.find(CONFIG_MAPS, name, namespace=namespace)) is not None:
            files[name] = found.get("data") or {}
    webhooks = (*await client.list(VALIDATING_WEBHOOKS), *await client.list(MUTATING_WEBHOOKS))
    return LiveInstallation(namespace, programs, files, webhooks)


def _programs(deployment: Object) -> Iterable[InstalledProgram]:
    spec = deployment["spec"]["template"]["spec"]
    volumes = {each["name"]: (each.get("configMap") or {}).get("name") for each in spec.get("volumes") or ()}
    for container in spec["containers"]:
        mounts: dict[str, str] = {
            each["mountPath"].rstrip("/"): name
            for each in container.get("volumeMounts") or ()
            if (name := volumes.get(each["name"]))
        }
        arguments = (*(container.get("command") or ()), *(container.get("args") or ()))
        yield InstalledProgram(deployment["metadata"]["name"], container.get("image") or "", arguments, mounts)
