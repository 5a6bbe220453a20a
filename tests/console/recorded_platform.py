"""Recorded platform of the console's tests: two tenants, running and waiting jobs, programs, certificates, and
names and messages that a tenant chose to attack the page.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import socket
import tempfile
from collections.abc import Iterator

import httpx
from anyio.from_thread import start_blocking_portal

from tests.explain.recorded_clusters import NOW, TRAINER, Cluster, body, minutes_ago
from trainyard import pki
from trainyard.insight.console.access_guard import AccessGuard
from trainyard.insight.console.page_server import serving
from trainyard.insight.console.recorded_source import RecordedSource, StateSource
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.web_application import Pages, application

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e"
"""Text of a tenant in a message."""
PORT = 8090
ADDRESS = f"http://127.0.0.1:{PORT}"


def authority(days: int, name: str = "trainyard-webhooks") -> str:
    """Return the caBundle of an authority that ends in some days."""
    made = pki.authority(
        name, now=NOW - datetime.timedelta(days=9), lifetime=datetime.timedelta(days=days + 9, hours=1)
    )
    return base64.b64encode(made.certificate).decode()


def platform(racks: int = 2, *, days: int = 300) -> Cluster:
    """Return a platform on which vision uses one rack and more, and language waits."""
    cluster = Cluster(racks=racks)
    bundle = authority(days)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        cluster.bodies.append(
            body(
                "admissionregistration.k8s.io/v1", kind, "trainyard", webhooks=[{"clientConfig": {"caBundle": bundle}}]
            )
        )
    runtime = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": []}}}
    for name in ("torch-distributed", "torch-distributed-1.0"):
        cluster.bodies.append(body(TRAINER, "ClusterTrainingRuntime", name, spec=runtime))
    old = body(TRAINER, "ClusterTrainingRuntime", "plain-1.0", spec={"mlPolicy": {"numNodes": 2}})
    old["metadata"] |= {
        "labels": {"trainer.kubeflow.org/support": "deprecated"},
        "annotations": {"trainyard.dev/remove-after": "2027-01-31"},
    }
    cluster.bodies.append(old)
    cluster.fill("vision", cluster.names[:5], name="wide")
    waiting = cluster.job("waits", "language", pods=4)
    waiting.job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "API_KEY", "value": "s3cret"}
    ]
    waiting.train_job["status"] = {
        "conditions": [
            {
                "type": HOSTILE,
                "status": "True",
                "reason": HOSTILE,
                "message": HOSTILE,
                "lastTransitionTime": minutes_ago(3),
            }
        ]
    }
    cluster.event(waiting.train_job, "Odd", HOSTILE)
    return cluster


class Viewer(httpx.Client):
    """A client of a console that is served at a socket in a folder: its address is always the same."""

    def __init__(self, file: str, guard: AccessGuard, port: int) -> None:
        super().__init__(base_url=f"http://127.0.0.1:{port}", transport=httpx.HTTPTransport(uds=file), timeout=30)
        self.guard = guard


@contextlib.contextmanager
def guarded(
    source: StateSource, scenarios: ScenarioFolder | None = None, *, explains: bool = False, port: int = PORT
) -> Iterator[Viewer]:
    """Yield a client of a console that has no cookie yet."""
    reader = SharedReader(source, explains=explains)
    guard = AccessGuard(Pages(reader, scenarios), port)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        with start_blocking_portal() as portal:
            portal.call(reader.start)
            served = serving(application(guard.middleware), listening, reader.end_streams, end_seconds=1.0)
            with portal.wrap_async_context_manager(served), Viewer(f"{folder}/socket", guard, port) as client:
                yield client
            portal.call(reader.close)


def console(
    cluster: Cluster, scenarios: ScenarioFolder | None = None, *, explains: bool = False
) -> contextlib.AbstractContextManager[Viewer]:
    """Yield a client of the console of a recorded cluster."""
    return guarded(RecordedSource(cluster.observed, "cluster.json"), scenarios, explains=explains)


def token_of(client: Viewer) -> str:
    """Return a new token of the console of a client."""
    return client.guard.new_token()


def signed_in(client: Viewer) -> httpx.Response:
    """Open the address with a token."""
    return client.get(f"/?token={token_of(client)}")
