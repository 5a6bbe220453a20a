"""The controller's webhooks on a live platform: the API server shows its certificate, others get no answer."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.jobs import train_job
from tests.support import LiveCluster, require

pytestmark = pytest.mark.cluster

NAMESPACE = "vision"


def post(url: str, authority: str, body: object, shown: Path | None) -> tuple[int, str]:
    context = ssl.create_default_context(cadata=authority)
    if shown is not None:
        context.load_cert_chain(shown, shown.with_suffix(".key"))
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_the_api_server_gets_answers_of_the_webhooks(platform: LiveCluster) -> None:
    job = train_job("asked", NAMESPACE, "torch-distributed-gang")
    require(platform.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(job)))
    found = platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")["webhooks"]
    config = next(each["clientConfig"] for each in found if each["name"].startswith("validator.trainjob."))
    authority = base64.b64decode(config["caBundle"]).decode()
    request = {"uid": "1", "operation": "CREATE", "namespace": NAMESPACE, "name": "asked", "object": job}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    pki = Path(platform.env["TRAINYARD_STATE_HOME"]) / "clusters" / "platform" / "pki"
    status, text = post(config["url"], authority, review, pki / "webhook-client.crt")
    assert (status, json.loads(text)["response"]["uid"]) == (200, "1")
    status, text = post(config["url"], authority, review, None)
    assert (status, "client certificate" in text) == (403, True)
    with pytest.raises(OSError):  # noqa: PT011 - the handshake ends in one of several ways
        post(config["url"], authority, review, pki / "admin.crt")
