"""One controller process: what runs, in which order it starts, and how it stops."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import uuid
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from aiohttp import web

from trainyard.controller.configuration import Configuration, Listener
from trainyard.controller.health import health_application, metrics_application
from trainyard.controller.issuer import Issuer
from trainyard.controller.manager import Manager
from trainyard.controller.metrics import Metrics
from trainyard.controller.policies import Policies, policy_client, policy_gate
from trainyard.controller.queue_states import QueueStates
from trainyard.controller.reconcile import Reconciler
from trainyard.controller.runtime_finalizers import RuntimeFinalizers
from trainyard.controller.serving import ServingCertificate
from trainyard.controller.take_over import take_over
from trainyard.controller.view import ClusterView
from trainyard.controller.webhooks import Admission, application
from trainyard.kube import Client, Connection, EventRecorder, FencedError, LeaderElector, LeadershipLostError
from trainyard.problem import TrainyardError
from trainyard.render import RenderContext

__all__ = ["Controller", "run"]

_LOG = logging.getLogger(__name__)
_COMPONENT = "trainjob_controller"
_DRAIN_SECONDS = 20.0
_FLUSH_SECONDS = 2.0


class Controller:
    """One replica.

    Parameters
    ----------
    configuration
        What to do and where to listen.
    connection
        The API server.
    """

    def __init__(self, configuration: Configuration, connection: Connection) -> None:
        self.configuration = configuration
        self.ports: dict[str, int] = {}
        self._metrics = Metrics()
        self._client = Client(connection, user_agent="trainyard-controller", observe=self._metrics.observe_request)
        self._stopping = asyncio.Event()
        self._elector = self._make_elector() if configuration.elects else None
        self._writer = fenced = self._client.fenced(self._elector.remaining) if self._elector else self._client
        known = RenderContext(
            coscheduling_scheduler=configuration.coscheduling_scheduler, volcano_version=configuration.volcano_version
        )
        self._decisions = policy_client(configuration)
        gate = policy_gate(configuration, self._decisions)
        self._view = ClusterView(self._client, known, namespaces=gate is not None)
        self._policies = Policies(self._view, gate) if gate is not None else None
        self._events = EventRecorder(fenced, component=_COMPONENT, host=socket.gethostname())
        reconciler = Reconciler(fenced, self._view, self._events, policies=self._policies)
        self._manager = Manager(self._view, reconciler, self._metrics, workers=configuration.workers)
        self._queue_states = QueueStates(fenced, self._view.platforms, namespace=configuration.namespace)
        runtimes = (self._view.training_runtimes, self._view.cluster_training_runtimes)
        self._finalizers = RuntimeFinalizers(fenced, runtimes)
        self._issuer = Issuer(fenced, configuration, self._metrics) if configuration.webhooks else None
        self._serving: ServingCertificate | None = None
        if configuration.webhooks:
            secret, namespace = configuration.serving_secret, configuration.namespace
            self._serving = ServingCertificate(self._client, name=secret, namespace=namespace)
        self._metrics.watch_informers([*self._view.informers, *(self._issuer.informers if self._issuer else ())])

    def stop(self) -> None:
        """Ask for an orderly end: finish what was begun, release the lease, let go."""
        self._stopping.set()

    def ready(self) -> bool:
        """Return whether `/readyz` says ok."""
        return all(check() for check in self._checks().values())

    async def run(self) -> None:
        """Run until `stop`.

        Raises
        ------
        TrainyardError
            If leadership was lost or an address cannot be listened on.
        """
        try:
            async with AsyncExitStack() as servers:
                servers.push_async_callback(self._client.close)
                if self._decisions is not None:
                    await servers.enter_async_context(self._decisions)
                await self._serve(servers, "health", health_application(self._checks()), self.configuration.health)
                async with asyncio.TaskGroup() as group:
                    background = [group.create_task(informer.run()) for informer in self._view.informers]
                    background.append(group.create_task(self._tune()))
                    background.append(group.create_task(self._listen(servers)))
                    leading = group.create_task(self._lead())
                    stopping = group.create_task(self._stopping.wait())
                    await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
                    await self._wind_down(leading)
                    for task in (*background, stopping):
                        task.cancel()
        except BaseExceptionGroup as group:
            raise _cause(group) from group

    async def _lead(self) -> None:
        if self._elector is None:
            await self._act()
            return
        await self._elector.acquire()
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(self._elector.hold())
            await self._act()
            holding.cancel()

    async def _act(self) -> None:
        """Do what one replica at a time does, until the manager is stopped."""
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._events.run()), group.create_task(self._queue_states.run())]
            helpers.append(group.create_task(self._finalizers.run()))
            if self._issuer is not None:
                helpers.append(group.create_task(self._issuer.run()))
            await self._view.wait_settled()
            await take_over(self._writer, self._view)
            await self._manager.run()
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._events.flush()
            except TimeoutError:
                _LOG.warning("some events were not written")
            for helper in helpers:
                helper.cancel()

    async def _wind_down(self, leading: asyncio.Task[None]) -> None:
        self._stopping.set()
        self._manager.stop()
        if self._elector is not None and not self._elector.is_leader():
            leading.cancel()
        if not self._view.settled:
            leading.cancel()
        await asyncio.wait((leading,), timeout=_DRAIN_SECONDS)
        leading.cancel()
        if self._elector is not None:
            await self._elector.release()
        _LOG.info("stopped")

    async def _listen(self, servers: AsyncExitStack) -> None:
        """Serve metrics and, once there is a certificate, admission requests."""
        tls: ssl.SSLContext | None = None
        scrape = metrics_application(self._metrics)
        if self._serving is not None:
            follow = asyncio.ensure_future(self._serving.informer.run())
            servers.callback(follow.cancel)
            await self._serving.loaded.wait()
            tls = self._serving.context
            admission = application(Admission(self._client, self._view, policies=self._policies), self._metrics)
            await self._serve(servers, "webhook", admission, self.configuration.webhook, tls)
        await self._serve(servers, "metrics", scrape, self.configuration.metrics, tls)

    async def _serve(
        self,
        servers: AsyncExitStack,
        name: str,
        app: web.Application,
        listener: Listener,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
        await runner.setup()
        servers.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, listener.host, listener.port, ssl_context=tls).start()
        except OSError as error:
            raise TrainyardError(
                f"{name}: cannot listen on {listener.host}:{listener.port}: {error.strerror}",
                fix=f"Free the port or choose another with --{name}-port",
            ) from error
        self.ports[name] = runner.addresses[0][1]
        _LOG.info("%s listens on %s:%d", name, listener.host, self.ports[name])

    async def _tune(self) -> None:
        """Keep the garbage collector from walking the caches again and again."""
        await self._view.wait_settled()
        gc.collect()
        gc.freeze()

    def _checks(self) -> dict[str, Callable[[], bool]]:
        checks: dict[str, Callable[[], bool]] = {
            "caches": lambda: self._view.settled,
            "not stopping": lambda: not self._stopping.is_set(),
        }
        if self._serving is not None:
            serving = self._serving
            checks["certificate"] = serving.loaded.is_set
            checks["webhook server"] = lambda: "webhook" in self.ports
        return checks

    def _make_elector(self) -> LeaderElector:
        settings = self.configuration.leader_election
        return LeaderElector(
            self._client,
            name=settings.lease,
            namespace=self.configuration.namespace,
            identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
            lease_seconds=settings.lease_seconds,
            renew_seconds=settings.renew_seconds,
            retry_seconds=settings.retry_seconds,
            on_change=lambda leads: self._metrics.leads.labels(settings.lease).set(leads),
        )


def run(configuration: Configuration, connection: Connection) -> None:
    """Run a controller in this process until SIGTERM or SIGINT.

    Raises
    ------
    TrainyardError
        If it cannot go on; the process should exit.
    """

    async def main() -> None:
        controller = Controller(configuration, connection)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, controller.stop)
        await controller.run()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure behind a group of them, as an error for the user where it is foreseen."""
    leaves = list(_leaves(group))
    for leaf in leaves:
        if isinstance(leaf, LeadershipLostError | FencedError):
            return TrainyardError(
                f"leadership was lost: {leaf}", fix="Nothing: another replica leads, this one restarts"
            )
    return next((leaf for leaf in leaves if isinstance(leaf, TrainyardError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
