"""Controller process: its components, their start order and their shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from trainyard.controller.adoption import adopt
from trainyard.controller.certificate_controller import CertificateController
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.configuration import Configuration
from trainyard.controller.health import health_application, metrics_application
from trainyard.controller.manager import Manager
from trainyard.controller.metrics import Metrics
from trainyard.controller.metrics_access import MetricsAccess
from trainyard.controller.policy_facts import PolicyFacts
from trainyard.controller.policy_review import PolicyReviewer, policy_client, policy_gate, policy_metrics
from trainyard.controller.queue_states import QueueStates
from trainyard.controller.reconcile import Reconciler
from trainyard.controller.runtime_finalizers import RuntimeFinalizers
from trainyard.controller.servers import Servers
from trainyard.controller.serving import ServingCertificate
from trainyard.controller.trainer_status.authority import AuthorityUpdater, authority_of
from trainyard.controller.trainer_status.status_server import ProgressServer
from trainyard.controller.trainer_status.tokens import TokenReviewer
from trainyard.controller.trainer_status.writer import StatusWriter
from trainyard.controller.usage_recorder import UsageRecorder
from trainyard.controller.webhooks import Admission, application
from trainyard.errors import TrainyardError
from trainyard.jobs.render.result import RenderContext
from trainyard.kube.api_errors import ApiError, FencedError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.informer import Informer
from trainyard.kube.leader import LeaderElector, LeadershipLostError

_LOG = logging.getLogger(__name__)
_COMPONENT = "trainjob_controller"
_DRAIN_SECONDS = 5.0
_FLUSH_SECONDS = 2.0


class Controller:
    """One replica of the controller.

    Parameters
    ----------
    configuration
        Configuration file contents.
    connection
        Address and credentials of the API server.
    """

    def __init__(self, configuration: Configuration, connection: Connection) -> None:
        self.configuration = configuration
        self._servers = Servers()
        self._metrics = Metrics()
        self._client = Client(connection, user_agent="trainyard-controller", observe=self._metrics.observe_request)
        self._stopping = asyncio.Event()
        self._skip_delay = asyncio.Event()
        self._failure: Exception | None = None
        self._reconciling = False
        self._elector = self._make_elector() if configuration.elects else None
        self._writer = fenced = self._client.fenced(self._elector.remaining) if self._elector else self._client
        context = RenderContext(
            coscheduling_scheduler=configuration.coscheduling_scheduler, volcano_version=configuration.volcano_version
        )
        self._decisions = policy_client(configuration)
        gate = policy_gate(configuration, self._decisions)
        self._serving: ServingCertificate | None = None
        if configuration.webhooks:
            secret, namespace = configuration.serving_secret, configuration.namespace
            self._serving = ServingCertificate(
                self._client, name=secret, namespace=namespace, clients=configuration.webhook_clients
            )
        authority = partial(authority_of, self._serving.informer) if self._serving is not None else None
        self._cache = ClusterCache(self._client, context, namespaces=gate is not None, authority=authority)
        self._policies = PolicyReviewer(self._cache, gate) if gate is not None else None
        self._events = EventRecorder(fenced, component=_COMPONENT, host=socket.gethostname())
        self._metrics.watch_events(self._events)
        self._reconciler = Reconciler(fenced, self._cache, self._events, policies=self._policies)
        self._manager = Manager(self._cache, self._reconciler, self._metrics, workers=configuration.workers)
        self._queue_states = QueueStates(fenced, self._cache.platforms, namespace=configuration.namespace)
        runtimes = (self._cache.training_runtimes, self._cache.cluster_training_runtimes)
        self._finalizers = RuntimeFinalizers(fenced, runtimes)
        self._usage: UsageRecorder | None = None
        if configuration.usage:
            self._usage = UsageRecorder(fenced, self._cache, namespace=configuration.namespace)
            self._metrics.watch_usage(self._usage.totals)
        self._policy_facts = PolicyFacts(fenced, self._cache.tenant_policies, self._cache.platforms)
        self._certificates = (
            CertificateController(fenced, configuration, self._metrics) if configuration.webhooks else None
        )
        self._authorities: AuthorityUpdater | None = None
        if self._serving is not None:
            self._authorities = AuthorityUpdater(fenced, self._cache, self._serving.informer)
        if self._serving is not None:
            self._metrics.serving_certificate_expiry.set_function(self._serving.expiry)
        self._metrics.watch_informers(
            [*self._replica_informers(), *(self._certificates.informers if self._certificates else ())]
        )

    @property
    def ports(self) -> Mapping[str, int]:
        """Ports of the listening servers by name."""
        return self._servers.ports

    def stop(self, *, at_once: bool = False) -> None:
        """Shut down gracefully: release the lease, serve webhooks for the shutdown delay, finish open requests.

        Parameters
        ----------
        at_once
            Whether to skip the delay; implied by a second call.
        """
        if at_once or self._stopping.is_set():
            self._skip_delay.set()
        self._stopping.set()

    def ready(self) -> bool:
        """Return whether `/readyz` succeeds."""
        return all(check() for check in self._checks().values())

    async def run(self) -> None:
        """Run until `stop`.

        Raises
        ------
        TrainyardError
            If leadership was lost or a server cannot listen on its address.
        """
        try:
            async with AsyncExitStack() as resources:
                resources.push_async_callback(self._client.close)
                if self._decisions is not None:
                    await resources.enter_async_context(self._decisions)
                resources.push_async_callback(self._servers.close)
                await self._servers.start("health", health_application(self._checks()), self.configuration.health)
                async with asyncio.TaskGroup() as group:
                    background = [group.create_task(informer.run()) for informer in self._replica_informers()]
                    background.append(group.create_task(self._freeze_caches()))
                    background.append(group.create_task(self._listen()))
                    leading = group.create_task(self._lead())
                    await self._stopping.wait()
                    await asyncio.gather(self._release_leadership(leading), self._serve_during_shutdown())
                    await self._servers.close()
                    for task in background:
                        task.cancel()
        except BaseExceptionGroup as group:
            raise _cause(group) from group
        if self._failure is not None:
            raise _cause(self._failure) from self._failure
        _LOG.info("stopped")

    async def _lead(self) -> None:
        """Acquire the lease and run as leader; an error shuts down gracefully, as the process also serves webhooks."""
        try:
            if self._elector is None:
                await self._run_leader()
                return
            await self._elector.acquire()
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._elector.hold())
                await self._run_leader()
                holding.cancel()
        except Exception as error:
            self._failure = error
            _LOG.error("stopping: %s", _cause(error))
        finally:
            self._stopping.set()

    async def _run_leader(self) -> None:
        """Run the leader's controllers until the manager is stopped."""
        async with asyncio.TaskGroup() as group:
            controllers = [
                group.create_task(each.run())
                for each in (self._events, self._queue_states, self._policy_facts, self._finalizers)
            ]
            if self._certificates is not None:
                controllers.append(group.create_task(self._certificates.run()))
            if self._authorities is not None:
                controllers.append(group.create_task(self._authorities.run()))
            if self._usage is not None:
                controllers.append(group.create_task(self._usage.run()))
            await self._cache.wait_settled()
            self._reconciler.search_by_name(await adopt(self._writer, self._cache))
            self._reconciling = True
            await self._manager.run()
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._events.flush()
            except TimeoutError:
                _LOG.warning("pending events were not written before the shutdown")
            await self._close_record()
            for controller_task in controllers:
                controller_task.cancel()

    async def _close_record(self) -> None:
        """Write the record of usage up to now."""
        if self._usage is None:
            return
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._usage.close()
        except (TimeoutError, ApiError, TransportError, FencedError, TrainyardError) as error:
            _LOG.warning("the record of usage was not completed before the shutdown: %s", error)

    async def _release_leadership(self, leading: asyncio.Task[None]) -> None:
        """Finish running reconciliations and release the lease: another replica leads while this one still serves.

        The lease is kept while the API server may execute a write that was cancelled or timed out.
        """
        self._manager.stop()
        if self._reconciling:
            await asyncio.wait((leading,), timeout=_DRAIN_SECONDS)
        leading.cancel()
        await asyncio.wait((leading,))
        if self._elector is None:
            return
        if time.monotonic() - self._writer.unanswered_at < self.configuration.leader_election.lease_seconds:
            _LOG.warning("a write was not answered and may still be executed: the lease is not released, but expires")
            return
        await self._elector.release()

    async def _serve_during_shutdown(self) -> None:
        """Serve webhooks until no API server or proxy sends requests to this replica."""
        if "webhook" not in self.ports:
            return
        self._servers.drain()
        _LOG.info("serving webhooks for another %g s", self.configuration.shutdown_delay_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.configuration.shutdown_delay_seconds):
                await self._skip_delay.wait()

    async def _listen(self) -> None:
        """Serve metrics and, after the caches are settled, admission requests.

        With an empty cache a verdict would be wrong. Readiness does not prevent it: while the API server was away,
        Endpoints still name a container that has restarted since.
        """
        tls: ssl.SSLContext | None = None
        if self._serving is not None:
            await self._serving.loaded.wait()
            tls = self._serving.context
        access = MetricsAccess(self._client) if tls is not None else None
        metrics = metrics_application(self._metrics, access, policy_metrics(self.configuration))
        await self._servers.start("metrics", metrics, self.configuration.metrics, tls)
        if self._serving is not None:
            await self._cache.wait_settled()
            clients = self.configuration.webhook_clients
            reviewed = Admission(self._client, self._cache, policies=self._policies, redact=clients is None)
            admission = application(reviewed, self._metrics, clients)
            self._status_server().mount(admission)
            await self._servers.start("webhook", admission, self.configuration.webhook, self._serving.webhook_context)

    def _replica_informers(self) -> Sequence[Informer]:
        """Return the informers that run on all replicas."""
        return (*self._cache.informers, *((self._serving.informer,) if self._serving is not None else ()))

    def _status_server(self) -> ProgressServer:
        tokens, writer = TokenReviewer(self._client), StatusWriter(self._client)
        return ProgressServer(self._cache, tokens, writer, self._metrics, clock=time.monotonic)

    async def _freeze_caches(self) -> None:
        """Exempt the caches from garbage collection: a full collection takes a second with 50,000 TrainJobs."""
        gc.collect()
        await self._cache.wait_settled()
        gc.freeze()

    def _checks(self) -> dict[str, Callable[[], bool]]:
        checks: dict[str, Callable[[], bool]] = {
            "caches": lambda: self._cache.settled,
            "not stopping": lambda: not self._stopping.is_set(),
        }
        if self._serving is not None:
            serving = self._serving
            checks["certificate"] = serving.valid
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
        If the controller failed; the process should exit.
    """

    async def main() -> None:
        controller = Controller(configuration, connection)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, controller.stop)
        loop.add_signal_handler(signal.SIGINT, partial(controller.stop, at_once=True))
        await controller.run()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _cause(error: BaseException) -> BaseException:
    """Return the cause of an exception group, as a user-facing error if it is an expected one."""
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, LeadershipLostError | FencedError):
            return TrainyardError(
                f"leadership was lost: {leaf}", fix="None required: another replica leads, this one restarts"
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
