"""Metrics: controller-runtime's names, as upstream's dashboards use them, and additional ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from trainyard.insight.usage.account import Usage
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.informer import Informer

CONTROLLER = "trainjob_controller"
Blocked = Mapping[str, tuple[int, float]]
"""By reason: number of blocked TrainJobs, and start of the oldest blockage in monotonic seconds."""
_FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one controller process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "controller_runtime_reconcile",
            "Reconciliations by result",
            ["controller", "result"],
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors", "Failed reconciliations", ["controller"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconciliation",
            ["controller"],
            buckets=_FAST,
            registry=self.registry,
        ).labels(CONTROLLER)
        self.workers = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers", ["controller"], registry=self.registry
        )
        self.active = Gauge(
            "controller_runtime_active_workers", "Active workers", ["controller"], registry=self.registry
        ).labels(CONTROLLER)
        self.depth = Gauge("workqueue_depth", "Ready keys", ["name"], registry=self.registry)
        self.adds = Counter("workqueue_adds", "Keys added", ["name"], registry=self.registry).labels(CONTROLLER)
        self.retries = Counter("workqueue_retries", "Keys retried after a failure", ["name"], registry=self.registry)
        self.work_seconds = Histogram(
            "workqueue_work_duration_seconds",
            "Duration of processing a key",
            ["name"],
            buckets=_FAST,
            registry=self.registry,
        ).labels(CONTROLLER)
        self.requests = Counter(
            "rest_client_requests", "Requests to the API server", ["method", "resource", "code"], registry=self.registry
        )
        self.leads = Gauge(
            "leader_election_master_status", "1 while this process is the leader", ["name"], registry=self.registry
        )
        self.webhook_requests = Counter(
            "controller_runtime_webhook_requests", "Admission requests", ["webhook", "code"], registry=self.registry
        )
        self.webhook_seconds = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Duration of an admission request",
            ["webhook"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.webhook_active = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests in flight",
            ["webhook"],
            registry=self.registry,
        )
        self.status_reports = Counter(
            "trainyard_trainer_status_reports",
            "Progress reports of training code by status code",
            ["code"],
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "trainyard_webhook_certificate_expiry_timestamp_seconds",
            "Expiry time of a certificate",
            ["secret"],
            registry=self.registry,
        )

        self.certificate_failing = Gauge(
            "trainyard_webhook_certificate_failing",
            "1 while a certificate or its caBundles cannot be reconciled",
            ["secret"],
            registry=self.registry,
        )
        self.serving_certificate_expiry = Gauge(
            "trainyard_serving_certificate_expiry_timestamp_seconds",
            "Expiry time of the serving certificate of this process; 0: none yet",
            registry=self.registry,
        )

    def observe_request(self, method: str, resource: str, code: int) -> None:
        """Count one request to the API server."""
        self.requests.labels(method, resource, str(code) if code else "<error>").inc()

    def watch_informers(self, informers: Sequence[Informer]) -> None:
        """Export the state of informers at each scrape."""
        self.registry.register(_Informers(informers))

    def watch_blocked(self, blocked: Callable[[], Blocked], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Export number and age of blocked TrainJobs by reason at each scrape.

        Parameters
        ----------
        blocked
            Returns by reason the number of blocked TrainJobs and the start of the oldest blockage, in clock seconds.
        clock
            Monotonic seconds.
        """
        self.registry.register(_Blocked(blocked, clock))

    def watch_events(self, recorder: EventRecorder) -> None:
        """Export the number of events that were not written at each scrape."""
        self.registry.register(_Events(recorder))

    def watch_usage(self, totals: Callable[[], Usage | None]) -> None:
        """Export device-seconds since this process began to lead at each scrape, and none while it does not lead."""
        self.registry.register(_Usage(totals))

    def watch_depth(self, name: str, depth: Callable[[], int]) -> None:
        """Export the depth of a queue at each scrape."""
        self.depth.labels(name).set_function(depth)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _Blocked(Collector):
    def __init__(self, blocked: Callable[[], Blocked], clock: Callable[[], float]) -> None:
        self._blocked = blocked
        self._clock = clock

    def collect(self) -> list[Metric]:
        """Return number and maximum age of blocked TrainJobs by reason."""
        jobs = GaugeMetricFamily("trainyard_blocked_trainjobs", "Blocked TrainJobs by reason", labels=["reason"])
        oldest = GaugeMetricFamily(
            "trainyard_blocked_trainjob_oldest_seconds",
            "Age of the oldest blocked TrainJob by reason",
            labels=["reason"],
        )
        now = self._clock()
        for reason, (count, since) in sorted(self._blocked().items()):
            jobs.add_metric([reason], count)
            oldest.add_metric([reason], max(0.0, now - since))
        return [jobs, oldest]


class _Events(Collector):
    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> list[Metric]:
        """Return the number of events that were not written, by reason."""
        lost = CounterMetricFamily("trainyard_events_not_written", "Events that were not written", labels=["reason"])
        lost.add_metric(["dropped"], self._recorder.dropped)
        lost.add_metric(["limited"], self._recorder.limited)
        return [lost]


class _Usage(Collector):
    def __init__(self, totals: Callable[[], Usage | None]) -> None:
        self._totals = totals

    def collect(self) -> list[Metric]:
        """Return device-seconds by measure, namespace, queue and runtime, and what each queue lent."""
        seconds = CounterMetricFamily(
            "trainyard_device_seconds",
            "Device-seconds of jobs: asked, allocated, borrowed, taken_back",
            labels=["measure", "namespace", "queue", "runtime", "resource"],
        )
        lent = CounterMetricFamily(
            "trainyard_lent_device_seconds", "Device-seconds that a queue lent", labels=["queue", "resource"]
        )
        usage = self._totals()
        if usage is None:
            return [seconds, lent]
        for (gang, resource), sums in sorted(usage.jobs.items()):
            for measure in ("asked", "allocated", "borrowed", "taken_back"):
                labels = [measure, gang.namespace, gang.queue, gang.runtime, resource]
                seconds.add_metric(labels, getattr(sums, measure) / 1000)
        for (queue, resource), amount in sorted(usage.lent.items()):
            lent.add_metric([queue, resource], float(amount / 1000))
        return [seconds, lent]


class _Informers(Collector):
    def __init__(self, informers: Sequence[Informer]) -> None:
        self._informers = informers

    def collect(self) -> list[Metric]:
        """Return the state of every informer."""
        sizes: dict[str, int] = {}
        versions: dict[str, int] = {}
        lists: dict[tuple[str, str], int] = {}
        skips: dict[str, int] = {}
        errors: dict[str, int] = {}
        for informer in self._informers:
            resource = str(informer.resource)
            sizes[resource] = sizes.get(resource, 0) + len(informer.store)
            versions[resource] = max(versions.get(resource, 0), informer.store.observed)
            skips[resource] = skips.get(resource, 0) + informer.store.skips
            errors[resource] = errors.get(resource, 0) + informer.errors
            for reason, count in informer.relists.items():
                lists[resource, reason] = lists.get((resource, reason), 0) + count
        objects = GaugeMetricFamily("trainyard_informer_objects", "Cached objects", labels=["resource"])
        version = GaugeMetricFamily(
            "trainyard_informer_resource_version",
            "resourceVersion up to which all events were delivered",
            labels=["resource"],
        )
        relists = GaugeMetricFamily("trainyard_informer_relists", "Complete lists", labels=["resource", "reason"])
        skipped = CounterMetricFamily(
            "trainyard_informer_skipped_objects", "Invalid objects that were skipped", labels=["resource"]
        )
        failed = CounterMetricFamily(
            "trainyard_informer_errors", "Unexpected errors, each followed by a relist", labels=["resource"]
        )
        for resource, size in sizes.items():
            failed.add_metric([resource], errors[resource])
            skipped.add_metric([resource], skips[resource])
            objects.add_metric([resource], size)
            version.add_metric([resource], versions[resource])
        for (resource, reason), count in lists.items():
            relists.add_metric([resource, reason], count)
        return [objects, version, relists, skipped, failed]
