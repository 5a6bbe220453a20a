"""Runs the processes of the platform's Deployments, and marks their pods healthy while all of them are."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trainyard.cluster.controlplane import server_url
from trainyard.cluster.files import ClusterFolder, private_folder
from trainyard.cluster.health import answers
from trainyard.cluster.ports import taken
from trainyard.cluster.process import NOT_INSTALLED, ProcessSpec
from trainyard.cluster.sources import sources_digest
from trainyard.cluster.stages import HEALTHY_ANNOTATION
from trainyard.cluster.state import ClusterState
from trainyard.cluster.supervisor import volumes
from trainyard.cluster.supervisor.deployment import HostDeployment, local_paths, parse, serves
from trainyard.cluster.supervisor.identity import ServiceAccountIdentity
from trainyard.cluster.supervisor.keeper import Keeper
from trainyard.cluster.supervisor.recipes import Recipe, RunContext
from trainyard.cluster.toolchain import program_path
from trainyard.kube import Client
from trainyard.kube.kinds import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.problem import TrainyardError

__all__ = ["HostProcess", "mark"]

_SOURCES = {"configMap": CONFIG_MAPS, "secret": SECRETS}
_WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_RETRY = 60.0
"""Seconds until a program that could not be obtained is tried again."""
_REFRESH = 5.0
"""Seconds between two looks at the volumes of a running process."""

_log = logging.getLogger(__name__)


class HostProcess:
    """One platform program on this machine.

    Parameters
    ----------
    program, recipe
        The program and how it runs.
    folder, state
        The cluster.
    """

    def __init__(self, program: str, recipe: Recipe, folder: ClusterFolder, state: ClusterState) -> None:
        self.program = program
        own = {use: port for use, port in state.ports.items() if use.split("/")[0] == program}
        self.keeper = Keeper(folder.processes, program, ready_to_start=partial(taken, own))
        self._programs: dict[str, Path] = {}
        self._failure: tuple[float, TrainyardError] | None = None
        self.settled, self.healthy = True, False
        self._recipe = recipe
        self._cluster, self._state = folder, state
        self._folder = folder.processes / program
        self._identity = ServiceAccountIdentity(
            self._folder, folder.name, server_url(state), (folder.pki / "ca.crt").read_bytes()
        )
        self._sources = sources_digest()
        self._accepted: str | None = None
        self._looked_at = 0.0
        self._context: RunContext | None = None
        self._building: asyncio.Task[Path] | None = None

    async def reconcile(self, client: Client, body: Mapping[str, Any] | None) -> None:
        """Make the process follow the Deployment, and look whether it is healthy.

        Parameters
        ----------
        body
            The Deployment, None if there is none.
        """
        self.healthy = False
        if body is None:
            self._accepted, self.settled = None, True
            self.keeper.unwant(NOT_INSTALLED)
            return
        try:
            deployment = parse(body, self.program)
            if deployment.replicas == 0:
                self._accepted, self.settled = None, True
                self.keeper.unwant("scaled to 0 replicas")
                return
            due = time.monotonic() - self._looked_at > _REFRESH
            if self._accepted != deployment.template or due or not self.settled:
                self._looked_at = time.monotonic()
                why = await self._prepare(client, deployment)
                if why and self._accepted is None:
                    self.keeper.postpone(why)
        except TrainyardError as error:
            self._accepted = None
            self.keeper.unwant(str(error))
        self.settled = self.healthy = await self._healthy()

    async def _prepare(self, client: Client, deployment: HostDeployment) -> str | None:
        missing = await self._missing(client, deployment)
        if missing and self._accepted != deployment.template:
            self._accepted = None
            return f"waits for {missing}"
        now = datetime.datetime.now(datetime.UTC)
        if not await self._identity.ensure(client, deployment.namespace, deployment.service_account, now):
            self._accepted = None
            return f"waits for ServiceAccount {deployment.namespace}/{deployment.service_account}"
        mounts = {
            path: self._folder / "volumes" / volume / inner for path, (volume, inner) in deployment.mounts.items()
        }
        program = await self._program(deployment.version)
        if program is None:
            return f"{self.program} {deployment.version} is being built"
        private_folder(self._cluster.sockets)
        context = RunContext(
            program,
            deployment.namespace,
            self._identity.kubeconfig,
            self._folder,
            self._state.ports,
            mounts,
            self._cluster.sockets,
            self._state.nodes,
        )
        if not await self._volumes(client, deployment, context):
            return "waits for the content of its volumes"
        self._context = context
        arguments = [local_paths(argument, mounts) for argument in deployment.arguments]
        variables = {name: local_paths(value, mounts) for name, value in deployment.environment.items()}
        spec = ProcessSpec(
            name=self.program,
            version=deployment.version,
            command=tuple(self._recipe.command(context, arguments)),
            log=self._cluster.log(self.program),
            address=f"127.0.0.1:{self._state.ports[self._recipe.listens]}"
            if self._recipe.listens
            else f"127.0.0.1:{self._recipe.health(context).port}",
            environment={**self._recipe.variables(context), **variables},
            inputs=deployment.template if self._recipe.upstream else f"{deployment.template}{self._sources}",
        )
        self._accepted = deployment.template
        self.keeper.want(spec)
        return None

    async def _missing(self, client: Client, deployment: HostDeployment) -> str | None:
        if self._accepted == deployment.template:
            return None
        for name in self._recipe.crds:
            crd = await client.find(CUSTOM_RESOURCE_DEFINITIONS, name)
            conditions = (crd or {}).get("status", {}).get("conditions") or ()
            if not any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions):
                return f"CustomResourceDefinition {name}"
        for name in self._recipe.webhook_configurations(list(deployment.arguments)):
            found = [await client.find(resource, name) for resource in _WEBHOOKS]
            if not any(found):
                return f"webhook configuration {name}"
        for volume in deployment.volumes:
            if volume.kind in _SOURCES and not volume.optional:
                found_source = await client.find(_SOURCES[volume.kind], volume.source, namespace=deployment.namespace)
                if volumes.content(volume, found_source) is None:
                    kind = _SOURCES[volume.kind].kind
                    return f"{kind} {deployment.namespace}/{volume.source} (mounted as volume {volume.name})"
        return None

    async def _program(self, version: str) -> Path | None:
        if not self._recipe.upstream:
            return Path()
        known = self._state.programs.get(self.program)
        if known is not None and known.version == version:
            return Path(known.path)
        if version in self._programs:
            return self._programs[version]
        if self._failure is not None and time.monotonic() < self._failure[0]:
            raise self._failure[1]
        if self._building is None:
            _log.info("obtaining %s %s", self.program, version)
            self._building = asyncio.create_task(asyncio.to_thread(program_path, self.program, version))
        done, _ = await asyncio.wait({self._building}, timeout=0.2)
        if not done:
            return None
        task, self._building = self._building, None
        try:
            self._programs[version] = task.result()
        except TrainyardError as error:
            self._failure = (time.monotonic() + _RETRY, error)
            raise
        return self._programs[version]

    async def _volumes(self, client: Client, deployment: HostDeployment, context: RunContext) -> bool:
        for volume in deployment.volumes:
            target = self._folder / "volumes" / volume.name
            if volume.kind == "emptyDir":
                private_folder(target)
                continue
            body = await client.find(_SOURCES[volume.kind], volume.source, namespace=deployment.namespace)
            files = volumes.content(volume, body)
            if files is None:
                if self._accepted is None:
                    return False
                continue
            if volume.kind == "configMap":
                files = {path: self._configured(context, path, data) for path, data in files.items()}
            if volumes.sync(target, files):
                _log.info("%s: volume %s changed", self.program, volume.name)
        return True

    def _configured(self, context: RunContext, path: str, data: bytes) -> bytes:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        return self._recipe.configuration(context, path, text).encode()

    async def _healthy(self) -> bool:
        if self._context is None or not self.keeper.running:
            return False
        probe = self._recipe.health(self._context)
        port = self._state.ports[self._recipe.listens] if self._recipe.listens else None
        return await asyncio.to_thread(answers, probe, port) is None

    async def close(self) -> None:
        """Give up what is being waited for."""
        if self._building is not None:
            self._building.cancel()
            with contextlib.suppress(asyncio.CancelledError, TrainyardError):
                await self._building


async def mark(client: Client, body: Mapping[str, Any], pods: list[dict[str, Any]], *, healthy: bool) -> None:
    """Say on the pods of a Deployment whether its processes are healthy.

    Parameters
    ----------
    body
        The Deployment.
    pods
        Pods with its label; those of older templates are never healthy.
    """
    for pod in pods:
        metadata = pod["metadata"]
        if metadata["namespace"] != body["metadata"]["namespace"] or metadata.get("deletionTimestamp"):
            continue
        wanted = "true" if healthy and serves(body, pod) else "false"
        if (metadata.get("annotations") or {}).get(HEALTHY_ANNOTATION) != wanted:
            patch = {"metadata": {"uid": metadata["uid"], "annotations": {HEALTHY_ANNOTATION: wanted}}}
            await client.merge_patch(PODS, metadata["name"], patch, namespace=metadata["namespace"])
