"""What the client relies on, seen on a real API server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import psutil
import pytest

from tests.compatibility import servers
from tests.kube.fake_api import eventually
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Resource

pytestmark = pytest.mark.cluster

FREE = Resource("example.com", "v1", "frees", "Free")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("client")) as found:
        asyncio.run(prepare(found))
        yield found


async def prepare(server: servers.Server) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "frees", "singular": "free", "kind": "Free", "listKind": "FreeList"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "frees.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    async with server.client() as client:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        informer = Informer(client, FREE, missing_retry=0.2)
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.wait_synced(), 30)
        task.cancel()


def made(resource: Resource, name: str, **data: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "data": data}


async def rejected(request: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as error:
        await request
    return error.value


@pytest.mark.parametrize("resource", [CONFIG_MAPS, FREE], ids=str)
async def test_a_failed_precondition_of_any_write_is_a_conflict(server: servers.Server, resource: Resource) -> None:
    async with server.client() as admin:
        client = admin.fenced(lambda: 10.0)
        stored = await client.create(resource, made(resource, "conditions", x="1"))
        name, where, metadata = "conditions", {"namespace": "default"}, stored["metadata"]
        step = [{"op": "replace", "path": "/data/x", "value": "2"}]
        for uid, version in (("another", None), (None, "1"), ("another", "1")):
            asked = {"uid": uid, "resource_version": version}
            named = {"uid": uid or metadata["uid"], "resourceVersion": version or metadata["resourceVersion"]}
            changed = {**stored, "metadata": {**metadata, **named, "managedFields": None}, "data": {"x": "3"}}
            for write in (
                client.merge_patch(resource, name, {"data": {"x": "2"}}, **asked, **where),
                client.json_patch(resource, name, step, **asked, **where),
                client.delete(resource, name, **asked, **where),
                client.replace(resource, changed),
                client.apply(resource, changed, field_manager="test"),
            ):
                assert (await rejected(write)).conflict
        absent = {**made(resource, "absent"), "metadata": {"name": "absent", "namespace": "default", "uid": "u"}}
        assert (await rejected(client.apply(resource, absent, field_manager="test"))).conflict
        await client.merge_patch(resource, name, {"data": {"x": "2"}}, uid=metadata["uid"], **where)
        assert await client.delete(resource, name, uid=metadata["uid"], **where)


async def test_an_object_that_is_too_large_is_recognized(server: servers.Server) -> None:
    async with server.client() as client:
        for size in (1_600_000, 2_500_000, 4_000_000):
            error = await rejected(client.create(FREE, made(FREE, "large", x="x" * size)))
            assert error.too_large, error


async def test_an_object_nested_too_deeply_hides_no_other(server: servers.Server) -> None:
    deep = b"[" * 3000 + b"]" * 3000
    body = orjson.dumps(made(FREE, "deep", x=0)).replace(b'"x":0', b'"x":' + deep)
    async with server.client() as client:
        informer = Informer(client, FREE)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        await client.request("POST", FREE.path(namespace="default"), body=orjson.Fragment(body))
        await client.create(FREE, made(FREE, "flat"))
        await eventually(lambda: {body["metadata"]["name"] for body in informer.store} >= {"deep", "flat"})
        assert {body["metadata"]["name"] for body in await client.list(FREE)} >= {"deep", "flat"}
        task.cancel()


async def test_a_write_that_was_given_up_is_not_executed_later(server: servers.Server) -> None:
    """A webhook that hangs holds the request; without its own limit the server would store it after 5 s."""
    accepted = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()

    hanging = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    webhook = {
        "name": "hangs.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}],
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hangs"},
        "webhooks": [webhook],
    }
    async with server.client() as client:
        await client.create(VALIDATING_WEBHOOKS, configuration)
        writer = client.fenced(lambda: 1.0)
        names = (f"late-{attempt}" for attempt in range(100))
        while not accepted.is_set():
            name = next(names)
            with suppress(TransportError, ApiError):
                await writer.create(FREE, made(FREE, name))
        await asyncio.sleep(6)
        assert await client.find(FREE, name, namespace="default") is None
        await client.delete(VALIDATING_WEBHOOKS, "hangs")
    hanging.close()


async def test_a_quiet_watch_receives_a_bookmark_before_it_ends(server: servers.Server) -> None:
    """Bookmarks come once a minute and two seconds before the end; watches that last 36 s live on the latter."""
    async with server.client() as client:
        informer = Informer(client, CONFIG_MAPS, label_selector="nobody=has", timeout_seconds=lambda: 5)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        other = await client.create(CONFIG_MAPS, made(CONFIG_MAPS, "other"))
        version = int(other["metadata"]["resourceVersion"])
        await eventually(lambda: informer.store.observed >= version)
        assert informer.relists == {"start": 1}
        task.cancel()


async def test_a_frozen_server_is_found_and_the_watch_resumed(server: servers.Server) -> None:
    root = str(server.folder.root)
    # Other servers end meanwhile: what is asked for here is read without an error then.
    [process] = [
        each
        for each in psutil.process_iter(["name", "cmdline"])
        if each.info["name"] == "kube-apiserver" and root in " ".join(each.info["cmdline"] or ())
    ]
    async with server.client(timeout=2.0) as client, server.client() as patient:
        informer = Informer(
            client,
            CONFIG_MAPS,
            field_selector="metadata.name=frozen",
            backoff=Backoff(0.1, 0.5),
            timeout_seconds=lambda: 2,
        )
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        resumed = informer._backoff.failures
        os.kill(process.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: informer._backoff.failures > resumed, within=2 + 7 + 2 + 3)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        await patient.create(CONFIG_MAPS, made(CONFIG_MAPS, "frozen"))
        await eventually(lambda: len(informer.store) == 1, within=15)
        assert informer.relists == {"start": 1}
        task.cancel()
