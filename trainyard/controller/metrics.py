"""Metrics: the names that upstream's dashboards use, and some of our own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from trainyard.kube import EventRecorder, Informer

__all__ = ["CONTROLLER", "Blocked", "Metrics"]

CONTROLLER = "trainjob_controller"
Blocked = Mapping[str, tuple[int, float]]
"""By reason: number of blocked TrainJobs, and since when the oldest of them is, in monotonic seconds."""
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
            "Time of one reconciliation",
            ["controller"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.workers = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers", ["controller"], registry=self.registry
        )
        self.active = Gauge(
            "controller_runtime_active_workers", "Workers at work", ["controller"], registry=self.registry
        )
        self.depth = Gauge("workqueue_depth", "Keys that wait", ["name"], registry=self.registry)
        self.adds = Counter("workqueue_adds", "Keys added", ["name"], registry=self.registry)
        self.retries = Counter(
            "workqueue_retries", "Keys added again after a failure", ["name"], registry=self.registry
        )
        self.work_seconds = Histogram(
            "workqueue_work_duration_seconds",
            "Time of the work on one key",
            ["name"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.requests = Counter(
            "rest_client_requests", "Requests to the API server", ["method", "resource", "code"], registry=self.registry
        )
        self.leads = Gauge(
            "leader_election_master_status", "1 while this process leads", ["name"], registry=self.registry
        )
        self.webhook_requests = Counter(
            "controller_runtime_webhook_requests", "Admission requests", ["webhook", "code"], registry=self.registry
        )
        self.webhook_seconds = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time of one admission request",
            ["webhook"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.webhook_active = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests being answered",
            ["webhook"],
            registry=self.registry,
        )
        self.status_reports = Counter(
            "trainyard_trainer_status_reports", "Progress reports by status code", ["code"], registry=self.registry
        )
        self.certificate_expiry = Gauge(
            "trainyard_webhook_certificate_expiry_timestamp_seconds",
            "When a certificate expires",
            ["secret"],
            registry=self.registry,
        )

        self.certificate_failing = Gauge(
            "trainyard_webhook_certificate_failing",
            "1 while a certificate cannot be read, made or announced",
            ["secret"],
            registry=self.registry,
        )
        self.serving_certificate_expiry = Gauge(
            "trainyard_serving_certificate_expiry_timestamp_seconds",
            "When the certificate that this process serves with expires; 0: there is none yet",
            registry=self.registry,
        )

    def observe_request(self, method: str, resource: str, code: int) -> None:
        """Count one request to the API server."""
        self.requests.labels(method, resource, str(code) if code else "<error>").inc()

    def watch_informers(self, informers: Sequence[Informer]) -> None:
        """Report the informers' sizes and relists at each scrape."""
        self.registry.register(_Informers(informers))

    def watch_blocked(self, blocked: Callable[[], Blocked], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Report at each scrape how many TrainJobs are blocked, why, and for how long the oldest of them is.

        Parameters
        ----------
        blocked
            Returns, by reason, how many there are and since when the oldest is blocked, in seconds of ``clock``.
        clock
            Monotonic seconds.
        """
        self.registry.register(_Blocked(blocked, clock))

    def watch_events(self, recorder: EventRecorder) -> None:
        """Report at each scrape how many events were not written."""
        self.registry.register(_Events(recorder))

    def watch_depth(self, name: str, depth: Callable[[], int]) -> None:
        """Report a queue's depth at each scrape."""
        self.depth.labels(name).set_function(depth)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self.registry)


class _Blocked(Collector):
    def __init__(self, blocked: Callable[[], Blocked], clock: Callable[[], float]) -> None:
        self._blocked = blocked
        self._clock = clock

    def collect(self) -> list[Metric]:
        """Return number and greatest age of blocked TrainJobs by reason."""
        jobs = GaugeMetricFamily(
            "trainyard_blocked_trainjobs", "TrainJobs that cannot go on, by what blocks them", labels=["reason"]
        )
        oldest = GaugeMetricFamily(
            "trainyard_blocked_trainjob_oldest_seconds", "Time for which the oldest is blocked", labels=["reason"]
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
        """Return the events that were not written, by reason."""
        lost = CounterMetricFamily("trainyard_events_not_written", "Events that were not written", labels=["reason"])
        lost.add_metric(["dropped"], self._recorder.dropped)
        lost.add_metric(["limited"], self._recorder.limited)
        return [lost]


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
        objects = GaugeMetricFamily("trainyard_informer_objects", "Objects held", labels=["resource"])
        version = GaugeMetricFamily("trainyard_informer_resource_version", "Version told so far", labels=["resource"])
        relists = GaugeMetricFamily(
            "trainyard_informer_relists", "Complete lists fetched", labels=["resource", "reason"]
        )
        skipped = CounterMetricFamily(
            "trainyard_informer_skipped_objects", "Objects that could not be read and were skipped", labels=["resource"]
        )
        failed = CounterMetricFamily(
            "trainyard_informer_errors", "Unexpected errors, each followed by a new list", labels=["resource"]
        )
        for resource, size in sizes.items():
            failed.add_metric([resource], errors[resource])
            skipped.add_metric([resource], skips[resource])
            objects.add_metric([resource], size)
            version.add_metric([resource], versions[resource])
        for (resource, reason), count in lists.items():
            relists.add_metric([resource, reason], count)
        return [objects, version, relists, skipped, failed]
