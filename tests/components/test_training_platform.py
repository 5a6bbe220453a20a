"""The platform as one component resource: inputs that are unknown, owners that are checked later, options, outputs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

import components.common.tenant_retirement
from components import training_platform
from components.cluster_comparison import Comparison
from components.common.owner import owner_of
from components.common.ownership import LiveObjects
from components.training_platform import TrainingPlatform, TrainingPlatformArgs
from tests.components.recording import Recording, Registered, record
from tests.queues.test_changes import gang, queue
from trainyard.cluster_state.queues import LiveQueues
from trainyard.platform.takeover.former_objects import FormerObject
from trainyard.platform.takeover.namespace_contents import NamespaceContents

KUBECONFIG = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gpu",
        "clusters": [{"name": "gpu", "cluster": {"server": "https://gpu.example:6443"}}],
        "contexts": [{"name": "gpu", "context": {"cluster": "gpu", "user": "gpu"}}],
        "users": [{"name": "gpu", "user": {"token": "hidden-token"}}],
    }
)
SETTINGS = {
    "fabric": {"tierNames": ["rack"], "domains": [{"name": "rack-a", "nodes": ["gpu-1", "gpu-2"]}]},
    "queues": {"vision": {"deserved": {"nvidia.com/gpu": "16"}}},
}
QUEUES = ("queues", "topology")
OWN = {"trainyard.dev/stack": "local"}


class Cluster(pulumi.CustomResource):
    """A cluster of the same program."""

    kubeconfig: pulumi.Output[str]
    context: pulumi.Output[str]

    def __init__(self, **inputs: Any) -> None:
        super().__init__("cloud:index:Cluster", "cluster", {"kubeconfig": None, "context": None, **inputs})


def platform(opts: pulumi.ResourceOptions | None = None, *, name: str = "training", **args: Any) -> TrainingPlatform:
    values = {"kubeconfig": KUBECONFIG, "settings": SETTINGS, "components": QUEUES, **args}
    return TrainingPlatform(name, TrainingPlatformArgs(**values), opts)


def declare(**args: Any) -> None:
    platform(**args)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recording]:
    def run(
        program: Callable[[], object], *, preview: bool = False, live: LiveObjects | None = None, **more: Any
    ) -> Recording:
        found = live or LiveObjects({("v1", "Node", "", name): {"name": name} for name in ("gpu-1", "gpu-2")})
        monkeypatch.setattr(training_platform, "list_live_objects", lambda *_: found)
        return record({}, monkeypatch, program=program, preview=preview, live=found, **more)

    return run


def foreign() -> LiveObjects:
    address = ("scheduling.volcano.sh/v1beta1", "Queue", "", "vision")
    return LiveObjects({address: {"name": "vision", "labels": {"trainyard.dev/stack": "other"}}})


def test_an_unknown_kubeconfig_is_not_read_in_a_preview(run: Callable[..., Recording]) -> None:
    recording = run(lambda: declare(kubeconfig=Cluster().kubeconfig), preview=True, live=foreign())
    assert {each.name for each in recording.objects} == {"Queue/vision", "HyperNode/rack-a"}


def test_the_check_of_owners_waits_for_the_kubeconfig_and_precedes_every_object(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Recording] = []
    monkeypatch.setattr("tests.components.recording.Recording", lambda: recorded.append(Recording()) or recorded[-1])
    with pytest.raises(pulumi.RunError, match=r"Queue vision: exists already and was not created by this stack"):
        run(lambda: declare(kubeconfig=Cluster(kubeconfig=KUBECONFIG).kubeconfig), live=foreign())
    assert recorded[0].objects == []


def test_a_cluster_without_conflicts_gets_the_objects(run: Callable[..., Recording]) -> None:
    recording = run(lambda: declare(kubeconfig=Cluster(kubeconfig=KUBECONFIG).kubeconfig))
    assert {each.name for each in recording.objects} == {"Queue/vision", "HyperNode/rack-a"}


def test_a_preview_that_is_requested_without_a_cluster_reads_none(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_NO_CLUSTER", "true")
    kubeconfig = pulumi.Output.from_input(KUBECONFIG)
    assert run(lambda: declare(kubeconfig=kubeconfig), preview=True, live=foreign()).objects
    with pytest.raises(pulumi.RunError, match="only a preview works without a cluster"):
        run(lambda: declare(kubeconfig=kubeconfig))


@pytest.mark.parametrize("output", [True, False], ids=["output", "known"])
@pytest.mark.parametrize("preview", [True, False])
def test_adoption_is_rejected_because_no_command_would_give_back_what_is_taken(
    output: bool, preview: bool, run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Recording] = []
    monkeypatch.setattr("tests.components.recording.Recording", lambda: recorded.append(Recording()) or recorded[-1])

    def program() -> None:
        kubeconfig = Cluster(kubeconfig=KUBECONFIG).kubeconfig if output else KUBECONFIG
        declare(kubeconfig=kubeconfig, settings={**SETTINGS, "adopt": True})

    nodes = {("v1", "Node", "", name): {"name": name} for name in ("gpu-1", "gpu-2")}
    others = LiveObjects(nodes | {address: {"name": "vision"} for address in foreign().metadata})
    former: list[FormerObject] = []
    with pytest.raises(pulumi.RunError, match=r"settings\.adopt is not supported here: only `trainyard destroy` gives"):
        run(program, preview=preview, live=others, recorded=former.extend)
    assert recorded[0].objects == []
    assert former == []


def test_the_provider_follows_what_the_platform_depends_on(run: Callable[..., Recording]) -> None:
    def program() -> None:
        platform(pulumi.ResourceOptions(depends_on=[Cluster()]))

    recording = run(program)
    (provider,) = (each for each in recording.resources.values() if each.type == "pulumi:providers:kubernetes")
    assert recording.before(provider) == {"cluster"}
    assert all(each.provider.startswith(provider.urn) for each in recording.objects)


def test_the_content_of_a_kubeconfig_is_a_secret(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = run(declare)
    (provider,) = (each for each in recording.resources.values() if each.type == "pulumi:providers:kubernetes")
    given = provider.inputs["kubeconfig"]
    assert pulumi.runtime.rpc.is_rpc_secret(given), "the state would contain the kubeconfig in clear text"


def test_an_image_may_be_an_output(run: Callable[..., Recording]) -> None:
    def program() -> None:
        images = {"vc-scheduler": pulumi.Output.concat("registry.example/", "scheduler:1")}
        settings = {**SETTINGS, "jobset": {"install": "existing"}, "trainer": {"install": True}}
        platform(settings=settings, components=["volcano", "trainer"], images=images)

    deployment = run(program).one("Deployment/volcano-system/volcano-scheduler")
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/scheduler:1"


def test_transformations_and_aliases_reach_the_objects(run: Callable[..., Recording]) -> None:
    seen: list[str] = []

    def transformation(args: pulumi.ResourceTransformationArgs) -> None:
        seen.append(args.type_)

    def program() -> None:
        platform(pulumi.ResourceOptions(transformations=[transformation], aliases=[pulumi.Alias(name="former")]))

    recording = run(program)
    assert "kubernetes:scheduling.volcano.sh/v1beta1:Queue" in seen
    (own,) = (each for each in recording.resources.values() if each.type == "trainyard:index:TrainingPlatform")
    assert "former" in {name for _, name in own.aliases}


def provider_of(recording: Recording) -> Registered:
    (provider,) = (each for each in recording.resources.values() if each.type == "pulumi:providers:kubernetes")
    return provider


@pytest.mark.parametrize(
    "alias",
    [
        pulumi.Alias(name="training"),
        "urn:pulumi:local::trainyard::trainyard:index:TrainingPlatform::training",
        pulumi.Alias(name="training", parent=None),
    ],
    ids=["name", "urn", "no-parent"],
)
def test_another_name_with_an_alias_keeps_the_provider(
    alias: pulumi.Alias | str, run: Callable[..., Recording]
) -> None:
    """Another identifier of the cluster, or a new provider, would replace every object."""
    former = provider_of(run(declare))
    renamed = provider_of(run(lambda: platform(pulumi.ResourceOptions(aliases=[alias]), name="gpu")))
    assert renamed.inputs["clusterIdentifier"] == former.inputs["clusterIdentifier"]
    assert renamed.name == "gpu-kubernetes"
    # The mock monitor knows neither project nor stack.
    assert former.urn.replace("stack::project", "local::trainyard") in renamed.alias_urns


@pytest.mark.parametrize("project", ["trainyard", "other-team"])
def test_a_stack_of_the_same_name_in_another_project_is_another_owner(
    project: str, run: Callable[..., Recording]
) -> None:
    labels = run(declare, project=project).one("Queue/vision").inputs["metadata"]["labels"]
    address = ("scheduling.volcano.sh/v1beta1", "Queue", "", "vision")
    nodes = {("v1", "Node", "", name): {"name": name} for name in ("gpu-1", "gpu-2")}
    found = LiveObjects({**nodes, address: {"name": "vision", "labels": labels}})
    assert run(declare, project=project, live=found).one("Queue/vision")
    with pytest.raises(pulumi.RunError, match=r"Queue vision: exists already and was not created by this stack"):
        run(declare, project="team", live=found)


def test_the_label_names_project_and_stack() -> None:
    assert owner_of("trainyard", "prod") == "prod"
    assert owner_of("team", "prod") == "team.prod"
    pairs = [
        ("team.a", "b"),
        ("team", "a.b"),
        ("team", "x" * 60),
        ("team", "x" * 61),
        ("_team", "prod"),
        ("team", "b_"),
    ]
    owners = {owner_of(*pair) for pair in pairs}
    assert len(owners) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", each) for each in owners)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"settings": {"cluster": {"provider": "kind"}}}, r"settings\.cluster is not supported here"),
        ({"components": ["queue"]}, r"components\.queue: unknown component"),
        ({"settings": {"queue": {}}}, r"trainyard:queue: unknown setting"),
        ({"images": {"scheduler": "a:1"}}, r"trainyard:images\.scheduler: unknown image"),
        ({"kubeconfig": "/missing/kubeconfig"}, r"/missing/kubeconfig is not a file"),
        (
            {"settings": {"policies": {"folders": ["polices"]}}, "components": ["policies"]},
            r"/polices: this folder does not exist",
        ),
    ],
)
def test_an_invalid_argument_is_named(args: dict[str, Any], message: str, run: Callable[..., Recording]) -> None:
    with pytest.raises(pulumi.RunError, match=message):
        run(lambda: declare(**args))


def test_the_error_of_an_invalid_kubeconfig_does_not_contain_it(run: Callable[..., Recording]) -> None:
    with pytest.raises(pulumi.RunError, match="the value is not a kubeconfig") as caught:
        run(lambda: declare(kubeconfig="token: hidden-token\nuser: a\n"))
    assert "hidden-token" not in str(caught.value)


def test_a_path_is_passed_to_the_provider_as_it_is(run: Callable[..., Recording], tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    recording = run(lambda: declare(kubeconfig=str(path)))
    (provider,) = (each for each in recording.resources.values() if each.type == "pulumi:providers:kubernetes")
    assert provider.inputs["kubeconfig"] == str(path)


class Pool(pulumi.CustomResource):
    """Nodes of the cluster."""

    def __init__(self) -> None:
        super().__init__("cloud:index:Pool", "pool", {})


TENANT = {"trainyard.dev/tenant": "leaving"}
OLD_QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue", "", "old")
WORKLOADS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "workloads.kueue.x-k8s.io")
HELD = ("kueue.x-k8s.io/v1beta2", "Workload", "vision", "job-a")
RETIRED_QUEUE = {**SETTINGS, "queues": {**SETTINGS["queues"], "old": {"state": "retired"}}}
RETIRED_TENANT = {**SETTINGS, "tenants": {"leaving": {"queues": ["vision"], "state": "retired"}}}


def existing(*others: tuple[tuple[str, str, str, str], dict[str, Any]], nodes: tuple[str, ...]) -> LiveObjects:
    """Return a cluster with nodes and objects of this stack."""
    found: dict[tuple[str, str, str, str], dict[str, Any]] = {
        ("v1", "Node", "", name): {"name": name} for name in nodes
    }
    return LiveObjects(found | {address: {"name": address[3], "labels": OWN, **body} for address, body in others})


@pytest.mark.parametrize(
    ("settings", "live", "message"),
    [
        (SETTINGS, existing(nodes=("gpu-3",)), "2 of 2 nodes of the fabric are missing in the cluster"),
        (
            {**SETTINGS, "protect": True},
            existing((("v1", "Namespace", "", "leaving"), {"labels": OWN | TENANT}), nodes=("gpu-1", "gpu-2")),
            "tenant 'leaving' would be removed",
        ),
        (
            SETTINGS,
            existing((WORKLOADS, {}), (HELD, {"finalizers": ["kueue"]}), nodes=("gpu-1", "gpu-2")),
            "would remove a component that is in use",
        ),
        (
            RETIRED_TENANT,
            existing((("v1", "Namespace", "", "leaving"), {"labels": OWN | TENANT}), nodes=("gpu-1", "gpu-2")),
            "namespace leaving contains 1 PersistentVolumeClaim",
        ),
        (SETTINGS, existing((OLD_QUEUE, {}), nodes=("gpu-1", "gpu-2")), "while they contain jobs"),
    ],
    ids=["missing nodes", "removed tenant", "removed component", "retired tenant with data", "removed queue with jobs"],
)
@pytest.mark.parametrize("output", [True, False], ids=["output", "known"])
def test_an_output_is_compared_as_a_known_kubeconfig_is_before_the_first_object(
    settings: dict[str, Any],
    live: LiveObjects,
    message: str,
    output: bool,
    run: Callable[..., Recording],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contents = {"leaving": NamespaceContents({"PersistentVolumeClaim": ("checkpoints",)})}
    monkeypatch.setattr(components.common.tenant_retirement, "run_in_thread", lambda _: contents)
    recorded: list[Recording] = []
    monkeypatch.setattr("tests.components.recording.Recording", lambda: recorded.append(Recording()) or recorded[-1])

    def program() -> None:
        kubeconfig = Cluster(kubeconfig=KUBECONFIG).kubeconfig if output else KUBECONFIG
        declare(kubeconfig=kubeconfig, settings=settings, components=(*QUEUES, "tenants"))

    with pytest.raises(pulumi.RunError, match=message):
        run(program, live=live, queues=LiveQueues((queue("old"),), (gang("a", "old"),)))
    assert recorded[0].objects == []
    # The successor of a retired object begins its deletion, which the next run would continue. It waits as well:
    # a component passes the provider to its children, and the SDK awaits it.
    assert [each for each in recorded[0].resources.values() if each.type.startswith("trainyard:retired:")] == []


def test_a_cluster_without_any_node_may_be_new(run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    assert run(lambda: declare(kubeconfig=Cluster(kubeconfig=KUBECONFIG).kubeconfig), live=existing(nodes=())).objects
    assert any("2 of 2 nodes of the fabric are missing" in each for each in warnings)
    with pytest.raises(pulumi.RunError, match="2 of 2 nodes"):
        run(declare, live=existing(nodes=()))


def test_the_comparison_waits_for_what_the_platform_depends_on(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def compared(*_: Any, **__: Any) -> Comparison:
        order.append("compared")
        return Comparison()

    def program() -> None:
        kubeconfig = Cluster(kubeconfig=KUBECONFIG).kubeconfig

        async def created() -> pulumi.Resource:
            await kubeconfig.future()
            await asyncio.sleep(0.01)
            order.append("pool")
            return Pool()

        platform(pulumi.ResourceOptions(depends_on=[pulumi.Output.from_input(created())]), kubeconfig=kubeconfig)

    monkeypatch.setattr(training_platform, "compare_with_cluster", compared)
    recording = run(program)
    assert order == ["pool", "compared"]
    (provider,) = (each for each in recording.resources.values() if each.type == "pulumi:providers:kubernetes")
    assert recording.before(provider) == {"cluster", "pool"}


def test_a_retired_queue_stays_and_says_how_it_is_deleted(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    settings = {**RETIRED_QUEUE, "protect": True}
    recording = run(lambda: declare(kubeconfig=Cluster(kubeconfig=KUBECONFIG).kubeconfig, settings=settings))
    assert not recording.one("Queue/old").protect
    assert recording.one("Queue/vision").protect
    (warning,) = (each for each in warnings if "'old'" in each)
    assert "once it is closed and has no jobs, remove its entry" in warning


@pytest.mark.parametrize("output", [True, False], ids=["output", "known"])
def test_the_entry_of_a_retired_queue_is_removed_and_the_platform_lists_it_until_it_is_gone(
    output: bool, run: Callable[..., Recording]
) -> None:
    live = existing((OLD_QUEUE, {}), nodes=("gpu-1", "gpu-2"))
    retired = frozenset({"old"})
    queues = LiveQueues((queue("old", state="Closed"),), (), retired, retired)

    def program() -> None:
        kubeconfig = Cluster(kubeconfig=KUBECONFIG).kubeconfig if output else KUBECONFIG
        declare(kubeconfig=kubeconfig, components=(*QUEUES, "platform"))

    recording = run(program, live=live, queues=queues)
    assert "Queue/old" not in {each.name for each in recording.objects}
    assert recording.one("Platform/platform").inputs["spec"]["retiredQueues"] == ["old"]


def test_the_removed_queues_of_an_unknown_cluster_are_unknown(run: Callable[..., Recording]) -> None:
    def program() -> None:
        declare(kubeconfig=Cluster().kubeconfig, components=(*QUEUES, "platform"))

    spec = run(program, preview=True).one("Platform/platform").inputs["spec"]
    assert isinstance(spec["retiredQueues"], pulumi.output.Unknown)
