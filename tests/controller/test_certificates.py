from __future__ import annotations

import asyncio
import base64
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from tests.controller.harness import Clock, existing, refusing
from tests.kube.fake_api import FakeApi, error, eventually
from tests.support import own_records
from trainyard import pki
from trainyard.controller.certificate_controller import CertificateController
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration
from trainyard.controller.metrics import Metrics
from trainyard.controller.serving import ServingCertificate
from trainyard.kube.backoff import Backoff

SECRETS, NAMESPACES = "/api/v1/secrets", "/api/v1/namespaces"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
OURS = Certificate(
    secret=SERVING_SECRET,
    namespace="kubeflow-system",
    dns_names=("trainer.kubeflow-system.svc",),
    ip_addresses=("127.0.0.1",),
    validating_webhook_configurations=("validator.trainer.kubeflow.org",),
)
VOLCANO = Certificate(
    secret="volcano-admission-secret",
    namespace="volcano-system",
    dns_names=("volcano.volcano-system.svc",),
    mutating_webhook_configurations=("volcano-mutate",),
)


class Issuing:
    def __init__(self, api: FakeApi, issuer: CertificateController, clock: Clock, metrics: Metrics) -> None:
        self.api, self.issuer, self.clock, self.metrics = api, issuer, clock, metrics

    def failing(self, certificate: Certificate) -> float | None:
        labels = {"secret": f"{certificate.namespace}/{certificate.secret}"}
        return self.metrics.registry.get_sample_value("trainyard_webhook_certificate_failing", labels)

    def data(self, certificate: Certificate = OURS) -> dict[str, bytes]:
        body = self.api.find("secrets", certificate.secret, certificate.namespace)
        return {key: base64.b64decode(value) for key, value in body["data"].items()} if body else {}

    def authority(self) -> dict[str, bytes]:
        body = self.api.find("secrets", "trainyard-webhook-ca", "kubeflow-system")
        return {key: base64.b64decode(value) for key, value in body["data"].items()} if body else {}

    async def pass_time(self, **time: float) -> None:
        """Let time pass and the issuer look; its informers are current first."""
        self.clock.now += datetime.timedelta(**time)
        await self.current()
        for loop in self.issuer.loops:
            loop.changed.set()
        await self.idle()
        await self.current()

    async def idle(self) -> None:
        """Wait until every loop waits for its time."""
        await eventually(lambda: all(loop.due and not loop.changed.is_set() for loop in self.issuer.loops))

    async def current(self) -> None:
        await eventually(
            lambda: all(i.store.observed >= self.api.last.get(i.resource.path(), 0) for i in self.issuer.informers)
        )


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def webhooks(name: str, count: int = 1) -> dict[str, Any]:
    entries = [{"name": f"w{index}.{name}", "clientConfig": {"url": "https://127.0.0.1:1/x"}} for index in range(count)]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "W",
        "metadata": {"name": name},
        "webhooks": entries,
    }


def trusted(api: FakeApi, plural: str, name: str) -> list[bytes]:
    body = existing(api, plural, name)
    return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in body["webhooks"]]


@asynccontextmanager
async def issuing(
    api: FakeApi, clock: Clock | None = None, *certificates: Certificate, sync_timeout: float = 30.0
) -> AsyncIterator[Issuing]:
    configuration = Configuration(certificates=certificates or (OURS, VOLCANO))
    clock = clock or Clock()
    async with api.client() as client:
        metrics = Metrics()
        issuer = CertificateController(
            client, configuration, metrics, clock=clock, backoff=lambda: Backoff(0.005, 0.02), sync_timeout=sync_timeout
        )
        for informer in issuer.informers:
            informer._backoff = Backoff(0.005, 0.02)
        task = asyncio.create_task(issuer.run())
        try:
            await eventually(lambda: all(loop.due for loop in issuer.loops))
            yield Issuing(api, issuer, clock, metrics)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def issued_by(certificate: bytes, authority: bytes) -> bool:
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except Exception:
        return False
    return True


async def test_secrets_and_bundles_are_made_as_namespaces_and_webhooks_appear(api: FakeApi) -> None:
    async with issuing(api) as state:
        assert api.writes == []
        api.put(NAMESPACES, namespace("kubeflow-system"))
        await eventually(lambda: state.data())
        api.put(VALIDATING, webhooks("validator.trainer.kubeflow.org", 3))
        bundle = state.authority()["ca.crt"]
        plural = "validatingwebhookconfigurations"
        await eventually(lambda: trusted(api, plural, "validator.trainer.kubeflow.org") == [bundle] * 3, within=1)
        assert state.data(VOLCANO) == {}
        api.put(NAMESPACES, namespace("volcano-system"))
        await eventually(lambda: state.data(VOLCANO))
        assert set(state.data(VOLCANO)) == {"tls.crt", "tls.key", "ca.crt"}
        assert issued_by(state.data(VOLCANO)["tls.crt"], state.authority()["tls.crt"])
        writes = len(api.writes)
        await state.pass_time(hours=1)
        assert len(api.writes) == writes


async def test_a_removed_bundle_is_restored(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    name = "validator.trainer.kubeflow.org"
    api.put(VALIDATING, webhooks(name))
    async with issuing(api) as state:
        await eventually(lambda: state.data() and trusted(api, "validatingwebhookconfigurations", name)[0])
        await state.current()
        api.put(VALIDATING, webhooks(name))
        await eventually(lambda: trusted(api, "validatingwebhookconfigurations", name)[0], within=1)


async def test_certificates_are_renewed_after_two_thirds_of_their_life(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        first = state.data()
        await state.pass_time(days=59)
        assert state.data() == first
        await state.pass_time(days=2)
        second = state.data()
        assert second["tls.crt"] != first["tls.crt"]
        assert second["ca.crt"] == first["ca.crt"]
        assert pki.expires(second["tls.crt"]) > pki.expires(first["tls.crt"])


async def test_a_new_authority_is_announced_before_it_is_used_and_the_old_one_stays_until_it_expires(
    api: FakeApi,
) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    name = "validator.trainer.kubeflow.org"
    api.put(VALIDATING, webhooks(name))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data() and trusted(api, "validatingwebhookconfigurations", name)[0])
        old, leaf = state.authority()["tls.crt"], state.data()["tls.crt"]
        start = len(api.writes)
        await state.pass_time(days=490)
        new = state.authority()["tls.crt"]
        assert new != old
        assert issued_by(state.data()["tls.crt"], new)
        assert state.data()["tls.crt"] != leaf
        assert state.data()["ca.crt"] == trusted(api, "validatingwebhookconfigurations", name)[0] == new + old
        paths = [path.rsplit("/", 1)[-1] for _, path in api.writes[start:]]
        assert paths == ["trainyard-webhook-ca", name, SERVING_SECRET]
        await state.pass_time(days=250)
        assert old not in state.data()["ca.crt"]
        assert trusted(api, "validatingwebhookconfigurations", name) == [new]


async def test_a_webhook_server_gets_a_certificate_of_a_new_authority_when_api_servers_have_learned_of_it(
    api: FakeApi,
) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        for _ in range(8):
            await state.pass_time(days=60)
        old, leaf = state.authority()["tls.crt"], state.data()["tls.crt"]
        await state.pass_time(days=10)
        new = state.authority()["tls.crt"]
        assert new != old
        assert (state.data()["tls.crt"], state.data()["ca.crt"]) == (leaf, new + old)
        await state.pass_time(seconds=50)
        assert state.data()["tls.crt"] == leaf
        assert state.issuer.loops[1].due == state.clock.now + datetime.timedelta(seconds=10)
        await state.pass_time(seconds=10)
        assert issued_by(state.data()["tls.crt"], new)


async def test_killed_between_any_two_writes_of_a_rotation_the_next_leader_completes_it(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    name = "validator.trainer.kubeflow.org"
    api.put(VALIDATING, webhooks(name))
    clock = Clock()
    async with issuing(api, clock, OURS) as state:
        await eventually(lambda: state.data() and trusted(api, "validatingwebhookconfigurations", name)[0])
    for _ in range(3):
        clock.now += datetime.timedelta(days=490)
        for _ in range(3):
            count = len(api.writes)

            def stop(fake: FakeApi, request: Any, *, limit: int = count + 1) -> Any:
                refused = request.method != "GET" and len(fake.writes) >= limit
                return error(503, "ServiceUnavailable", "") if refused else None

            api.fault = stop
            async with issuing(api, clock, OURS) as state:
                await eventually(lambda count=count: len(api.writes) > count)
                bundle = trusted(api, "validatingwebhookconfigurations", name)[0]
                assert any(issued_by(state.data()["tls.crt"], pem) for pem in pems(bundle)), "the API server lost trust"
        api.fault = None
        async with issuing(api, clock, OURS) as state:
            await state.pass_time(hours=0)
            assert issued_by(state.data()["tls.crt"], state.authority()["tls.crt"])
            assert state.data()["ca.crt"] == trusted(api, "validatingwebhookconfigurations", name)[0]


def pems(bundle: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----\n"
    return [part + end for part in bundle.split(end) if part.strip()]


@pytest.mark.parametrize(
    "refused",
    [
        "/api/v1/namespaces/volcano-system/secrets",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/volcano-mutate",
    ],
)
async def test_what_rejects_one_certificate_keeps_no_other_from_being_made(
    api: FakeApi, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    for home in (OURS.namespace, VOLCANO.namespace):
        api.put(NAMESPACES, namespace(home))
    api.put(VALIDATING, webhooks("validator.trainer.kubeflow.org"))
    api.put(MUTATING, webhooks("volcano-mutate"))
    whole = refused in (MUTATING, "/api/v1/namespaces/volcano-system/secrets")

    def forbid(fake: FakeApi, request: Any) -> Any:
        hit = request.path.startswith(refused) if whole else request.path == refused and request.method != "GET"
        return error(403, "Forbidden", "no Role allows this") if hit else None

    api.fault = forbid
    async with issuing(api, None, VOLCANO, OURS, sync_timeout=0.2) as state:
        await eventually(
            lambda: (
                state.data() and trusted(api, "validatingwebhookconfigurations", "validator.trainer.kubeflow.org")[0]
            )
        )
        await eventually(lambda: state.failing(VOLCANO))
        assert state.failing(OURS) == 0
        assert "volcano-system/volcano-admission-secret: 403 Forbidden: no Role allows this; retry in" in caplog.text
        assert not any(record.exc_info for record in own_records(caplog))
        api.fault = None
        await eventually(
            lambda: state.data(VOLCANO) and trusted(api, "mutatingwebhookconfigurations", "volcano-mutate")[0]
        )
        await eventually(lambda: state.failing(VOLCANO) == 0)


async def test_while_a_bundle_is_rejected_the_certificate_stays_until_it_expires(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    name = "validator.trainer.kubeflow.org"
    api.put(VALIDATING, webhooks(name))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data() and trusted(api, "validatingwebhookconfigurations", name)[0])
        for _ in range(8):
            await state.pass_time(days=60)
        old, leaf = state.authority()["tls.crt"], state.data()["tls.crt"]

        api.fault = refusing("PATCH", name, 403, "Forbidden", "")
        await state.pass_time(days=10)
        await state.pass_time(days=70)
        assert state.authority()["tls.crt"] != old
        assert (state.data()["tls.crt"], state.failing(OURS)) == (leaf, 1)
        await state.pass_time(days=15)
        assert issued_by(state.data()["tls.crt"], state.authority()["tls.crt"])
        assert state.failing(OURS) == 1
        api.fault = None
        await eventually(
            lambda: state.authority()["tls.crt"] in trusted(api, "validatingwebhookconfigurations", name)[0]
        )


async def test_a_secret_that_appears_between_reading_and_writing_is_not_overwritten_unread(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    forced: list[tuple[str, bool]] = []

    def note(fake: FakeApi, request: Any) -> None:
        if request.method == "PATCH" and "/secrets/" in request.path:
            forced.append((request.path.rsplit("/", 1)[-1], request.query["force"] == "true"))

    api.fault = note
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        await state.pass_time(days=61)
    assert forced == [("trainyard-webhook-ca", False), (SERVING_SECRET, False), (SERVING_SECRET, True)]


async def test_of_two_leaders_at_a_time_only_one_creates_the_authority(api: FakeApi) -> None:
    """A first write that is delayed beyond the lease does not replace the Secret of the next leader."""
    labels = {"secret": "kubeflow-system/trainyard-webhook-ca"}
    async with issuing(api, None, OURS) as former, issuing(api, None, OURS) as next_leader:

        def failing() -> int:
            name = "trainyard_webhook_certificate_failing"
            both = (state.metrics.registry.get_sample_value(name, labels) for state in (former, next_leader))
            return sum(int(value or 0) for value in both)

        api.freeze_watches(SECRETS)
        api.put(NAMESPACES, namespace("kubeflow-system"))
        await eventually(lambda: former.authority() and failing() == 1)
        api.thaw_watches()
        await eventually(lambda: failing() == 0)
        await eventually(lambda: former.data())
    written = [kind for _, kind, _, body in api.log if body["metadata"]["name"] == "trainyard-webhook-ca"]
    assert written == ["ADDED"]


async def test_a_renewal_takes_the_certificate_back_and_leaves_what_else_another_manager_wrote(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        body = existing(api, "secrets", OURS.secret, OURS.namespace)
        labels = {**body["metadata"]["labels"], "theirs": "yes"}
        theirs = {"metadata": {**body["metadata"], "labels": labels}, "data": {**body["data"], "tls.crt": "eA=="}}
        api.put(SECRETS, {**body, **theirs})
        await eventually(lambda: state.data()["tls.crt"] != b"x")
        renewed = existing(api, "secrets", OURS.secret, OURS.namespace)
        owners = api.owners("secrets", OURS.secret, OURS.namespace)
    assert renewed["metadata"]["labels"]["theirs"] == "yes"
    assert owners["another client Update"] == {"metadata.labels.theirs"}
    assert "data.tls.crt" in owners["trainyard-controller Apply"]


async def test_changed_names_and_broken_secrets_lead_to_a_new_certificate(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        first = state.data()
    async with issuing(api, None, OURS.model_copy(update={"dns_names": ("other.svc",)})) as state:
        await eventually(lambda: state.data()["tls.crt"] != first["tls.crt"])
        await state.current()
        body = existing(api, "secrets", OURS.secret, OURS.namespace)
        api.put(SECRETS, {**body, "data": {"tls.crt": "bm90IGEgY2VydA==", "tls.key": ""}})
        await eventually(lambda: b"BEGIN CERTIFICATE" in state.data()["tls.crt"])


def unreadable_names(authority: pki.KeyPair, now: datetime.datetime) -> pki.KeyPair:
    """Return a certificate whose subject alternative names are no DER at all."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=90))
    builder = builder.add_extension(x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"?"), False)
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return pki.KeyPair(certificate, key.private_bytes(serialization.Encoding.PEM, *form))


async def test_a_certificate_that_cannot_be_understood_is_replaced(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
        await state.current()
        authority = state.authority()
        pair = unreadable_names(pki.KeyPair(authority["tls.crt"], authority["tls.key"]), state.clock.now)
        body = existing(api, "secrets", OURS.secret, OURS.namespace)
        data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
        api.put(SECRETS, {**body, "data": data})
        await eventually(lambda: state.data()["tls.crt"] != pair.certificate, within=2)
        await state.idle()
        assert state.failing(OURS) == 0


async def test_the_type_of_an_existing_secret_is_kept(api: FakeApi) -> None:
    api.put(NAMESPACES, namespace("kubeflow-system"))
    metadata = {"name": OURS.secret, "namespace": OURS.namespace}
    api.put(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": {}}
    )
    async with issuing(api, None, OURS) as state:
        await eventually(lambda: state.data())
    assert api.find("secrets", OURS.secret, OURS.namespace)["type"] == "kubernetes.io/tls"  # type: ignore[index]


async def test_every_replica_switches_to_the_current_certificate_without_a_restart(api: FakeApi) -> None:
    now, life = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    ca = pki.authority("ca", now=now, lifetime=life)

    def store(name: str) -> None:
        pair = pki.issue(ca, name, now=now, lifetime=life, dns_names=[name], server=True)
        data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
        metadata = {"name": "cert", "namespace": "ns"}
        api.put(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    async with api.client() as client:
        serving = ServingCertificate(client, name="cert", namespace="ns")
        task = asyncio.create_task(serving.informer.run())
        store("one.svc")
        await asyncio.wait_for(serving.loaded.wait(), 5)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=serving.context)
        port = server.sockets[0].getsockname()[1]
        trust = ssl.create_default_context(cadata=ca.certificate.decode())

        async def serves(name: str) -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
            except ssl.SSLCertVerificationError:
                return False
            writer.close()
            return True

        assert await serves("one.svc")
        store("two.svc")
        async with asyncio.timeout(5):
            while not await serves("two.svc"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        body = existing(api, "secrets", "cert", "ns")
        api.put(SECRETS, {**body, "data": {"tls.crt": "", "tls.key": ""}})
        await asyncio.sleep(0.05)
        assert await serves("two.svc")
        server.close()
        task.cancel()
