"""Webhook certificates and their authority are replaced under load, and no TrainJob is rejected meanwhile."""

from __future__ import annotations

import base64
import datetime
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509

from tests.faults.bench import HOME, Api, Bench, grant
from tests.faults.clock import Clock
from tests.faults.conftest import Launch
from tests.faults.scene import Scene
from tests.support import awaited, repeated
from trainyard.controller.configuration import CERTIFICATE_AUTHORITY_SECRET, SERVING_SECRET, Certificate, Configuration
from trainyard.controller.webhooks import MUTATE_TRAIN_JOB, VALIDATE_PREFIX
from trainyard.kube.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import TRAIN_JOBS

pytestmark = pytest.mark.cluster
DAY = 86_400
NAME = "rotation"
KINDS = ((MUTATING_WEBHOOKS, MUTATE_TRAIN_JOB), (VALIDATING_WEBHOOKS, f"{VALIDATE_PREFIX}trainjob"))


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def webhooks(control_plane: Bench, scene: Scene, port: int) -> Iterator[dict[str, Any]]:
    """Point the API server at a controller, for one namespace; yields the controller's configuration."""
    certificate = Certificate(
        secret=SERVING_SECRET,
        namespace=HOME,
        ip_addresses=("127.0.0.1",),
        mutating_webhook_configurations=(NAME,),
        validating_webhook_configurations=(NAME,),
    )
    grant(control_plane.api, Configuration(namespace=HOME, certificates=(certificate,)))
    without_secrets(control_plane.api)  # other tests serve webhooks too
    for kind, path in KINDS:
        control_plane.api.create(kind, webhook(kind, f"https://127.0.0.1:{port}{path}", scene.namespace))
    try:
        yield {"certificates": [certificate.model_dump(by_alias=True, mode="json")]}
    finally:
        for kind, _ in KINDS:
            control_plane.api.delete(kind, NAME)
        without_secrets(control_plane.api)


def without_secrets(api: Api) -> None:
    for name in (SERVING_SECRET, CERTIFICATE_AUTHORITY_SECRET):
        api.delete(SECRETS, name, HOME)


def webhook(kind: Resource, url: str, namespace: str) -> dict[str, Any]:
    rule = {"apiGroups": [TRAIN_JOBS.group], "apiVersions": ["*"], "operations": ["*"], "resources": ["trainjobs"]}
    entry = {
        "name": f"{NAME}.trainyard.dev",
        "clientConfig": {"url": url},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": NAME}, "webhooks": [entry]}


def certificate(api: Api, secret: str) -> x509.Certificate | None:
    body = api.get(SECRETS, secret, HOME)
    return None if body is None else x509.load_pem_x509_certificate(base64.b64decode(body["data"]["tls.crt"]))


def reread(api: Api, secret: str) -> None:
    """Wake the loop that keeps a Secret: the clock that was moved wakes nothing."""
    api.patch(SECRETS, secret, HOME, {"metadata": {"annotations": {"faults.trainyard.dev/read": str(time.time())}}})


def served(port: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode())


def submit(scene: Scene) -> str:
    """Submit a TrainJob (dry run) and return what the API server answered."""
    body = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": "submitted", "namespace": scene.namespace},
        "spec": {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime"}},
    }
    answer = scene.api.session.request("POST", TRAIN_JOBS.path(namespace=scene.namespace), body, dry_run=True)
    return "accepted" if answer.ok else answer.message


def more(answers: list[str], number: int = 20) -> None:
    """Wait for further answers."""
    wanted = len(answers) + number
    awaited("further answers", lambda: len(answers) >= wanted)


def test_a_rotation_of_the_certificate_and_of_its_authority_rejects_no_request(
    scene: Scene, launch: Launch, clock: Clock, webhooks: dict[str, Any], port: int
) -> None:
    api = scene.api
    scene.runtime()
    clock.jump(-500 * DAY)
    launch(modules=clock.modules, configuration=webhooks, arguments=("--webhook-port", str(port)))
    first, authority = certificate(api, SERVING_SECRET), certificate(api, CERTIFICATE_AUTHORITY_SECRET)
    assert first is not None
    assert authority is not None
    assert first.not_valid_after_utc < datetime.datetime.now(datetime.UTC)

    # The serving certificate is due, its authority not yet.
    clock.jump(-20 * DAY)
    reread(api, SERVING_SECRET)
    second = awaited("another certificate", lambda: another(api, SERVING_SECRET, first))
    second.verify_directly_issued_by(authority)
    awaited("the certificate that is served", lambda: served(port) == second)

    with repeated(lambda: submit(scene)) as answers:
        awaited("a TrainJob that is accepted", lambda: "accepted" in answers)
        before = len(answers)
        # The authority is due: its successor is announced first, and signs when API servers have learned of it.
        clock.jump(0)
        reread(api, CERTIFICATE_AUTHORITY_SECRET)
        successor = awaited("another authority", lambda: another(api, CERTIFICATE_AUTHORITY_SECRET, authority))
        more(answers)
        assert certificate(api, SERVING_SECRET) == second
        clock.jump(120)
        reread(api, SERVING_SECRET)
        third = awaited("a certificate of the new authority", lambda: another(api, SERVING_SECRET, second))
        third.verify_directly_issued_by(successor)
        awaited("the certificate that is served", lambda: served(port) == third)
        more(answers)
    assert set(answers[before:]) == {"accepted"}


def another(api: Api, secret: str, former: x509.Certificate) -> x509.Certificate | None:
    found = certificate(api, secret)
    return None if found == former else found
