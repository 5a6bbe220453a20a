"""Volcano's webhook manager; its queue webhooks on an empty control plane, and sequences of changes sent to them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.volcano import ADMISSION_SERVICE, MANIFESTS
from tests.queues.corpus import Change
from tests.support import LiveCluster
from trainyard import pki, upstream
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Resource
from trainyard.local.cluster.toolchain import program_path

QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
_CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
_VERSION = "1.14.1"
_PATIENCE = 60.0


@dataclass(frozen=True)
class Answer:
    """Response of the API server to one change; no message if it is accepted."""

    change: Change
    refused: str | None


@asynccontextmanager
async def queue_webhooks(cluster: LiveCluster, folder: Path) -> AsyncIterator[Client]:
    """Run the webhook manager against a cluster with the kind Queue and the queue ``default``; then remove all."""
    port, pair, authority = certificate(folder)
    crd = "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"
    assert crd in MANIFESTS
    (definition,) = upstream.documents("volcano", _VERSION, crd)
    async with Client.from_kubeconfig(cluster.kubeconfig, timeout=60, concurrency=16) as client:
        registered: list[tuple[Resource, str]] = []
        try:
            await client.create(_CRDS, upstream.without_descriptions(definition))
            await _awaited("the kind Queue", lambda: _served(client))
            for resource, body in registrations(QUEUES, port, authority):
                registered.append((resource, body["metadata"]["name"]))
                await client.create(resource, body)
            with manager(QUEUES, cluster.kubeconfig, port, pair, folder) as process:
                await _awaited("the webhooks", lambda: _answering(client, process))
                yield client
        finally:
            for resource, name in registered:
                await client.delete(resource, name)
            with contextlib.suppress(ApiError):
                await client.request("DELETE", QUEUES.path(), resource=QUEUES)
            await client.delete(_CRDS, f"{QUEUES}", propagation="Foreground")


async def send(client: Client, sequences: Sequence[Sequence[Change]]) -> list[list[Answer]]:
    """Send the changes of each sequence one after the other, all sequences concurrently.

    The webhook's cache is synchronized between two rounds: it follows a watch, which keeps the
    order of changes, so once it has a queue that was created after a round it has all of the round.
    """
    answers: list[list[Answer]] = [[] for _ in sequences]
    for number in range(max(map(len, sequences), default=0)):
        group = [(answers[i], each[number]) for i, each in enumerate(sequences) if number < len(each)]
        outcomes = await asyncio.gather(*(_sent(client, change) for _, change in group))
        for (answered, change), refused in zip(group, outcomes, strict=True):
            answered.append(Answer(change, refused))
        await _caught_up(client, f"canary-{number}")
    return answers


async def _sent(client: Client, change: Change) -> str | None:
    try:
        if change.deletes:
            await client.delete(QUEUES, change.name)
            return None
        try:
            await client.create(QUEUES, change.body())
        except ApiError as error:
            if not error.conflict:
                raise
            await client.json_patch(QUEUES, change.name, [{"op": "replace", "path": "/spec", "value": change.spec}])
    except ApiError as error:
        return error.message
    return None


async def _caught_up(client: Client, name: str) -> None:
    await client.create(QUEUES, {**Change(name, {"parent": "root"}).body()})

    async def known() -> bool:
        try:
            await client.request(
                "POST",
                QUEUES.path(),
                resource=QUEUES,
                body=Change(f"{name}-probe", {"parent": name}).body(),
                query={"dryRun": "All"},
            )
        except ApiError as error:
            if "failed to get parent queue" not in error.message:
                raise
            return False
        return True

    await _awaited(f"the webhook to see {name}", known)


async def _awaited(what: str, probe: Any) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    while not await probe():
        assert loop.time() < deadline, f"{what}: not within {_PATIENCE:g} s"
        await asyncio.sleep(0.05)


async def _served(client: Client) -> bool:
    try:
        await client.list(QUEUES)
    except ApiError as error:
        if not error.not_found:
            raise
        return False
    return True


async def _answering(client: Client, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the webhook manager exited"
    try:
        await client.create(QUEUES, Change("default", {"parent": "root"}).body())
    except ApiError as error:
        if "failed calling webhook" not in error.message:
            raise
        return False
    return True


def registrations(kind: Resource, port: int, authority: bytes) -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Yield the webhook configurations of a kind, with their resources."""
    name = kind.kind.lower()
    validated = ["CREATE"] if kind.namespaced else ["CREATE", "UPDATE", "DELETE"]
    for resource, path, operations in (
        (MUTATING_WEBHOOKS, "mutate", ["CREATE"]),
        (VALIDATING_WEBHOOKS, "validate", validated),
    ):
        rule = {
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "resources": [kind.plural],
            "operations": operations,
        }
        webhook = {
            "name": f"{path}{name}.volcano.sh",
            "rules": [rule],
            "clientConfig": {
                "url": f"https://127.0.0.1:{port}/{kind.plural}/{path}",
                "caBundle": b64encode(authority).decode(),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
        }
        yield (
            resource,
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": f"{ADMISSION_SERVICE}-{kind.plural}-{path}"},
                "webhooks": [webhook],
            },
        )


def certificate(folder: Path) -> tuple[int, tuple[Path, Path, Path], bytes]:
    """Return a free port, the files of a certificate for it, and the certificate of its authority."""
    now = datetime.datetime.now(datetime.UTC)
    lifetime = datetime.timedelta(days=1)
    authority = pki.authority("tests", now=now, lifetime=lifetime)
    pair = pki.issue(authority, "webhook", now=now, lifetime=lifetime, ip_addresses=["127.0.0.1"], server=True)
    files = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    for file, content in zip(files, (pair.certificate, pair.key, authority.certificate), strict=True):
        file.write_bytes(content)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1]), files, authority.certificate


@contextlib.contextmanager
def manager(
    kind: Resource, kubeconfig: Path, port: int, files: tuple[Path, Path, Path], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the webhook manager with the webhooks of a kind."""
    command = [
        str(program_path("vc-webhook-manager", _VERSION)),
        f"--kubeconfig={kubeconfig}",
        f"--enabled-admission=/{kind.plural}/mutate,/{kind.plural}/validate",
        f"--tls-cert-file={files[0]}",
        f"--tls-private-key-file={files[1]}",
        f"--ca-cert-file={files[2]}",
        f"--webhook-url=https://127.0.0.1:{port}",
        "--listen-address=127.0.0.1",
        f"--port={port}",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        "--logtostderr",
    ]
    with (folder / "webhook.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
