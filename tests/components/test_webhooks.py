"""Objects that webhooks review are made once the API server reaches the webhooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from components.hooks import base
from components.hooks.webhooks import WebhookReadinessHook
from tests.kube.fake_api import FakeApi, error, serving
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES
from trainyard.local.cluster.provider import ClusterAccess

UNTRUSTED = (
    'failed calling webhook "validator.example.com": failed to call webhook: Post "https://127.0.0.1:1/validate": '
    "tls: failed to verify certificate: x509: certificate signed by unknown authority"
)


async def asked(*answers: web.Response) -> list[tuple[str, str]]:
    """Prepare against an API server that gives these answers, the last one from then on; return the requests."""
    left = list(answers)

    def fault(api: FakeApi, request: web.Request) -> web.Response:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=answer.status, body=answer.body, content_type="application/json")

    sample = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "metadata": {"name": "torch"}}
    waiting = WebhookReadinessHook(ClusterAccess("c", Path("/none")), CLUSTER_TRAINING_RUNTIMES, sample)
    async with serving(FakeApi()) as api, api.client() as client:
        api.fault = fault
        await waiting.prepare(client)
        return api.requests


def untrusted() -> web.Response:
    return error(500, "InternalError", UNTRUSTED)


async def test_an_api_server_that_does_not_trust_a_webhook_yet_is_asked_again_and_nothing_is_written() -> None:
    requests = await asked(untrusted(), untrusted(), web.json_response({}))
    assert len(requests) == 3
    assert all(method == "PATCH" and "dryRun=All" in path for method, path in requests)


async def test_what_a_webhook_refuses_is_left_to_the_object_itself() -> None:
    assert len(await asked(untrusted(), error(403, "Forbidden", "denied the request"))) == 2


async def test_a_webhook_that_never_answers_is_not_awaited_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LAG_SECONDS", 0.3)
    assert 2 <= len(await asked(untrusted())) <= 4
