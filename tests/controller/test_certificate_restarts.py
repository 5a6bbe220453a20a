"""Pods that read their certificate only when they start are replaced for each new one, once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.harness import Clock, existing
from tests.controller.test_certificates import MUTATING, NAMESPACES, SECRETS, VOLCANO, issuing, namespace, webhooks
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.certificates import SERVED_ANNOTATION, fingerprint
from trainyard.controller.pod_restarts import restart_pods
from trainyard.kube.api_errors import ApiError

DEPLOYMENTS = "/apis/apps/v1/deployments"
SERVER = VOLCANO.model_copy(update={"deployment": "volcano-admission"})
NAME = SERVER.deployment
RESTART = ("PATCH", f"/apis/apps/v1/namespaces/{SERVER.namespace}/deployments/{NAME}")
WRITE = ("PATCH", f"/api/v1/namespaces/{SERVER.namespace}/secrets/{SERVER.secret}")


def platform(api: FakeApi) -> FakeApi:
    for home in ("kubeflow-system", SERVER.namespace):
        api.put(NAMESPACES, namespace(home))
    metadata = {"name": NAME, "namespace": SERVER.namespace}
    template = {"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [{"name": "vc-webhook-manager"}]}}
    api.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"template": template}})
    return api


def of_server(api: FakeApi) -> list[tuple[str, str]]:
    return [write for write in api.writes if write in (RESTART, WRITE)]


def template(api: FakeApi) -> dict[str, Any]:
    body = existing(api, "deployments", NAME, SERVER.namespace)
    found: dict[str, Any] = body["spec"]["template"]
    return found


def restarted_for(api: FakeApi) -> str:
    return str((template(api)["metadata"].get("annotations") or {}).get(SERVED_ANNOTATION, ""))


def recorded(api: FakeApi) -> str:
    body = api.find("secrets", SERVER.secret, SERVER.namespace)
    return str(((body or {}).get("metadata", {}).get("annotations") or {}).get(SERVED_ANNOTATION, ""))


async def test_pods_are_replaced_after_each_renewal_and_once(api: FakeApi) -> None:
    async with issuing(platform(api), None, SERVER) as state:
        await eventually(lambda: recorded(api))
        for _ in range(2):
            api.writes.clear()
            await state.pass_time(days=61)
            wanted = fingerprint(state.data(SERVER)["tls.crt"])
            assert (restarted_for(api), recorded(api)) == (wanted, wanted)
            assert of_server(api) == [WRITE, RESTART, WRITE]
            await state.pass_time(days=1)
            assert of_server(api) == [WRITE, RESTART, WRITE]
        rest = {key: value for key, value in template(api).items() if key != "metadata"}
        assert rest == {"spec": {"containers": [{"name": "vc-webhook-manager"}]}}


async def test_a_missing_secret_is_created_after_the_pods_are_replaced_because_they_wait_for_it(api: FakeApi) -> None:
    async with issuing(platform(api), None, SERVER) as state:
        await eventually(lambda: recorded(api))
        assert of_server(api) == [RESTART, WRITE]
        first = restarted_for(api)
        api.writes.clear()
        api.remove(SECRETS, SERVER.namespace, SERVER.secret)  # pods still serve the former certificate
        await eventually(lambda: recorded(api))
        assert of_server(api) == [RESTART, WRITE]
        assert restarted_for(api) == recorded(api) == fingerprint(state.data(SERVER)["tls.crt"]) != first


async def test_without_the_deployment_nothing_is_restarted_and_the_certificate_is_issued(api: FakeApi) -> None:
    platform(api).remove(DEPLOYMENTS, SERVER.namespace, NAME)
    async with issuing(api, None, SERVER) as state:
        await eventually(lambda: recorded(api))
        assert of_server(api) == [WRITE]
        assert state.failing(SERVER) == 0


async def test_a_deployment_that_changes_before_the_restart_is_read_again(api: FakeApi) -> None:
    changes = iter("ab")

    def touch(fake: FakeApi, request: Any) -> None:
        if request.method == "PATCH" and request.path == RESTART[1] and (change := next(changes, "")):
            body = existing(fake, "deployments", NAME, SERVER.namespace)
            fake.put(DEPLOYMENTS, {**body, "status": {"change": change}})

    platform(api).fault = touch
    async with issuing(api, None, SERVER) as state:
        await eventually(lambda: recorded(api))
        assert (of_server(api), state.failing(SERVER)) == ([RESTART, WRITE], 0)
    assert sum((method, path.partition("?")[0]) == RESTART for method, path in api.requests) == 3
    assert restarted_for(api) == recorded(api)


async def test_a_delayed_restart_of_a_former_leader_is_refused(api: FakeApi) -> None:
    """Its patch arrives after the next leader has replaced the pods for a later certificate."""
    later: list[str] = []

    def overtake(fake: FakeApi, request: Any) -> None:
        if request.method == "PATCH" and request.path == RESTART[1]:
            body = existing(fake, "deployments", NAME, SERVER.namespace)
            later.append(f"later-{len(later)}")
            metadata = {"annotations": {SERVED_ANNOTATION: later[-1]}}
            fake.put(DEPLOYMENTS, {**body, "spec": {"template": {**body["spec"]["template"], "metadata": metadata}}})

    platform(api).fault = overtake
    async with api.client(patience=0) as client:
        with pytest.raises(ApiError) as caught:
            await restart_pods(client, NAME, SERVER.namespace, b"former", field_manager="former")
    assert (caught.value.conflict, restarted_for(api)) == (True, later[-1])


async def test_the_secret_of_an_earlier_version_restarts_the_pods_once(api: FakeApi) -> None:
    clock = Clock()
    async with issuing(platform(api), clock, VOLCANO) as state:
        await eventually(lambda: state.data(VOLCANO))
        issued = state.data(VOLCANO)
    assert recorded(api) == restarted_for(api) == ""
    async with issuing(api, clock, SERVER) as state:
        await eventually(lambda: recorded(api))
        assert state.data(SERVER) == issued
        assert restarted_for(api) == recorded(api) == fingerprint(issued["tls.crt"])
        await state.pass_time(hours=2)
        assert api.writes.count(RESTART) == 1


async def test_what_rejects_the_restart_keeps_no_certificate_from_being_issued(api: FakeApi) -> None:
    api.fault = lambda fake, request: error(403, "Forbidden", "no Role") if request.path == RESTART[1] else None
    async with issuing(platform(api), None, SERVER) as state:
        await eventually(lambda: state.data(SERVER) and state.failing(SERVER))
        assert recorded(api) == ""
        api.fault = None
        await eventually(lambda: recorded(api))
        assert restarted_for(api) == recorded(api)
        await eventually(lambda: state.failing(SERVER) == 0)


async def test_killed_between_any_two_writes_the_next_leader_replaces_the_pods(api: FakeApi) -> None:
    clock = Clock()
    async with issuing(platform(api), clock, SERVER) as state:
        await eventually(lambda: recorded(api))
    for allowed in range(3):
        limit = len(api.writes) + allowed

        def stop(fake: FakeApi, request: Any, *, limit: int = limit) -> Any:
            late = request.method != "GET" and len(fake.writes) >= limit
            return error(503, "ServiceUnavailable", "") if late else None

        api.fault = stop
        async with issuing(api, clock, SERVER) as state:
            await state.pass_time(days=61)
        api.fault = None
        async with issuing(api, clock, SERVER) as state:
            await state.pass_time(hours=1)
            wanted = fingerprint(state.data(SERVER)["tls.crt"])
            assert (restarted_for(api), recorded(api)) == (wanted, wanted)


async def test_while_the_secret_cannot_be_created_the_pods_are_replaced_once(api: FakeApi) -> None:
    rejected: list[str] = []

    def reject(fake: FakeApi, request: Any) -> Any:
        if request.method == "GET" or request.path != WRITE[1]:
            return None
        rejected.append(restarted_for(fake))
        return error(403, "Forbidden", "exceeded quota")

    api.fault = reject
    async with issuing(platform(api), None, SERVER) as state:
        await eventually(lambda: len(rejected) > 3)
        assert len(set(rejected)) == 1
        api.fault = None
        await eventually(lambda: recorded(api))
        assert recorded(api) == restarted_for(api) == rejected[0]
        assert fingerprint(state.data(SERVER)["tls.crt"]) == rejected[0]


async def test_pods_are_replaced_while_a_webhook_configuration_rejects_its_bundle(api: FakeApi) -> None:
    api.put(MUTATING, webhooks("volcano-mutate"))
    async with issuing(platform(api), None, SERVER) as state:
        await eventually(lambda: recorded(api))
        away = [RESTART[1]]
        api.fault = lambda fake, request: (
            error(503, "ServiceUnavailable", "") if request.method != "GET" and request.path in away else None
        )
        await state.pass_time(days=61)
        renewed = fingerprint(state.data(SERVER)["tls.crt"])
        assert recorded(api) != renewed
        away[:] = [f"{MUTATING}/volcano-mutate"]
        api.put(MUTATING, webhooks("volcano-mutate"))  # without its bundle
        await eventually(lambda: recorded(api) == restarted_for(api) == renewed)
