"""Retired queues and tenants are deleted from a protected stack in one run; all others stay protected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pytest

import components.common.tenant_retirement
import components.hooks.queue_drain
from components.common.ownership import LiveObjects
from components.common.tenant_retirement import UnknownContents
from components.hooks.queue_drain import retire_queues
from tests.components.recording import Recording, record, stack_config
from tests.queues.test_changes import gang, queue
from trainyard.cluster_state.queues import LiveQueues
from trainyard.platform.takeover.namespace_contents import NamespaceContents
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack_loader import parse_stack
from trainyard.settings.tenancy import QueueSettings

QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue")
OWN = {"trainyard.dev/stack": "local"}
DATA = NamespaceContents({"PersistentVolumeClaim": ("checkpoints",), "TrainJob": ("a", "b")})


def protected_stack(**changes: Any) -> dict[str, Any]:
    """Return a protected stack with one more queue and one more tenant."""
    config = stack_config(protect=True)
    config["queues"]["old"] = {"deserved": {"cpu": "1"}} | changes.get("queue", {})
    config["tenants"]["leaving"] = {"queues": ["language"]} | changes.get("tenant", {})
    return config


def run(
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: str = "Closed",
    gangs: tuple[Any, ...] = (),
    contents: NamespaceContents | UnknownContents | None = None,
    adopted: bool = False,
    taken: str = "",
    forgotten: list[str] | None = None,
    retiring: tuple[str, ...] = ("old",),
    cluster: Cluster | None = None,
    preview: bool = False,
) -> Recording:
    """Record a run on a cluster that has the queue and the namespace."""
    annotations = {"trainyard.dev/adopted": "true"} if adopted else {}
    marks = {"trainyard.dev/adopted": taken}
    tenant = {"name": "leaving", "labels": {**OWN, "trainyard.dev/tenant": "leaving"}, "annotations": annotations}
    nodes = [node.name for node in compile_fabric(parse_stack(stack_config(), source="test").fabric).nodes]
    live = LiveObjects(
        {("v1", "Node", "", name): {"name": name} for name in nodes}
        | {(*QUEUE, "", name): {"name": name, "labels": OWN} for name in (*retiring, "vision", "language")}
        | ({(*QUEUE, "", "old"): {"name": "old", "labels": OWN, "annotations": marks}} if taken else {})
        | {("v1", "Namespace", "", "leaving"): tenant}
    )
    found = [queue(name, state=state, weight=1, reclaimable=True, deserved={"cpu": "1"}) for name in retiring]
    for each in found if taken else ():
        each["metadata"] |= {"annotations": marks, "uid": f"uid-of-{each['metadata']['name']}"}
    closed = frozenset({"old"}) if state != "Open" else frozenset[str]()
    known = {"leaving": DATA if contents is None else contents}
    monkeypatch.setattr(components.common.tenant_retirement, "run_in_thread", lambda _: known)
    queues = LiveQueues((*found, queue("vision"), queue("language")), gangs, closed, closed, has_platform=True)
    forget = forgotten.extend if forgotten is not None else lambda _: None
    client = cluster or Cluster(())
    monkeypatch.setattr(components.hooks.queue_drain.Client, "from_kubeconfig", lambda *_: client)
    monkeypatch.setattr(components.hooks.queue_drain, "_CLOSED_WITHIN", 0.0)
    return record(config, monkeypatch, live=live, queues=queues, forgotten=forget, preview=preview)


class Cluster:
    """An API server whose queues are closed as soon as the Platform lists them, and then have some jobs."""

    def __init__(self, queues: Sequence[dict[str, Any]], *jobs: dict[str, Any], closes: bool = True) -> None:
        self.writes: list[str] = []
        self._queues = {each["metadata"]["name"]: each for each in queues}
        self._jobs = jobs
        self._closes = closes

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, resource: Any, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": OWN}, "spec": {"retiredQueues": ["former"], "leafQueues": ["a"]}}

    async def list(self, resource: Any) -> tuple[dict[str, Any], ...]:
        return tuple(self._queues.values()) if resource.kind == "Queue" else self._jobs

    async def apply(self, resource: Any, body: dict[str, Any], **_: Any) -> None:
        self.writes.append(f"retire {' '.join(body['spec']['retiredQueues'])}")
        assert (body["metadata"]["labels"], body["spec"]["leafQueues"]) == (OWN, ["a"])
        for name in body["spec"]["retiredQueues"] if self._closes else ():
            if name in self._queues:
                self._queues[name] = queue(name, state="Closed")

    async def delete(self, resource: Any, name: str, *, uid: str | None) -> None:
        self.writes.append(f"delete {name} {uid}")


def retired(recording: Recording) -> dict[str, Any]:
    return {each.name: each for each in recording.resources.values() if each.type == "trainyard:retired:RetiredObject"}


@pytest.mark.slow
@pytest.mark.parametrize("protect", [True, False])
def test_a_retired_empty_queue_is_succeeded_by_nothing(protect: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = protected_stack(queue={"state": "retired"}) | {"protect": protect}
    recording = run(config, monkeypatch)
    (found,) = retired(recording).values()
    assert found.name == "Queue/old"
    assert found.aliases == (("kubernetes:scheduling.volcano.sh/v1beta1:Queue", "Queue/old"),)
    assert (found.custom, found.protect, found.provider) == (False, False, "")
    assert recording.resources[found.parent].type == "trainyard:queues:Queues"
    assert "Queue/old" not in {each.name for each in recording.of("Queue")}
    others = [each for each in [*recording.of("Queue"), *recording.of("Namespace")] if not each.patch]
    assert {each.protect for each in others} == {protect}


@pytest.mark.slow
def test_a_retired_queue_that_stays_is_not_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    config, gangs = protected_stack(queue={"state": "retired"}), (gang("a", "old"),)
    recording = run(config, monkeypatch, state="Closing", gangs=gangs)
    assert not retired(recording)
    assert not recording.one("Queue/old").protect
    assert recording.one("Queue/vision").protect
    assert recording.one("Platform/platform").inputs["spec"]["retiredQueues"] == ["old"]


def test_an_open_queue_is_closed_before_the_same_run_deletes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config, cluster = protected_stack(queue={"state": "retired"}), Cluster([queue("old")])
    recording = run(config, monkeypatch, state="Open", cluster=cluster)
    assert list(retired(recording)) == ["Queue/old"]
    assert recording.one("Platform/platform").inputs["spec"]["retiredQueues"] == ["old"]
    assert cluster.writes == ["retire former old"]


def test_a_preview_shows_that_an_open_queue_is_closed_first_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings, cluster = list[str](), Cluster([queue("old")])
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    config = protected_stack(queue={"state": "retired"})
    recording = run(config, monkeypatch, state="Open", taken="true", cluster=cluster, preview=True)
    assert list(retired(recording)) == ["Queue/old"]
    assert cluster.writes == []
    assert "Platform/platform is written before the update, so that the controller closes queues old" in warnings
    assert "Queue/old is deleted before the update: a queue that was taken over is kept by the engine" in warnings


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (Cluster([queue("old")], gang("late", "old")), "queue 'old' has got jobs while it was closed: it has 1 job"),
        (Cluster([queue("old")], closes=False), "queue 'old' is open"),
    ],
)
@pytest.mark.slow
def test_a_queue_that_gets_a_job_or_stays_open_ends_the_run_before_the_first_object(
    cluster: Cluster, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = protected_stack(queue={"state": "retired"})
    with pytest.raises(pulumi.RunError, match=words):
        run(config, monkeypatch, state="Open", cluster=cluster)


@pytest.mark.slow
@pytest.mark.parametrize(("state", "taken"), [("Open", ""), ("Closed", "true")])
def test_a_targeted_run_closes_and_deletes_no_queue_itself(
    state: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a write precedes those of the engine, which alone knows the targets."""
    warnings, cluster = list[str](), Cluster([queue("old")])
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    monkeypatch.setattr(components.hooks.queue_drain, "has_targets", lambda: True)
    config = protected_stack(queue={"state": "retired"})
    recording = run(config, monkeypatch, state=state, taken=taken, cluster=cluster)
    assert not retired(recording)
    assert cluster.writes == []
    assert any("'old' is retired and not deleted yet" in each and "--target" in each for each in warnings), warnings


def test_without_the_platform_nothing_closes_a_queue() -> None:
    live = LiveQueues((queue("old"),))
    settings = {"old": QueueSettings.model_validate({"state": "retired"})}
    waiting = retire_queues(live, settings, {"old"}).waiting
    assert waiting == {"old": "Platform 'platform' does not exist, so no controller closes it"}


def test_a_retired_tenant_takes_its_jobs_out_of_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace is deleted before the queue, which is closed before both."""
    tenant = {"queues": ["old"], "state": "retired", "deleteData": True}
    config, job = protected_stack(queue={"state": "retired"}, tenant=tenant), gang("a", "old")
    job["metadata"]["namespace"] = "leaving"
    cluster = Cluster([queue("old", state="Open")], job)
    recording = run(config, monkeypatch, state="Open", gangs=(job,), cluster=cluster)
    assert set(retired(recording)) == {"Queue/old", "Namespace/leaving"}
    assert cluster.writes == ["retire former old"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exists", "reopened", "listed"), [(True, False, ["old"]), (False, False, []), (True, True, [])]
)
def test_the_platform_lists_a_removed_queue_until_it_is_gone(
    exists: bool, reopened: bool, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller opens closed queues that the Platform does not list."""
    config = protected_stack()
    if not reopened:
        del config["queues"]["old"]
    recording = run(config, monkeypatch, retiring=("old",) if exists else ())
    assert recording.one("Platform/platform").inputs["spec"]["retiredQueues"] == listed


@pytest.mark.slow
def test_a_retired_queue_that_was_taken_over_is_deleted_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine keeps what the state says to retain."""
    forgotten, cluster = list[str](), Cluster([])
    config = protected_stack(queue={"state": "retired"})
    recording = run(config, monkeypatch, taken="true", forgotten=forgotten, cluster=cluster)
    assert list(retired(recording)) == ["Queue/old"]
    assert cluster.writes == ["delete old uid-of-old"]
    assert forgotten == ["old"], "`destroy` would create it again"


@pytest.mark.slow
def test_a_taken_queue_that_has_jobs_becomes_the_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the `up` that finds it empty deletes it like any other."""
    config, cluster = protected_stack(queue={"state": "retired"}), Cluster([])
    found = run(config, monkeypatch, taken="true", gangs=(gang("a", "old"),), cluster=cluster).one("Queue/old")
    assert (found.retain, found.protect) == (False, False)
    assert found.inputs["metadata"]["annotations"]["trainyard.dev/adopted"] == "owned"
    assert list(retired(run(config, monkeypatch, taken="owned", cluster=cluster))) == ["Queue/old"]
    assert cluster.writes == []


@pytest.mark.slow
def test_a_taken_queue_that_is_not_retired_any_more_is_kept_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(protected_stack(queue={"state": "open"}), monkeypatch, taken="owned").one("Queue/old")
    assert found.retain
    assert found.inputs["metadata"]["annotations"]["trainyard.dev/adopted"] == "true"


def test_a_closed_queue_stays_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(protected_stack(queue={"state": "closed"}), monkeypatch)
    assert recording.one("Queue/old").protect
    assert not retired(recording)


def test_a_queue_that_is_not_marked_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = protected_stack()
    del config["queues"]["old"]
    with pytest.raises(pulumi.RunError, match="mark it retired first: keep old with state: retired"):
        run(config, monkeypatch, state="Open")


def test_the_namespace_of_a_retired_tenant_is_deleted_with_what_the_stack_made_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    recording = run(protected_stack(tenant={"state": "retired", "deleteData": True}), monkeypatch)
    (found,) = retired(recording).values()
    assert found.aliases == (("kubernetes:core/v1:Namespace", "Namespace/leaving"),)
    assert not [each.name for each in recording.objects if "leaving" in each.name]
    said = "Tenant 'leaving' is retired: namespace leaving is deleted with 1 PersistentVolumeClaim (checkpoints), "
    assert f"{said}2 TrainJob (a, b)" in warnings


def test_data_is_deleted_only_if_the_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        run(protected_stack(tenant={"state": "retired"}), monkeypatch)
    assert "trainyard:tenants.leaving.deleteData: namespace leaving contains 1 PersistentVolumeClaim" in str(
        caught.value
    )
    assert "set deleteData: true" in str(caught.value)


def test_an_empty_namespace_is_deleted_without_further_words(monkeypatch: pytest.MonkeyPatch) -> None:
    config = protected_stack(tenant={"state": "retired"})
    assert retired(run(config, monkeypatch, contents=NamespaceContents({"ConfigMap": ()})))


def test_contents_that_cannot_be_listed_count_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = UnknownContents("403 Forbidden: secrets is forbidden")
    with pytest.raises(pulumi.RunError, match="the objects in namespace leaving cannot be listed"):
        run(protected_stack(tenant={"state": "retired"}), monkeypatch, contents=forbidden)
    config = protected_stack(tenant={"state": "retired", "deleteData": True})
    assert retired(run(config, monkeypatch, contents=forbidden))


def test_an_adopted_namespace_is_kept_with_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    run(protected_stack(tenant={"state": "retired"}), monkeypatch, adopted=True)
    assert any("namespace leaving was adopted and stays" in each for each in warnings)


def test_a_tenant_that_is_not_marked_is_not_removed_from_a_protected_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    config = protected_stack()
    del config["tenants"]["leaving"]
    with pytest.raises(pulumi.RunError) as caught:
        run(config, monkeypatch)
    assert "trainyard:tenants.leaving: tenant 'leaving' would be removed" in str(caught.value)
    assert "mark it retired first: keep leaving with state: retired" in str(caught.value)
    assert run(config | {"protect": False}, monkeypatch)


def test_a_queue_that_only_a_retired_tenant_uses_can_be_retired_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = {"queues": ["old"], "state": "retired", "deleteData": True}
    recording = run(protected_stack(queue={"state": "retired"}, tenant=tenant), monkeypatch)
    assert set(retired(recording)) == {"Queue/old", "Namespace/leaving"}
