from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.controller.harness import CLUSTER_RUNTIMES, TRAIN_JOBS, runtime, submit, train_job
from tests.kube.fake_api import FakeApi, error, eventually, serving
from trainyard.controller.application import Controller
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration, LeaderElection, Listener
from trainyard.controller.permissions import cluster_rules, key_rules, keys_fix, namespaced_rules
from trainyard.controller.start import with_flags
from trainyard.errors import TrainyardError
from trainyard.insight.usage.record import names_of

LOCAL = Listener(host="127.0.0.1", port=0)
OURS = Certificate(
    secret=SERVING_SECRET,
    namespace="kubeflow-system",
    dns_names=("localhost",),
    ip_addresses=("127.0.0.1",),
    mutating_webhook_configurations=("defaulter.trainer.kubeflow.org",),
)


def configuration(**changes: Any) -> Configuration:
    return Configuration(
        webhook=LOCAL, health=LOCAL, metrics=LOCAL, workers=2, **{"shutdown_delay_seconds": 0.1, **changes}
    )


async def get(port: int, path: str, *, tls: bool = False) -> tuple[int, str]:
    scheme = "https" if tls else "http"
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"{scheme}://127.0.0.1:{port}{path}", ssl=False, headers={"Authorization": "Bearer monitoring"}
        ) as response,
    ):
        return response.status, await response.text()


@pytest.mark.slow
async def test_without_webhooks_it_needs_nothing_but_the_kinds(api: FakeApi) -> None:
    submit(api)
    controller = Controller(configuration(webhooks=False), api.connection)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: (api.find("trainjobs", "job", "team") or {}).get("status"))
    await eventually(lambda: "metrics" in controller.ports and not controller._manager.queue.processing)
    assert await get(controller.ports["health"], "/healthz") == (200, "ok")
    assert await get(controller.ports["health"], "/readyz") == (200, "ok")
    _, text = await get(controller.ports["metrics"], "/metrics")
    assert 'controller_runtime_reconcile_total{controller="trainjob_controller",result="success"}' in text
    assert 'rest_client_requests_total{code="201",method="POST",resource="jobsets.jobset.x-k8s.io"} 1.0' in text
    controller.stop()
    await asyncio.wait_for(running, 5)
    assert api.of("leases") == []
    assert api.of("secrets") == []


async def test_two_replicas_serve_one_leads_and_hands_over_when_it_stops(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    settings = configuration(
        certificates=(OURS,), leader_election=LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.05)
    )
    first = Controller(settings, api.connection)
    running = [asyncio.create_task(first.run())]
    await eventually(lambda: api.of("leases"))
    status, text = await get(first.ports["health"], "/readyz")
    assert (status, text) == (503, "waiting for: certificate, webhook server")
    api.put("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}})
    second = Controller(settings, api.connection)
    running.append(asyncio.create_task(second.run()))
    await eventually(lambda: first.ready() and second.ready())
    holder = api.of("leases")[0]["spec"]["holderIdentity"]
    for replica in (first, second):
        assert (await get(replica.ports["webhook"], "/nothing", tls=True))[0] == 404
    first.stop()
    await asyncio.wait_for(running[0], 5)
    api.put(TRAIN_JOBS, train_job())
    await eventually(lambda: api.find("jobsets", "job", "team"))
    assert api.of("leases")[0]["spec"]["holderIdentity"] not in ("", holder)
    second.stop()
    await asyncio.wait_for(running[1], 5)
    assert api.of("leases")[0]["spec"]["holderIdentity"] == ""


async def test_only_the_leader_records_usage_and_it_completes_the_record_when_it_stops(api: FakeApi) -> None:
    api.put("/api/v1/namespaces", HOME)
    settings = configuration(certificates=(OURS,), leader_election=ELECTION, usage=True)
    first = Controller(settings, api.connection)
    running = asyncio.create_task(first.run())
    await eventually(lambda: api.find("configmaps", "trainyard-usage", "kubeflow-system"))
    second = Controller(settings, api.connection)
    other = asyncio.create_task(second.run())
    await eventually(lambda: first.ready() and second.ready())
    assert first._usage is not None
    pod = {
        "metadata": {"name": "worker", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
    }
    recorder = first._usage
    api.put("/api/v1/pods", pod)
    await eventually(lambda: (found := recorder.totals()) and found.jobs)
    api.review = lambda spec: {"authenticated": True, "user": {"username": spec["token"]}}
    assert await get(first.ports["metrics"], "/metrics/opa", tls=True) == (403, "Forbidden")
    api.access = lambda spec: spec["user"] == "monitoring"
    assert await get(second.ports["metrics"], "/metrics/opa", tls=True) == (404, "no policy server")
    assert 'namespace="team"' in (await get(first.ports["metrics"], "/metrics", tls=True))[1]
    assert "trainyard_device_seconds_total{" not in (await get(second.ports["metrics"], "/metrics", tls=True))[1]
    first.stop()
    await asyncio.wait_for(running, 5)
    assert [each for each in api.of("configmaps") if each["metadata"]["name"] in names_of("team")]
    second.stop()
    await asyncio.wait_for(other, 5)


def test_pods_are_watched_only_for_the_record_of_usage() -> None:
    def granted(*, usage: bool) -> set[tuple[str, str]]:
        settings = configuration(usage=usage)
        rules = (*cluster_rules(settings), *namespaced_rules(settings.namespace, settings))
        return {(each, verb) for rule in rules for each in rule["resources"] for verb in rule["verbs"]}

    own = {("configmaps", "list"), ("configmaps", "delete")}
    assert granted(usage=True) - granted(usage=False) == {("pods", "list"), ("pods", "watch"), *own}


ELECTION = LeaderElection(lease_seconds=3, renew_seconds=2, retry_seconds=0.05)
HOME = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}}


async def test_a_replica_that_stops_during_a_write_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server may still execute the write, beside those of another leader."""

    class Silent(FakeApi):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            if request.method == "POST" and "/jobsets" in request.path:
                waiting.set()
                await asyncio.sleep(30)
            return await super().handle(request)

    waiting = asyncio.Event()
    monkeypatch.setattr("trainyard.controller.application._DRAIN_SECONDS", 0.1)
    async with serving(Silent()) as api:
        submit(api)
        election = LeaderElection(enabled=True, lease_seconds=15, renew_seconds=10, retry_seconds=1)
        controller = Controller(configuration(webhooks=False, leader_election=election), api.connection)
        running = asyncio.create_task(controller.run())
        await waiting.wait()
        holder = api.of("leases")[0]["spec"]["holderIdentity"]
        controller.stop()
        await asyncio.wait_for(running, 10)
        assert holder
        assert api.of("leases")[0]["spec"]["holderIdentity"] == holder


async def test_a_replica_that_stops_hands_over_at_once_and_serves_on(api: FakeApi) -> None:
    api.put("/api/v1/namespaces", HOME)
    settings = configuration(certificates=(OURS,), leader_election=ELECTION, shutdown_delay_seconds=30)
    first, second = (Controller(settings, api.connection) for _ in range(2))
    running = [asyncio.create_task(first.run())]
    await eventually(first.ready)
    holder = api.of("leases")[0]["spec"]["holderIdentity"]
    running.append(asyncio.create_task(second.run()))
    await eventually(second.ready)
    url = f"https://127.0.0.1:{first.ports['webhook']}/nothing"
    async with aiohttp.ClientSession() as session:
        async with session.get(url, ssl=False) as response:
            assert "Connection" not in response.headers
        first.stop()
        await eventually(lambda: api.of("leases")[0]["spec"]["holderIdentity"] not in ("", holder), within=2)
        assert await get(first.ports["health"], "/readyz") == (503, "waiting for: not stopping")
        async with session.get(url, ssl=False) as response:
            assert (response.status, response.headers["Connection"]) == (404, "close")
    assert not running[0].done()
    first.stop()
    await asyncio.wait_for(running[0], 5)
    assert not running[1].done()
    second.stop(at_once=True)
    await asyncio.wait_for(running[1], 5)


async def test_a_leader_that_has_not_begun_to_reconcile_hands_over_at_once(api: FakeApi) -> None:
    seen = asyncio.Event()

    def refuse(fake: FakeApi, request: web.Request) -> web.Response | None:
        if not request.query.get("labelSelector", "").startswith("!"):
            return None
        seen.set()
        return error(503, "ServiceUnavailable", "")

    api.fault = refuse
    controller = Controller(
        configuration(webhooks=False, leader_election=ELECTION.model_copy(update={"enabled": True})), api.connection
    )
    running = asyncio.create_task(controller.run())
    await asyncio.wait_for(seen.wait(), 5)
    assert api.of("leases")[0]["spec"]["holderIdentity"] != ""
    controller.stop()
    await asyncio.wait_for(running, 3)
    assert api.of("leases")[0]["spec"]["holderIdentity"] == ""


async def test_who_loses_the_lease_serves_on_while_it_ends(api: FakeApi) -> None:
    api.put("/api/v1/namespaces", HOME)
    settings = configuration(certificates=(OURS,), leader_election=ELECTION, shutdown_delay_seconds=30)
    controller = Controller(settings, api.connection)
    running = asyncio.create_task(controller.run())
    await eventually(controller.ready)
    [lease] = api.of("leases")
    renewed = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {**lease["spec"], "holderIdentity": "another", "renewTime": renewed}
    api.put("/apis/coordination.k8s.io/v1/leases", {**lease, "spec": spec})
    await eventually(lambda: not controller.ready())
    assert (await get(controller.ports["webhook"], "/nothing", tls=True))[0] == 404
    controller.stop()
    with pytest.raises(TrainyardError, match="leadership was lost"):
        await asyncio.wait_for(running, 5)
    assert api.of("leases")[0]["spec"]["holderIdentity"] == "another"


async def test_webhooks_are_not_served_before_the_caches_are_settled(api: FakeApi) -> None:
    """Endpoints still name a container that restarted while the API server was away."""
    api.put("/api/v1/namespaces", HOME)
    starting = True

    def refuse(fake: FakeApi, request: web.Request) -> web.Response | None:
        reads_policies = starting and request.path.endswith("/tenantpolicies")
        return error(503, "ServiceUnavailable", "starting") if reads_policies else None

    api.fault = refuse
    controller = Controller(configuration(certificates=(OURS,), leader_election=ELECTION), api.connection)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: "metrics" in controller.ports)
    await eventually(lambda: controller._cache.tenant_policies.failure is not None)
    assert "webhook" not in controller.ports
    starting = False
    await eventually(lambda: "webhook" in controller.ports)
    assert controller.ready()
    controller.stop()
    await asyncio.wait_for(running, 5)


async def test_the_end_of_the_task_that_follows_the_serving_certificate_ends_the_process(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(configuration(certificates=(OURS,), leader_election=ELECTION), api.connection)

    async def die() -> None:
        raise RuntimeError("the informer died")

    assert controller._serving is not None
    monkeypatch.setattr(controller._serving.informer, "run", die)
    with pytest.raises(RuntimeError, match="the informer died"):
        await asyncio.wait_for(controller.run(), 3)


async def test_a_replica_whose_certificate_expired_is_not_ready_until_its_secret_can_be_read(api: FakeApi) -> None:
    api.put("/api/v1/namespaces", HOME)
    controller = Controller(configuration(certificates=(OURS,), leader_election=ELECTION), api.connection)
    running = asyncio.create_task(controller.run())
    await eventually(controller.ready)
    serving = controller._serving
    assert serving is not None
    now = datetime.datetime.now(datetime.UTC)
    assert serving.expiry() > now.timestamp()
    serving._clock = lambda: now + datetime.timedelta(days=91)
    assert await get(controller.ports["health"], "/readyz") == (503, "waiting for: certificate")
    assert not running.done()
    assert (await get(controller.ports["webhook"], "/nothing", tls=True))[0] == 404
    serving._clock = lambda: now + datetime.timedelta(days=89)
    assert controller.ready()
    controller.stop()
    await asyncio.wait_for(running, 5)


def test_the_time_to_stop_holds_the_delay_and_the_requests_that_have_begun() -> None:
    assert Configuration().termination_grace_seconds == 23
    assert Configuration(shutdown_delay_seconds=5.5).termination_grace_seconds == 21


async def test_a_lease_acquired_by_another_process_ends_the_process(api: FakeApi) -> None:
    settings = configuration(
        webhooks=False,
        leader_election=LeaderElection(enabled=True, lease_seconds=3, renew_seconds=2, retry_seconds=0.02),
    )
    controller = Controller(settings, api.connection)
    running = asyncio.create_task(controller.run())
    [lease] = await eventually(lambda: api.of("leases"))
    renewed = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {**lease["spec"], "holderIdentity": "another", "renewTime": renewed}
    api.put("/apis/coordination.k8s.io/v1/leases", {**lease, "spec": spec})
    with pytest.raises(TrainyardError, match="leadership was lost"):
        await asyncio.wait_for(running, 5)


async def test_a_port_that_is_taken_is_one_clear_message(api: FakeApi) -> None:
    taken = Listener(host="127.0.0.1", port=api.port)
    with pytest.raises(TrainyardError, match=f"health: cannot listen on 127.0.0.1:{api.port}"):
        await Controller(configuration(webhooks=False).model_copy(update={"health": taken}), api.connection).run()


def test_a_configuration_file_survives_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    written = Configuration(namespace="trainer", workers=4, certificates=(OURS,), webhook=Listener(port=1234))
    path.write_text(written.as_yaml())
    assert Configuration.load(path) == written


def test_a_wrong_configuration_names_every_field(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("workers: 0\nwebhook: {port: 99999}\nunknown: 1\n")
    with pytest.raises(TrainyardError) as refused:
        Configuration.load(path)
    assert {finding.path for finding in refused.value.findings} == {"workers", "webhook.port", "unknown"}


def test_flags_win_over_the_file() -> None:
    found = with_flags(
        Configuration(webhook=Listener(port=1)),
        webhooks=False,
        host="127.0.0.1",
        ports={"webhook": None, "health": 5, "metrics": None},
    )
    assert (found.webhook.host, found.webhook.port, found.health.port, found.metrics.port) == ("127.0.0.1", 1, 5, 8443)
    assert not found.elects
    assert Configuration().elects


def test_users_who_can_grant_the_keys_of_jobs_get_the_command() -> None:
    for user, subject in (
        ("system:serviceaccount:kubeflow-system:a", "serviceaccount=kubeflow-system:a"),
        ("me", "user=me"),
    ):
        refusal = f'secrets is forbidden: User "{user}" cannot create resource "secrets" in API group ""'
        assert (keys_fix("team", refusal) or "").endswith(
            "kubectl create rolebinding kubeflow-trainer-job-keys --namespace=team "
            f"--clusterrole=kubeflow-trainer-job-keys --{subject}"
        )
    assert keys_fix("team", 'secrets "job-mpi-ssh-auth" is forbidden: exceeded quota: tenant') is None


def test_secrets_are_read_and_written_by_name_only_and_nothing_is_a_wildcard() -> None:
    settings = Configuration(
        certificates=(OURS, OURS.model_copy(update={"secret": "other", "namespace": "volcano-system"}))
    )
    assert not [rule for rule in cluster_rules(settings) if "secrets" in rule["resources"]]
    assert key_rules() == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]}]
    for namespace, names in (
        ("kubeflow-system", [SERVING_SECRET, "trainyard-webhook-ca"]),
        ("volcano-system", ["other"]),
    ):
        rules = namespaced_rules(namespace, settings)
        assert [rule["resourceNames"] for rule in rules if "secrets" in rule["resources"]] == [names]
        assert not [rule for rule in (*rules, *cluster_rules(settings)) if "*" in str(rule)]
    assert namespaced_rules("team", settings) == []


async def test_no_metric_is_reported_twice(api: FakeApi) -> None:
    controller = Controller(
        configuration(certificates=(OURS, OURS.model_copy(update={"secret": "other"}))), api.connection
    )
    lines = [line.rpartition(" ")[0] for line in controller._metrics.text().decode().splitlines() if line[0] != "#"]
    assert len(lines) == len(set(lines))
