"""Requests to the webhooks that no API server has sent: from whom, of which shape, how slowly."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from tests.controller.harness import CLUSTER_RUNTIMES, TRAIN_JOBS, TRAINER, runtime, train_job
from tests.controller.test_webhooks import VALIDATE, Body
from tests.controller.webhook_server import LIFE, NOW, SERVER_CA, admission, served, trusting
from tests.kube.fake_api import FakeApi
from tests.render.builders import patch, pod_patch
from trainyard import pki
from trainyard.checks.finding import Finding
from trainyard.controller.configuration import Configuration, WebhookClients
from trainyard.controller.metrics import Metrics
from trainyard.controller.policy_review import PolicyReviewer
from trainyard.controller.review_bodies import BODY_LIMIT, ReviewBodies
from trainyard.controller.serving import ServingCertificate, _file
from trainyard.controller.webhooks import MUTATE_PREFIX, MUTATE_TRAIN_JOB, VALIDATE_PREFIX, Admission, application
from trainyard.kube.store import StoreChange
from trainyard.policy.gate import GateDecision

CLIENT_CA = pki.authority("client", now=NOW, lifetime=LIFE)
CLIENTS = WebhookClients(authority=CLIENT_CA.certificate.decode(), names=("kube-apiserver",))


def certificate(authority: pki.KeyPair = CLIENT_CA, name: str = "kube-apiserver", **usage: bool) -> pki.KeyPair:
    return pki.issue(authority, name, now=NOW, lifetime=LIFE, **({"client": True} | usage))


class Stranger:
    """A client with or without a certificate."""

    def __init__(self, url: str, shown: pki.KeyPair | None = None) -> None:
        self.url = url
        self.trust = trusting()
        if shown is not None:
            with _file(shown.certificate + b"\n" + shown.key) as path:
                self.trust.load_cert_chain(path)

    async def post(self, path: str, data: Any) -> tuple[int, str]:
        connector = aiohttp.TCPConnector(ssl=self.trust)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(self.url + path, data=data) as response,
        ):
            return response.status, await response.text()


@asynccontextmanager
async def listening(
    api: FakeApi, clients: WebhookClients | None, *, redact: bool = True, bodies: ReviewBodies | None = None
) -> AsyncIterator[str]:
    async def report(_: web.Request) -> web.Response:
        return web.Response(text="reported")

    async with admission(api, redact=redact) as handlers:
        app = application(handlers, Metrics(), clients, bodies)
        app.router.add_post("/report", report)
        async with served(app, clients) as url:
            yield url


def review(body: Any, **fields: Any) -> bytes:
    request = {"uid": "1", "operation": "CREATE", "namespace": "team", "name": "job", "object": body, **fields}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def test_only_the_client_certificate_of_the_api_server_gets_an_answer(api: FakeApi) -> None:
    good = review(train_job())
    async with listening(api, CLIENTS) as url:
        assert (await Stranger(url, certificate()).post(VALIDATE, good))[0] == 200
        for shown in (None, certificate(name="tenant")):
            status, text = await Stranger(url, shown).post(VALIDATE, good)
            assert (status, "client certificate" in text) == (403, True)
        for shown in (certificate(SERVER_CA), certificate(client=False, server=True)):
            with pytest.raises(aiohttp.ClientError):
                await Stranger(url, shown).post(VALIDATE, good)


async def test_pods_report_progress_at_the_same_port_without_a_certificate(api: FakeApi) -> None:
    async with listening(api, CLIENTS) as url:
        assert await Stranger(url).post("/report", b"") == (200, "reported")


async def test_any_certificate_of_the_authority_will_do_where_no_name_is_set(api: FakeApi) -> None:
    async with listening(api, CLIENTS.model_copy(update={"names": ()})) as url:
        assert (await Stranger(url, certificate(name="x")).post(VALIDATE, review(train_job())))[0] == 200
        assert (await Stranger(url).post(VALIDATE, review(train_job())))[0] == 403


async def test_metrics_ask_no_client_for_a_certificate_and_webhooks_ask_after_a_renewal_too(api: FakeApi) -> None:
    async with api.client() as client:
        serving = ServingCertificate(client, name="a", namespace="b", clients=CLIENTS)
        assert (serving.context.verify_mode, serving.webhook_context.verify_mode) == (ssl.CERT_NONE, ssl.CERT_OPTIONAL)
        pair = pki.issue(SERVER_CA, "w", now=NOW, lifetime=LIFE, server=True)
        encoded = {
            "tls.crt": base64.b64encode(pair.certificate).decode(),
            "tls.key": base64.b64encode(pair.key).decode(),
        }
        serving._on_change(StoreChange(("b", "a"), None, {"metadata": {}, "data": encoded}))
        assert serving.loaded.is_set()
        assert serving.webhook_context.verify_mode == ssl.CERT_OPTIONAL


def test_the_configuration_keeps_the_clients(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(Configuration(webhook_clients=CLIENTS).as_yaml())
    assert Configuration.load(file).webhook_clients == CLIENTS
    assert "webhookClients" not in Configuration().as_yaml()


def secret_runtime(**spec: Any) -> Body:
    body = {**runtime("secret"), "kind": "TrainingRuntime", "metadata": {"name": "secret", "namespace": "team"}}
    body["spec"] = {**copy.deepcopy(body["spec"]), **spec}
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    jobs.append({**copy.deepcopy(jobs[0]), "name": "hidden-job"})
    del jobs[1]["template"]["metadata"]
    container = jobs[0]["template"]["spec"]["template"]["spec"]
    container["containers"][0]["image"] = "registry.hidden.example/model:7"
    container["containers"].append({"name": "hidden-sidecar", "image": "hidden-sidecar:1"})
    return body


def asking(**spec: Any) -> Body:
    return train_job(runtimeRef={"name": "secret", "kind": "TrainingRuntime"}, **spec)


MISFITS = {
    "a job that the runtime does not have": pod_patch("absent", nodeSelector={"a": "b"}),
    "a container that the runtime does not have": pod_patch("node", containers=[{"name": "absent"}]),
}


@pytest.mark.parametrize("misfit", MISFITS)
async def test_an_answer_to_a_stranger_quotes_no_runtime_of_a_namespace(api: FakeApi, misfit: str) -> None:
    api.put(RUNTIMES, secret_runtime())
    body = asking(runtimePatches=[patch(MISFITS[misfit])])
    texts = {}
    for redact in (False, True):
        async with listening(api, None, redact=redact) as url:
            status, text = await Stranger(url).post(VALIDATE, review(body))
        answer = json.loads(text)["response"]
        assert (status, answer["allowed"]) == (200, False)
        texts[redact] = answer["status"]["message"] + str(answer.get("warnings"))
    assert "the runtime does not fit the job" in texts[True]
    assert "the runtime does not fit the job" not in texts[False]
    assert "hidden" not in texts[True]


async def test_an_invalid_runtime_of_a_namespace_is_not_quoted_either(api: FakeApi) -> None:
    api.put(RUNTIMES, secret_runtime(mlPolicy={"numNodes": "hidden"}))
    async with listening(api, None) as url:
        status, text = await Stranger(url).post(VALIDATE, review(asking()))
    assert status == 200
    assert "the runtime is invalid" in text
    assert "hidden" not in text
    assert "numNodes" not in text


async def test_an_answer_to_a_stranger_quotes_what_is_wrong_with_the_job_itself(api: FakeApi) -> None:
    api.put(RUNTIMES, secret_runtime())
    async with listening(api, None) as url:
        _, text = await Stranger(url).post(VALIDATE, review(asking(runtimePatches=[{"manager": "No Such Manager"}])))
    assert "spec.runtimePatches" in text


async def test_the_deletion_of_a_runtime_names_no_jobs_to_a_stranger(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job("hidden-job", runtimeRef={"name": "torch", "kind": "TrainingRuntime"}))
    deletion = review(None, operation="DELETE", oldObject=runtime("torch") | {"kind": "TrainingRuntime"})
    async with listening(api, None) as url:
        status, text = await Stranger(url).post(f"{VALIDATE_PREFIX}trainingruntime", deletion)
    assert (status, "1 TrainJob references" in text, "hidden" in text) == (200, True, False)


class Quoting:
    """Policies whose findings quote the TenantPolicy of the namespace."""

    async def review(self, *_: object, **__: object) -> GateDecision:
        quoting = Finding("spec.runtimeRef", "queue hidden-queue is full", "use hidden-other", "QUE-001")
        return GateDecision((quoting, quoting), (replace(quoting, rule="QUE-002"),), (quoting,))


@pytest.mark.parametrize("redact", [True, False])
async def test_an_answer_to_a_stranger_names_the_rules_that_a_job_violates_and_quotes_no_tenant_policy(
    api: FakeApi, redact: bool
) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    async with admission(api, policies=cast("PolicyReviewer", Quoting()), redact=redact) as handlers:
        answer = await handlers.validate_train_job({"uid": "1", "namespace": "team", "object": train_job()})
    assert not answer["allowed"]
    for place, rule in (("status", "QUE-001"), ("warnings", "QUE-002"), ("auditAnnotations", "QUE-001")):
        assert str(answer[place]).count(rule) == (1 if redact or place != "status" else 2)
        assert ("hidden" in str(answer[place])) is not redact


GOOD = train_job()
MALFORMED: dict[str, bytes] = {
    "deep": b'{"request":' + b'{"a":' * 2000 + b"1" + b"}" * 2001,
    "no request": b"{}",
    "null": b"null",
    "text": b'"x"',
    "not UTF-8": b'{"request":{"uid":"\xff"}}',
    "half a surrogate": b'{"request":{"uid":"1","object":{"metadata":{"name":"\\ud800"}}}}',
    "uid is a number": review(GOOD, uid=1),
    "user is a text": review(GOOD, userInfo="admin"),
    "user is a number": review(GOOD, userInfo={"username": 1}),
    "groups are a text": review(GOOD, userInfo={"groups": "system:masters"}),
    "namespace is a list": review(GOOD, namespace=[]),
    "name is an object": review(GOOD, name={}),
    "kind is a text": review(GOOD, kind="TrainJob"),
    "options is a list": review(GOOD, options=[]),
    "operation is a number": review(GOOD, operation=1),
    "apiVersion is an object": json.dumps({**json.loads(review(GOOD)), "apiVersion": {}}).encode(),
    "object is null": review(None),
    "object is a text": review("x"),
    "object of another kind": review({**GOOD, "kind": "Pod"}),
    "object without a kind": review({key: value for key, value in GOOD.items() if key != "kind"}),
    "old object is a text": review(GOOD, oldObject="x"),
    "old object has no metadata": review(GOOD, oldObject={"kind": "TrainJob"}),
    "old object is a list": review(GOOD, oldObject=[]),
    **{
        f"{field} of {which} is {value!r}": review(GOOD, **{which: {**GOOD, "metadata": {"name": "a", field: value}}})
        for which in ("object", "oldObject")
        for field, values in {
            "name": (1, {}),
            "namespace": ([],),
            "uid": (1,),
            "resourceVersion": (1,),
            "creationTimestamp": (1,),
            "deletionTimestamp": ({}, 1),
            "labels": ([], "x", {"a": 1}),
            "annotations": ("x", {"a": {}}),
            "finalizers": ("x", [1]),
            "ownerReferences": ({}, ["x"]),
        }.items()
        for value in values
    },
}


async def test_what_no_api_server_sends_gets_400_without_a_trace(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with listening(api, None) as url:
        found = {
            (name, path): await Stranger(url).post(path, data)
            for name, data in MALFORMED.items()
            for path in (VALIDATE, MUTATE_TRAIN_JOB)
        }
        for kind in ("trainingruntime", "clustertrainingruntime"):
            for prefix in (VALIDATE_PREFIX, MUTATE_PREFIX):
                found["a job", prefix + kind] = await Stranger(url).post(prefix + kind, review(GOOD))
    assert {key: status for key, (status, _) in found.items() if status != 400} == {}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_name_with_a_line_feed_stays_in_one_line_of_the_log(
    api: FakeApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Admission, "validate_train_job", fail)
    async with listening(api, None) as url:
        status, text = await Stranger(url).post(VALIDATE, review(GOOD, name="a\nFORGED \x1b[31m"))
    assert (status, json.loads(text)["response"]["status"]["code"]) == (200, 500)
    (record,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert "\n" not in record.getMessage()
    assert "\x1b" not in record.getMessage()


async def test_a_body_that_does_not_arrive_ends_its_connection(api: FakeApi) -> None:
    async with listening(api, None, bodies=ReviewBodies(0.1)) as url:
        trust = Stranger(url).trust
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=trust)
        writer.write(f"POST {VALIDATE} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{".encode())
        answer = await asyncio.wait_for(reader.read(), 15)
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_bodies_are_bounded_together_and_have_a_length(api: FakeApi) -> None:
    good = review(GOOD)
    async with listening(api, None, bodies=ReviewBodies(10, 2 * len(good) - 1)) as url:
        trust = Stranger(url).trust
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=trust)
        writer.write(f"POST {VALIDATE} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(good)}\r\n\r\n{{".encode())
        await writer.drain()
        for _ in range(100):
            if (status := (await Stranger(url).post(VALIDATE, good))[0]) != 200:
                break
            await asyncio.sleep(0.01)
        assert status == 503
        writer.close()
        for _ in range(100):
            if (status := (await Stranger(url).post(VALIDATE, good))[0]) == 200:
                break
            await asyncio.sleep(0.01)
        assert status == 200

        async def parts() -> AsyncIterator[bytes]:
            yield good

        assert (await Stranger(url).post(VALIDATE, parts()))[0] == 411
    async with listening(api, None) as url:
        assert (await Stranger(url).post(VALIDATE, b" " * (BODY_LIMIT + 1)))[0] == 413


RUNTIMES = f"{TRAINER}/trainingruntimes"
