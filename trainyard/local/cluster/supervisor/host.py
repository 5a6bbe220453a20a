"""A container of a platform pod as a host process: its files, token and readiness."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.kinds import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.listening import url_host
from trainyard.local.cluster.code_digest import sources_digest
from trainyard.local.cluster.controlplane import server_url
from trainyard.local.cluster.folders import ClusterFolder, private_folder
from trainyard.local.cluster.health_probes import check_health
from trainyard.local.cluster.ports import find_conflict, slot_name, slot_ports
from trainyard.local.cluster.process import ProcessSpec
from trainyard.local.cluster.state import ClusterState
from trainyard.local.cluster.supervisor import volumes
from trainyard.local.cluster.supervisor.host_programs.base import HostProgram, RunContext
from trainyard.local.cluster.supervisor.identity import ServiceAccountIdentity
from trainyard.local.cluster.supervisor.pod_requirements import HostContainer, local_paths
from trainyard.local.cluster.supervisor.process_supervisor import ProcessSupervisor
from trainyard.local.cluster.supervisor.readiness import Readiness
from trainyard.local.cluster.toolchain import program_path

_SOURCES = {"configMap": CONFIG_MAPS, "secret": SECRETS}
_WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_RETRY = 60.0
"""Seconds until a failed build of a program is retried."""
_REFRESH = 5.0
"""Seconds between two synchronizations of the volumes of a running process."""

_log = logging.getLogger(__name__)


class HostProcess:
    """A platform program in a slot of this machine.

    Parameters
    ----------
    program, host_program
        Name and definition of the program.
    slot
        Its slot: each replica has its own ports, files and token.
    folder, state
        The cluster.
    notify
        Called when the process has started or exited.
    """

    def __init__(
        self,
        program: str,
        host_program: HostProgram,
        slot: int,
        folder: ClusterFolder,
        state: ClusterState,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self.program, self.name = program, slot_name(program, slot)
        self.ports = {use: port for use, port in slot_ports(state.ports, slot).items() if use.startswith(f"{program}/")}
        self.supervisor = ProcessSupervisor(
            folder.processes,
            self.name,
            ready_to_start=partial(find_conflict, self.ports, state.addresses.host),
            fast_stop_signal=host_program.fast_stop_signal,
            notify=notify,
        )
        self._slot_ports = slot_ports(state.ports, slot)
        self._sockets = folder.sockets / str(slot)
        self._programs: dict[str, Path] = {}
        self._failure: tuple[float, TrainyardError] | None = None
        self._readiness = Readiness()
        self._probed_pid: int | None = None
        self._host_program = host_program
        self._cluster, self._state = folder, state
        self._folder = folder.processes / self.name
        self._identity = ServiceAccountIdentity(
            self._folder, folder.name, server_url(state), (folder.pki / "ca.crt").read_bytes()
        )
        self._sources = sources_digest()
        self._accepted: str | None = None
        self._refreshed_at = 0.0
        self._context: RunContext | None = None
        self._building: asyncio.Task[Path] | None = None

    @property
    def ready(self) -> bool:
        """Whether the readiness probe of the process that runs now has succeeded."""
        return self._readiness.ready and self.supervisor.record.pid == self._probed_pid

    def stop(self, why: str) -> None:
        """Stop the process of this slot.

        Parameters
        ----------
        why
            Reason for the status.
        """
        self._accepted = None
        self._readiness.reset()
        self.supervisor.set_stopped(why)

    async def run(self, client: Client, container: HostContainer) -> None:
        """Reconcile the process with its container, and probe its readiness."""
        try:
            due = time.monotonic() - self._refreshed_at > _REFRESH
            if self._accepted != container.pod or due or not self.ready:
                self._refreshed_at = time.monotonic()
                why = await self._prepare(client, container)
                if why and self._accepted is None:
                    self.supervisor.postpone(why)
        except TrainyardError as error:
            self.stop(str(error))
        await self._probe(container)

    async def _prepare(self, client: Client, container: HostContainer) -> str | None:
        missing = await self._missing(client, container)
        if missing and self._accepted != container.pod:
            self._accepted = None
            return f"waiting for {missing}"
        now = datetime.datetime.now(datetime.UTC)
        if not await self._identity.ensure(client, container.namespace, container.service_account, now):
            self._accepted = None
            return f"waiting for ServiceAccount {container.namespace}/{container.service_account}"
        mounts = {path: self._folder / "volumes" / volume / inner for path, (volume, inner) in container.mounts.items()}
        program = await self._program(container.version)
        if program is None:
            return f"{self.program} {container.version} is being built"
        private_folder(self._sockets)
        context = RunContext(
            program,
            container.namespace,
            self._identity.kubeconfig,
            self._folder,
            self._slot_ports,
            mounts,
            self._sockets,
            self._state.nodes,
            self._state.addresses.host,
        )
        if not await self._volumes(client, container, context):
            return "waiting for the content of its volumes"
        self._context = context
        arguments = [local_paths(argument, mounts) for argument in container.arguments]
        variables = {name: local_paths(value, mounts) for name, value in container.environment.items()}
        serving_port = self._host_program.serving_port
        port = self.ports[serving_port] if serving_port else self._host_program.health(context).port
        if serving_port and "webhook" not in self._host_program.ports:
            port = self._state.ports[serving_port]  # people open the address of the forwarder, which stays
        spec = ProcessSpec(
            name=self.name,
            version=container.version,
            command=tuple(self._host_program.command(context, arguments)),
            log=self._cluster.log(self.name),
            address=f"{url_host(self._state.addresses.host)}:{port}",
            environment={**self._host_program.variables(context), **variables},
            inputs=container.pod if self._host_program.upstream else f"{container.pod}{self._sources}",
        )
        self._accepted = container.pod
        self.supervisor.set_desired(spec)
        return None

    async def _missing(self, client: Client, container: HostContainer) -> str | None:
        if self._accepted == container.pod:
            return None
        for name in self._host_program.crds:
            crd = await client.find(CUSTOM_RESOURCE_DEFINITIONS, name)
            conditions = (crd or {}).get("status", {}).get("conditions") or ()
            if not any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions):
                return f"CustomResourceDefinition {name}"
        for name in self._host_program.webhook_configurations(list(container.arguments)):
            found = [await client.find(resource, name) for resource in _WEBHOOKS]
            if not any(found):
                return f"webhook configuration {name}"
        for volume in container.volumes:
            if volume.kind in _SOURCES and not volume.optional:
                found_source = await client.find(_SOURCES[volume.kind], volume.source, namespace=container.namespace)
                if volumes.content(volume, found_source) is None:
                    kind = _SOURCES[volume.kind].kind
                    return f"{kind} {container.namespace}/{volume.source} (mounted as volume {volume.name})"
        return None

    async def _program(self, version: str) -> Path | None:
        if not self._host_program.upstream:
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

    async def _volumes(self, client: Client, container: HostContainer, context: RunContext) -> bool:
        for volume in container.volumes:
            target = self._folder / "volumes" / volume.name
            if volume.kind == "emptyDir":
                private_folder(target)
                continue
            body = await client.find(_SOURCES[volume.kind], volume.source, namespace=container.namespace)
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
        return self._host_program.configuration(context, path, text).encode()

    async def _probe(self, container: HostContainer) -> None:
        if self._context is None or not self.supervisor.running:
            self._readiness.reset()
            return
        pid = self.supervisor.record.pid
        if pid != self._probed_pid:
            # It restarted while the API server was away, and nothing was reconciled.
            self._readiness.reset()
            self._probed_pid = pid
        if self._readiness.due(time.monotonic(), container.probe_period):
            listening_ports = (self.ports[self._host_program.serving_port],) if self._host_program.serving_port else ()
            why = await asyncio.to_thread(check_health, self._host_program.health(self._context), *listening_ports)
            self._readiness.observe(time.monotonic(), answered=why is None, failures=container.probe_failures)

    async def close(self) -> None:
        """Cancel a build in progress."""
        if self._building is not None:
            self._building.cancel()
            with contextlib.suppress(asyncio.CancelledError, TrainyardError):
                await self._building
