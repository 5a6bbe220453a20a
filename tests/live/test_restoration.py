"""Record of the objects that a takeover changes, and their restoration."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, serving
from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import QUEUES
from trainyard.platform.takeover.former_objects import (
    FormerObject,
    delete_record,
    forget_objects,
    read_record,
    record_name,
    save_record,
)
from trainyard.platform.takeover.restoration import in_order, restore, restored

SERVICES = Resource("", "v1", "services", "Service")
SYSTEM = "volcano-system"
STACK = {"trainyard.dev/stack": "local"}


def body(resource: Resource, name: str, *, metadata: dict[str, Any] | None = None, **fields: Any) -> Object:
    namespace = {"namespace": SYSTEM} if resource.namespaced else {}
    stamp = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**stamp, "metadata": {"name": name, "uid": f"uid-of-{name}", **namespace, **(metadata or {})}, **fields}


def former(resource: Resource, name: str, *, patched: bool = False, **fields: Any) -> FormerObject:
    return FormerObject.of(resource, body(resource, name, **fields), patched=patched)


def managed(*keys: str, section: str = "labels", manager: str = "trainyard") -> dict[str, Any]:
    fields = {"f:metadata": {f"f:{section}": {f"f:{key}": {} for key in keys}}}
    return {"manager": manager, "operation": "Apply", "fieldsV1": fields}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as server:
        yield server


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with api.client() as client:
        yield client


def stored(api: FakeApi, resource: Resource, live: Object) -> Object:
    path = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return api.put(f"{path}/{resource.plural}", live)


def test_a_former_object_has_neither_status_nor_what_the_server_sets() -> None:
    sent = {"resourceVersion": "7", "managedFields": [managed("a")], "generation": 2, "labels": {"a": "b"}}
    found = former(DEPLOYMENTS, "it", metadata=sent, spec={"replicas": 1}, status={"replicas": 1})
    metadata = {"name": "it", "namespace": SYSTEM, "labels": {"a": "b"}}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    assert (found.manifest, found.uid) == ({**kind, "metadata": metadata, "spec": {"replicas": 1}}, "uid-of-it")
    assert FormerObject.from_json(found.as_json()) == found
    namespace = former(NAMESPACES, "vision", spec={"finalizers": ["kubernetes"]})
    assert "spec" not in namespace.manifest
    assert FormerObject.from_json(namespace.as_json()) == namespace


async def test_the_first_record_of_an_object_is_kept(api: FakeApi, client: Client) -> None:
    first, other = former(QUEUES, "a", spec={"weight": 1}), former(QUEUES, "b", spec={"weight": 2})
    await save_record(client, "local", [first])
    reached = {"managedFields": [managed(*STACK)]}
    await save_record(client, "local", [former(QUEUES, "a", metadata=reached, spec={"weight": 9}), other])
    assert await read_record(client, "local") == [first, other]
    # A run that failed before it reached the object has not changed it.
    present = former(QUEUES, "a", spec={"weight": 4})
    await save_record(client, "local", [present])
    assert await read_record(client, "local") == [present, other]
    again = former(QUEUES, "a", metadata={"uid": "another"}, spec={"weight": 3})
    await save_record(client, "local", [again])
    assert await read_record(client, "local") == [again, other]
    assert await read_record(client, "production") == []
    await delete_record(client, "local")
    assert await read_record(client, "local") == []


async def test_an_object_that_is_forgotten_is_not_given_back(api: FakeApi, client: Client) -> None:
    objects = [former(QUEUES, "a", spec={"weight": 1}), former(QUEUES, "b"), former(CONFIG_MAPS, "a")]
    await save_record(client, "local", objects)
    await forget_objects(client, "local", [(QUEUES.api_version, "Queue", None, "a")])
    assert await read_record(client, "local") == objects[1:]
    before = len(api.writes)
    await forget_objects(client, "local", [(QUEUES.api_version, "Queue", None, "a")])
    await forget_objects(client, "production", [(QUEUES.api_version, "Queue", None, "a")])
    assert len(api.writes) == before


async def test_a_record_is_bounded_and_a_broken_one_is_named(api: FakeApi, client: Client) -> None:
    noise = former(CONFIG_MAPS, "big", data={"noise": os.urandom(1_200_000).hex()})
    with pytest.raises(TrainyardError, match="a record holds 1048576") as caught:
        await save_record(client, "local", [noise])
    assert caught.value.fix == (
        "set install: existing for one of the components, whose objects are then not taken over, or delete objects "
        "that are not needed"
    )
    assert api.writes == []
    secret = {"name": record_name("local"), "namespace": "kube-system"}
    api.put("/api/v1/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {}})
    with pytest.raises(TrainyardError, match="kube-system/trainyard-takeover-local is no record"):
        await read_record(client, "local")


def test_records_of_stacks_have_different_names_that_are_valid() -> None:
    names = [record_name(each) for each in ("local", "Local", "loc_al", "loc-al", "loc.al")]
    assert names[0] == "trainyard-takeover-local"
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and "_" not in name for name in names)


def test_what_the_stack_set_is_taken_back_and_what_others_set_stays() -> None:
    before = former(NAMESPACES, "vision", metadata={"labels": {"team": "v", "enforce": "privileged"}})
    labels = {"team": "v", "enforce": "restricted", "later": "x", **STACK}
    fields = [managed("enforce", *STACK), managed("later", manager="kubectl")]
    annotations = {"trainyard.dev/adopted": "true"}
    fields.append(managed(*annotations, section="annotations"))
    live = body(
        NAMESPACES, "vision", metadata={"labels": labels, "annotations": annotations, "managedFields": fields}, spec={}
    )
    found = restored(live, before)
    assert found["metadata"]["labels"] == {"team": "v", "enforce": "privileged", "later": "x"}
    assert "annotations" not in found["metadata"]
    assert [each["manager"] for each in found["metadata"]["managedFields"]] == ["kubectl"]
    assert found["spec"] == {}
    fields = [managed("enforce", *STACK)]
    alone = body(NAMESPACES, "vision", metadata={"labels": labels, "managedFields": fields})
    assert restored(alone, before)["metadata"]["managedFields"] == [{}]


async def test_taken_objects_become_as_before_and_programs_are_created_again(api: FakeApi, client: Client) -> None:
    queue = former(QUEUES, "research", spec={"weight": 1}, status={"state": "Open"})
    changed = {"labels": STACK, "managedFields": [managed(*STACK)]}
    stored(
        api, QUEUES, body(QUEUES, "research", metadata=changed, spec={"weight": 5, "parent": "root"}, status={"x": 1})
    )
    programs = [former(DEPLOYMENTS, "scheduler", spec={"replicas": 1}), former(CLUSTER_ROLE_BINDINGS, "it", roleRef={})]
    result = await restore(client, "local", [*programs, queue])
    assert result.failures == []
    assert result.messages == [
        "ClusterRoleBinding it was created again",
        "Queue research was restored",
        f"Deployment {SYSTEM}/scheduler was created again",
    ]
    live: Any = api.find("queues", "research")
    assert (live["spec"], live["status"], live["metadata"].get("labels")) == ({"weight": 1}, {"x": 1}, None)
    assert api.unconditional == []
    again = await restore(client, "local", [*programs, queue])
    assert (again.messages, again.failures) == ([], [])


async def test_an_object_that_the_stack_never_changed_is_left(api: FakeApi, client: Client) -> None:
    """The record is saved before the first write, and a run may end before it reaches the object."""
    by_others = {"managedFields": [managed("a", manager="kubectl")]}
    stored(api, QUEUES, body(QUEUES, "research", metadata=by_others, spec={"weight": 7}))
    result = await restore(client, "local", [former(QUEUES, "research", spec={"weight": 1})])
    assert api.writes == []
    assert result.messages == ["Queue research was left as it is: another owner has created or changed it since"]
    assert result.failures == []


async def test_an_object_without_the_label_is_restored_if_the_stack_has_set_a_field(
    api: FakeApi, client: Client
) -> None:
    """Patches, of which the provider removes its fields, and writes that precede those of Pulumi."""
    room = {"managedFields": [managed("a", manager="trainyard-room")]}
    stored(api, QUEUES, body(QUEUES, "room", metadata=room, spec={"weight": 7}))
    stored(api, QUEUES, body(QUEUES, "root", spec={}))
    before = [former(QUEUES, "room", spec={"weight": 1}), former(QUEUES, "root", spec={"weight": 1}, patched=True)]
    await save_record(client, "local", before)
    result = await restore(client, "local", await read_record(client, "local"))
    assert result.messages == ["Queue room was restored", "Queue root was restored"]


async def test_an_object_of_the_stack_that_followed_is_left(api: FakeApi, client: Client) -> None:
    later = {"labels": {"trainyard.dev/stack": "production"}, "managedFields": [managed(*STACK)]}
    stored(api, QUEUES, body(QUEUES, "research", metadata=later, spec={"weight": 7}))
    stored(api, NAMESPACES, body(NAMESPACES, "vision", metadata=later))
    before = [former(QUEUES, "research", spec={"weight": 1}), former(NAMESPACES, "vision")]
    result = await restore(client, "prod", before)
    assert api.writes == []
    assert len(result.messages) == len(before)
    assert result.failures == []


async def test_an_object_that_another_owner_created_since_is_left(api: FakeApi, client: Client) -> None:
    stored(api, DEPLOYMENTS, body(DEPLOYMENTS, "scheduler", metadata={"uid": "another"}, spec={"replicas": 3}))
    result = await restore(client, "local", [former(DEPLOYMENTS, "scheduler", spec={"replicas": 1})])
    assert result.failures == []
    assert "another owner has created or changed it since" in result.messages[0]
    live: Any = api.find("deployments", "scheduler", SYSTEM)
    assert live["spec"] == {"replicas": 3}


async def test_a_second_destroy_calls_nothing_another_owners_that_the_first_restored(
    api: FakeApi, client: Client
) -> None:
    """Controllers and webhooks set fields of an object that was created again."""
    rolled_out = {"annotations": {"deployment.kubernetes.io/revision": "1"}}
    stored(api, DEPLOYMENTS, body(DEPLOYMENTS, "scheduler", metadata=rolled_out | {"uid": "new"}, spec={"replicas": 1}))
    by_first = {"managedFields": [managed("a", manager="trainyard-restoration")], "uid": "new"}
    stored(api, VALIDATING_WEBHOOKS, body(VALIDATING_WEBHOOKS, "it", metadata=by_first, webhooks=[{"caBundle": "new"}]))
    revision = {"annotations": {"deployment.kubernetes.io/revision": "7"}}
    before = [
        former(DEPLOYMENTS, "scheduler", metadata=revision, spec={"replicas": 1}),
        former(VALIDATING_WEBHOOKS, "it", webhooks=[{"caBundle": "old"}]),
    ]
    assert "annotations" not in before[0].manifest["metadata"]
    result = await restore(client, "local", before)
    assert (result.messages, result.failures, api.writes) == ([], [], [])
    taken = {"labels": STACK, "managedFields": [managed("a", manager="trainyard-restoration"), managed(*STACK)]}
    stored(api, VALIDATING_WEBHOOKS, body(VALIDATING_WEBHOOKS, "it", metadata=taken, webhooks=[{"caBundle": "ours"}]))
    result = await restore(client, "local", before)
    assert result.messages == ["ValidatingWebhookConfiguration it was restored"]


async def test_a_definition_that_is_gone_stays_so_with_the_objects_of_its_kind(api: FakeApi, client: Client) -> None:
    """Only its labels are recorded, and without it the API server serves no objects of its kind."""
    api.unserved = {"queues"}
    definition = former(CUSTOM_RESOURCE_DEFINITIONS, "queues.scheduling.volcano.sh")
    result = await restore(client, "local", [former(QUEUES, "research", spec={"weight": 1}), definition])
    assert result.failures == []
    assert result.messages == [
        "CustomResourceDefinition queues.scheduling.volcano.sh was deleted since and stays so",
        "Queue research was not created again: scheduling.volcano.sh/v1beta1 Queue does not exist any more",
    ]
    assert api.writes == []


async def test_an_object_whose_namespace_is_gone_is_a_failure(api: FakeApi, client: Client) -> None:
    missing = 'namespaces "volcano-system" not found'
    api.fault = lambda _, request: error(404, "NotFound", missing) if request.method == "POST" else None
    result = await restore(client, "local", [former(DEPLOYMENTS, "scheduler", spec={"replicas": 1})])
    assert result.messages == []
    assert missing in result.failures[0].message


async def test_failures_are_named_after_everything_else_was_tried(api: FakeApi, client: Client) -> None:
    attempts: list[str] = []

    def denied(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        """Deny a child until its parent is there, and one object always."""
        if request.method != "PUT":
            return None
        attempts.append(request.path.rpartition("/")[2])
        parent: Any = fake.find("queues", "parent")
        if attempts[-1] == "held" or (attempts[-1] == "child" and parent["spec"] != {"weight": 1}):
            return error(403, "Forbidden", "denied")
        return None

    api.fault = denied
    names = ("child", "held", "parent")
    for name in names:
        stored(api, QUEUES, body(QUEUES, name, metadata={"labels": STACK}, spec={"weight": 5}))
    result = await restore(client, "local", [former(QUEUES, name, spec={"weight": 1}) for name in names])
    assert result.messages == ["Queue parent was restored", "Queue child was restored"]
    (failure,) = result.failures
    assert failure.path == "Queue held"
    assert "denied" in failure.message


async def test_a_service_whose_address_was_given_away_gets_another(api: FakeApi, client: Client) -> None:
    ports = [{"port": 443, "nodePort": 30000}]
    spec = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": ports, "selector": {"a": "b"}}

    def allocated(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        taken = request.method == "POST" and len([1 for method, _ in fake.requests if method == "POST"]) == 1
        said = "spec.clusterIPs: Invalid value: failed to allocate IP 10.0.0.7: provided IP is already allocated"
        return error(422, "Invalid", said) if taken else None

    api.fault = allocated
    result = await restore(client, "local", [former(SERVICES, "it", spec=spec)])
    assert result.failures == []
    live: Any = api.find("services", "it", SYSTEM)
    assert live["spec"] == {"ports": [{"port": 443}], "selector": {"a": "b"}}


def test_permissions_precede_programs_and_webhooks_come_last() -> None:
    resources = (VALIDATING_WEBHOOKS, DEPLOYMENTS, QUEUES, SERVICES, CONFIG_MAPS, CLUSTER_ROLE_BINDINGS, NAMESPACES)
    assert [each.resource for each in in_order(former(each, "it") for each in resources)] == list(reversed(resources))
