"""Facts of TenantPolicies and the Platform are written to Namespaces; other changes are reverted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import existing
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.policy_facts import PolicyFacts
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.training_kinds import PLATFORMS, TENANT_POLICIES
from trainyard.policy.engines.vap.facts import TENANT_FACTS, platform_facts, tenant_facts

NAMESPACES = "/api/v1/namespaces"
POLICIES = "/apis/trainyard.dev/v1alpha1/tenantpolicies"
PLATFORM_PATH = "/apis/trainyard.dev/v1alpha1/platforms"
VISION = {"queues": ["vision"], "runtimes": ["*"], "maxAcceleratorsPerJob": 8}
OFFER = {"leafQueues": ["vision"], "tiers": [{"name": "rack", "tier": 1}]}


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[PolicyFacts]:
    async with api.client() as client:
        policies = Informer(client, TENANT_POLICIES, missing_retry=0.02)
        platforms = Informer(client, PLATFORMS, missing_retry=0.02)
        facts = PolicyFacts(client, policies, platforms, backoff=Backoff(0.01, 0.05))
        tasks = [asyncio.create_task(each) for each in (policies.run(), platforms.run(), facts.run())]
        try:
            yield facts
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def namespace(api: FakeApi, name: str, **annotations: str) -> None:
    api.put(NAMESPACES, {"metadata": {"name": name, "annotations": annotations}})


def policy(api: FakeApi, namespace: str, spec: dict[str, Any]) -> None:
    api.put(POLICIES, {"metadata": {"name": "tenant", "namespace": namespace}, "spec": spec})


def held(api: FakeApi, name: str) -> dict[str, str]:
    found = existing(api, "namespaces", name)
    return found["metadata"].get("annotations") or {}


async def test_a_namespace_says_what_its_tenant_policy_says(api: FakeApi) -> None:
    namespace(api, "vision", note="mine")
    policy(api, "vision", VISION)
    async with running(api):
        await eventually(lambda: held(api, "vision") == {"note": "mine", **tenant_facts(VISION)})


async def test_a_change_of_a_tenant_policy_reaches_its_namespace_only(api: FakeApi) -> None:
    for name in ("vision", "language"):
        namespace(api, name)
        policy(api, name, VISION)
    async with running(api):
        await eventually(lambda: all(held(api, name) for name in ("vision", "language")))
        api.writes.clear()
        changed = {**VISION, "queues": ["vision", "shared"]}
        policy(api, "vision", changed)
        await eventually(lambda: held(api, "vision") == tenant_facts(changed))
        assert api.writes == [("PATCH", f"{NAMESPACES}/vision")]


async def test_a_new_leader_whose_watch_hangs_does_not_write_back_what_it_saw_before(api: FakeApi) -> None:
    namespace(api, "vision")
    policy(api, "vision", VISION)
    async with api.client() as client:
        policies, platforms = Informer(client, TENANT_POLICIES), Informer(client, PLATFORMS)
        watches = [asyncio.create_task(each.run()) for each in (policies, platforms)]
        await asyncio.gather(policies.wait_settled(), platforms.wait_settled())
        watches[0].cancel()
        narrowed = {**VISION, "queues": []}
        policy(api, "vision", narrowed)
        namespace(api, "vision", **tenant_facts(narrowed))  # by the former leader
        namespace(api, "language")
        policy(api, "language", VISION)
        facts = PolicyFacts(client, policies, platforms, backoff=Backoff(0.01, 0.05))
        leading = asyncio.create_task(facts.run())
        await eventually(lambda: held(api, "language") == tenant_facts(VISION))
        assert held(api, "vision") == tenant_facts(narrowed)
        for task in (*watches, leading):
            task.cancel()
        await asyncio.gather(*watches, leading, return_exceptions=True)


async def test_without_a_tenant_policy_there_are_no_facts(api: FakeApi) -> None:
    namespace(api, "vision")
    namespace(api, "stranger", **tenant_facts(VISION))
    policy(api, "vision", VISION)
    async with running(api):
        await eventually(lambda: held(api, "vision") and not held(api, "stranger"))
        api.remove(POLICIES, "vision", "tenant")
        await eventually(lambda: not held(api, "vision"))


async def test_changes_by_other_clients_are_reverted(api: FakeApi) -> None:
    namespace(api, "vision")
    policy(api, "vision", VISION)
    async with running(api):
        await eventually(lambda: held(api, "vision") == tenant_facts(VISION))
        namespace(api, "vision", **{**tenant_facts(VISION), "policy.trainyard.dev/queues": "language"})
        await eventually(lambda: held(api, "vision") == tenant_facts(VISION))


async def test_the_platform_is_said_on_one_namespace(api: FakeApi) -> None:
    namespace(api, "kube-system")
    namespace(api, "scratch", **platform_facts(OFFER))
    api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}, "spec": OFFER})
    async with running(api):
        await eventually(lambda: held(api, "kube-system") == platform_facts(OFFER))
        api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}, "spec": {"leafQueues": ["a", "b"]}})
        await eventually(lambda: held(api, "kube-system")["policy.trainyard.dev/leaf-queues"] == "a,b")
        api.remove(PLATFORM_PATH, "", "platform")
        await eventually(lambda: not held(api, "kube-system"))
        assert held(api, "scratch") == platform_facts(OFFER)


async def test_nothing_is_written_where_all_is_said(api: FakeApi) -> None:
    namespace(api, "done", **tenant_facts(VISION))
    policy(api, "done", VISION)
    namespace(api, "last")
    policy(api, "last", VISION)
    async with running(api):
        await eventually(lambda: held(api, "last"))
        assert api.writes == [("PATCH", f"{NAMESPACES}/last")]


async def test_facts_stay_while_the_kind_is_not_served(api: FakeApi) -> None:
    namespace(api, "vision", **tenant_facts(VISION))
    namespace(api, "kube-system", **platform_facts(OFFER))
    api.put(PLATFORM_PATH, {"metadata": {"name": "platform"}, "spec": {}})
    policy(api, "vision", VISION)
    api.unserved = {"tenantpolicies"}
    async with running(api) as facts:
        await eventually(lambda: held(api, "kube-system") == platform_facts({}))
        assert not await facts.step()
        assert held(api, "vision") == tenant_facts(VISION)
        policy(api, "vision", {})
        api.unserved = set()
        await eventually(lambda: held(api, "vision") == tenant_facts({}))


async def test_a_rejected_write_is_retried_and_delays_no_other(api: FakeApi) -> None:
    refused: list[str] = []

    def fault(api: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "PATCH" and request.path.endswith("/a") and len(refused) < 2:
            refused.append(request.path)
            return error(500, "InternalError", "etcd is away")
        return None

    api.fault = fault
    for name in ("a", "b"):
        namespace(api, name)
        policy(api, name, VISION)
    async with running(api):
        await eventually(lambda: held(api, "b"))
        await eventually(lambda: held(api, "a") == tenant_facts(VISION))
    assert len(refused) == 2


async def test_a_write_names_the_version_that_it_was_decided_from(api: FakeApi) -> None:
    sent: list[dict[str, Any]] = []

    def fault(api: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "PATCH" and not sent:
            found = existing(api, "namespaces", "vision")
            sent.append(found["metadata"])
            namespace(api, "vision", note="in between")
        return None

    namespace(api, "vision")
    policy(api, "vision", VISION)
    api.fault = fault
    async with running(api):
        await eventually(lambda: held(api, "vision") == {"note": "in between", **tenant_facts(VISION)})


async def test_a_namespace_that_goes_is_left_alone(api: FakeApi) -> None:
    api.put(NAMESPACES, {"metadata": {"name": "gone", "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    policy(api, "gone", VISION)
    namespace(api, "vision")
    policy(api, "vision", VISION)
    async with running(api):
        await eventually(lambda: set(held(api, "vision")) == TENANT_FACTS)
        assert not held(api, "gone")


async def test_a_tenant_policy_that_cannot_be_read_is_logged_and_keeps_no_other_from_being_written(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "vision"):
        namespace(api, name)
    api.put(POLICIES, {"metadata": {"name": "tenant", "namespace": "a"}, "spec": "text"})
    policy(api, "vision", VISION)
    async with running(api):
        await eventually(lambda: held(api, "vision") == tenant_facts(VISION))
        await eventually(lambda: "facts of namespace a: " in caplog.text)
        policy(api, "a", VISION)
        await eventually(lambda: held(api, "a") == tenant_facts(VISION))
