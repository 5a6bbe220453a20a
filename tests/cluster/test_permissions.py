"""What the controller's ServiceAccount may do on a real API server, and which priority its requests have there."""

from __future__ import annotations

import asyncio
import base64
import copy
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from components.common.flow_control import flow_schemas, priority_levels
from components.common.rbac import cluster_role, cluster_role_binding, role, role_binding, service_account_subject
from tests.compatibility import servers
from tests.kube.fake_api import eventually
from trainyard.controller.certificate_controller import CertificateController
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration
from trainyard.controller.metrics import Metrics
from trainyard.controller.permissions import KEYS_ROLE, cluster_rules, key_rules, keys_fix, namespaced_rules
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    JOBS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube.resource import Resource

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
HOME, VOLCANO, TENANT, OTHER = "kubeflow-system", "volcano-system", "team", "other"
ACCOUNT = "kubeflow-trainer-controller-manager"
WEBHOOKS = "validator.trainer.kubeflow.org"
OWN = Certificate(
    secret=SERVING_SECRET, namespace=HOME, dns_names=("trainer.svc",), validating_webhook_configurations=(WEBHOOKS,)
)
FOREIGN = Certificate(secret="volcano-admission-secret", namespace=VOLCANO, dns_names=("volcano.svc",))
SETTINGS = Configuration(namespace=HOME, certificates=(FOREIGN, OWN))
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("permissions")) as running:
        asyncio.run(install(running))
        yield running


async def install(server: servers.Server) -> None:
    subjects = [service_account_subject(ACCOUNT, HOME)]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": HOME}}
    webhook = {
        "name": "trainjob.trainer.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/validate"},
        "sideEffects": "None",
    }
    metadata = {"name": WEBHOOKS}
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata, "webhooks": [webhook],
    }  # fmt: skip
    objects: list[tuple[Resource, Body]] = [
        *((NAMESPACES, namespace(name)) for name in (HOME, VOLCANO, TENANT, OTHER)),
        (SERVICE_ACCOUNTS, account),
        (CLUSTER_ROLES, cluster_role(ACCOUNT, cluster_rules(SETTINGS))),
        (CLUSTER_ROLES, cluster_role(KEYS_ROLE, key_rules())),
        (CLUSTER_ROLE_BINDINGS, cluster_role_binding(ACCOUNT, ACCOUNT, subjects)),
        (ROLES, role(ACCOUNT, HOME, namespaced_rules(HOME, SETTINGS))),
        (BINDINGS, role_binding(ACCOUNT, HOME, subjects)),
        (BINDINGS, role_binding(KEYS_ROLE, TENANT, subjects, kind="ClusterRole")),
        *((LEVELS, level) for level in priority_levels()),
        *((FLOW_SCHEMAS, schema) for schema in flow_schemas(ACCOUNT, HOME)),
        (VALIDATING_WEBHOOKS, configuration),
    ]
    async with server.client() as client:
        for resource, body in objects:
            await client.apply(resource, body, field_manager="test")


def namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def kubeconfig(server: servers.Server, folder: Path) -> Path:
    """Return a kubeconfig of the controller's ServiceAccount."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    async with server.client() as client:
        answer = await client.create_subresource(SERVICE_ACCOUNTS, ACCOUNT, "token", body, namespace=HOME)
    document = copy.deepcopy(yaml.safe_load(server.kubeconfig.read_text()))
    for user in document["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def key_secret(home: str) -> Body:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "uid": "0b5d", "controller": True}
    metadata = {"name": "job-mpi-ssh-auth", "namespace": home, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "stringData": {"key": "x"}}


async def test_keys_are_made_and_their_owner_is_read_only_where_the_namespace_grants_it(
    server: servers.Server, tmp_path: Path
) -> None:
    async with Client.from_kubeconfig(await kubeconfig(server, tmp_path)) as controller, server.client() as admin:
        made = await controller.create(SECRETS, key_secret(TENANT))
        with pytest.raises(ApiError) as again:
            await controller.create(SECRETS, key_secret(TENANT))
        assert (again.value.status, again.value.reason) == (409, "AlreadyExists")
        held = await controller.find_confirmed(SECRETS, "job-mpi-ssh-auth", namespace=TENANT, metadata_only=True)
        assert held is not None
        assert (held["metadata"]["uid"], held["metadata"]["ownerReferences"][0]["uid"]) == (
            made["metadata"]["uid"],
            "0b5d",
        )
        assert "data" not in held
        assert (
            await controller.find_confirmed(SECRETS, "other-mpi-ssh-auth", namespace=TENANT, metadata_only=True) is None
        )
        await admin.create(SECRETS, key_secret(OTHER))
        for attempt in (
            controller.create(SECRETS, key_secret(OTHER)),
            controller.find_confirmed(SECRETS, "job-mpi-ssh-auth", namespace=OTHER, metadata_only=True),
            controller.find(SECRETS, "any", namespace="kube-system"),
            controller.list(SECRETS),
            controller.list(SECRETS, namespace=TENANT),
            controller.delete(SECRETS, "job-mpi-ssh-auth", namespace=TENANT),
            controller.merge_patch(SECRETS, "job-mpi-ssh-auth", {"metadata": {"labels": {"a": "b"}}}, namespace=TENANT),
        ):
            with pytest.raises(ApiError) as refused:
                await attempt
            assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
            fix = keys_fix(OTHER, refused.value.message)
            assert fix is not None
            assert fix.endswith(f" --serviceaccount={HOME}:{ACCOUNT}")


async def test_jobs_are_validated_by_a_dry_run_and_not_created_otherwise_than_by_job_sets(
    server: servers.Server, tmp_path: Path
) -> None:
    container = {"name": "node", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod = {"containers": [container], "restartPolicy": "Never"}
    metadata = {"name": "job-node-0", "namespace": TENANT}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
    async with Client.from_kubeconfig(await kubeconfig(server, tmp_path)) as controller, server.client() as admin:
        with pytest.raises(ApiError) as refused:
            await controller.create(JOBS, body, dry_run=True)
        path = "spec.template.spec.containers[0].volumeMounts[0].name"
        assert refused.value.fields == ((path, 'Not found: "data"', "FieldValueNotFound"),)
        del container["volumeMounts"]
        await controller.create(JOBS, body, dry_run=True)
        assert await admin.list(JOBS) == []
        for verb in (controller.list(JOBS), controller.delete(JOBS, "job-node-0", namespace=TENANT)):
            with pytest.raises(ApiError) as forbidden:
                await verb
            assert forbidden.value.status == 403


async def test_a_namespace_without_the_role_keeps_no_other_certificate_from_being_made(
    server: servers.Server, tmp_path: Path
) -> None:
    metrics = Metrics()
    subjects = [service_account_subject(ACCOUNT, HOME)]

    async def data(client: Client, entry: Certificate) -> dict[str, bytes]:
        body = await client.find(SECRETS, entry.secret, namespace=entry.namespace) or {}
        return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}

    def failing(entry: Certificate) -> float | None:
        labels = {"secret": f"{entry.namespace}/{entry.secret}"}
        return metrics.registry.get_sample_value("trainyard_webhook_certificate_failing", labels)

    async with Client.from_kubeconfig(await kubeconfig(server, tmp_path)) as controller, server.client() as admin:
        issuer = CertificateController(controller, SETTINGS, metrics, sync_timeout=1)
        running = asyncio.create_task(issuer.run())
        own, foreign = issuer.loops[1:]
        await eventually(lambda: own.due and foreign.due and failing(FOREIGN))
        assert failing(OWN) == 0
        bundle = (await data(admin, OWN))["ca.crt"]
        stored = await admin.get(VALIDATING_WEBHOOKS, WEBHOOKS)
        assert base64.b64decode(stored["webhooks"][0]["clientConfig"]["caBundle"]) == bundle
        await admin.apply(ROLES, role(ACCOUNT, VOLCANO, namespaced_rules(VOLCANO, SETTINGS)), field_manager="test")
        await admin.apply(BINDINGS, role_binding(ACCOUNT, VOLCANO, subjects), field_manager="test")
        await eventually(lambda: failing(FOREIGN) == 0, within=60)
        assert (await data(admin, FOREIGN))["ca.crt"] == bundle

        spoiled = await admin.get(SECRETS, OWN.secret, namespace=HOME)
        await admin.replace(SECRETS, {**spoiled, "data": {**spoiled["data"], "tls.crt": "", "tls.key": ""}})
        async with asyncio.timeout(20):
            while b"CERTIFICATE" not in (await data(admin, OWN))["tls.crt"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_lease_and_the_other_requests_have_the_priority_that_is_declared(
    server: servers.Server, tmp_path: Path
) -> None:
    document = yaml.safe_load((await kubeconfig(server, tmp_path)).read_text())
    [cluster], [user] = document["clusters"], document["users"]
    authority = ssl.create_default_context(
        cadata=base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    )
    async with server.client() as admin:
        schemas = {body["metadata"]["uid"]: body["metadata"]["name"] for body in await admin.list(FLOW_SCHEMAS)}
        levels = {body["metadata"]["uid"]: body["metadata"]["name"] for body in await admin.list(LEVELS)}
    headers = {"Authorization": f"Bearer {user['user']['token']}"}

    async def priority(session: aiohttp.ClientSession, path: str) -> tuple[str, str]:
        async with session.get(cluster["cluster"]["server"] + path, ssl=authority) as response:
            uids = (response.headers[f"X-Kubernetes-PF-{name}-UID"] for name in ("FlowSchema", "PriorityLevel"))
            schema, level = uids
            return schemas[schema], levels[level]

    async with aiohttp.ClientSession(headers=headers) as session:
        leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/trainer.kubeflow.org"
        assert await priority(session, leases.format(HOME)) == ("trainyard-leader-election",) * 2
        for path in (leases.format(TENANT), "/api/v1/namespaces", f"/api/v1/namespaces/{TENANT}/secrets/a", "/version"):
            assert await priority(session, path) == ("trainyard-controller",) * 2
