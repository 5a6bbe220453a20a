"""Arguments of the platform that are inputs: values, outputs, awaitables, and documents that contain them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pulumi
import pytest
import yaml

from components import training_platform
from components.cluster_comparison import Comparison
from components.common.given_kubeconfig import GivenKubeconfig
from tests.components.recording import Recording
from tests.components.test_training_platform import (
    KUBECONFIG,
    SETTINGS,
    Cluster,
    declare,
    foreign,
    platform,
    provider_of,
    run,
)
from trainyard.errors import TrainyardError
from trainyard.local.cluster.provider import ClusterAccess

__all__ = ["run"]

OBJECTS = {"Queue/vision", "HyperNode/rack-a"}


def document(server: Any) -> dict[str, Any]:
    """Return a kubeconfig with a server, which may be an output."""
    return {**yaml.safe_load(KUBECONFIG), "clusters": [{"name": "gpu", "cluster": {"server": server}}]}


def passed(recording: Recording) -> Any:
    """Return the kubeconfig that the provider receives, as a document."""
    given = provider_of(recording).inputs["kubeconfig"]
    assert pulumi.runtime.rpc.is_rpc_secret(given), "the state would contain the kubeconfig in clear text"
    return yaml.safe_load(given["value"])


def named(recording: Recording) -> set[str]:
    return {each.name for each in recording.objects}


def test_a_document_may_contain_outputs_of_the_cluster(run: Callable[..., Recording]) -> None:
    def program() -> None:
        cluster = Cluster(kubeconfig="https://new.example")
        declare(kubeconfig=document(cluster.kubeconfig))

    recording = run(program)
    assert named(recording) == OBJECTS
    assert passed(recording) == document("https://new.example")
    with pytest.raises(pulumi.RunError, match=r"Queue vision: exists already and was not created by this stack"):
        run(program, live=foreign())


def test_a_document_with_an_unknown_output_is_not_read_in_a_preview(run: Callable[..., Recording]) -> None:
    recording = run(lambda: declare(kubeconfig=document(Cluster().kubeconfig)), preview=True, live=foreign())
    assert named(recording) == OBJECTS


def test_an_awaitable_is_awaited(run: Callable[..., Recording]) -> None:
    async def content() -> str:
        await asyncio.sleep(0)
        return KUBECONFIG

    recording = run(lambda: declare(kubeconfig=content()))
    assert named(recording) == OBJECTS
    assert passed(recording) == yaml.safe_load(KUBECONFIG)


def test_a_path_may_be_a_path_object(run: Callable[..., Recording], tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert provider_of(run(lambda: declare(kubeconfig=file))).inputs["kubeconfig"] == str(file)


@pytest.mark.parametrize("value", [b"clusters: []", {"clusters": [object()]}, 7, None], ids=type)
def test_another_value_is_rejected_at_once(value: object) -> None:
    with pytest.raises(TrainyardError, match="the value is not a kubeconfig"):
        GivenKubeconfig(value)


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Path, Path]:
    """Two kubeconfigs: the second has the user of the first one's context, and a context of its own."""
    first, second = tmp_path / "first", tmp_path / "second"
    whole = yaml.safe_load(KUBECONFIG)
    other = yaml.safe_load(KUBECONFIG.replace("gpu", "cpu"))
    first.write_text(yaml.safe_dump({**whole, "users": []}))
    sections = ("clusters", "contexts", "users")
    second.write_text(yaml.safe_dump(other | {"users": [*other["users"], *whole["users"]]} | {"apiVersion": "v1"}))
    assert all(other[each] for each in sections)
    return first, second


def test_a_list_of_files_is_searched_for_the_context(run: Callable[..., Recording], listed: tuple[Path, Path]) -> None:
    text = f"/missing/kubeconfig:{listed[0]}:{listed[1]}"
    alone = provider_of(run(lambda: declare(kubeconfig=text, context="cpu")))
    assert alone.inputs["kubeconfig"] == str(listed[1]), "a file that has the whole context is passed as a path"
    merged = passed(run(lambda: declare(kubeconfig=text)))
    assert merged == yaml.safe_load(KUBECONFIG), "the current context, without the credentials of others"


def test_a_list_without_files_is_an_error_that_names_it() -> None:
    with pytest.raises(TrainyardError, match=r"/missing/a:/missing/b is not a file"):
        GivenKubeconfig("/missing/a:/missing/b")


@pytest.mark.parametrize("form", ["content", "file", "output", "awaitable"])
def test_the_context_may_be_an_output(
    form: str, run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = yaml.safe_load(KUBECONFIG)
    whole["contexts"].append({"name": "other", "context": {"cluster": "gpu", "user": "gpu"}})
    text = yaml.safe_dump(whole)
    (tmp_path / "kubeconfig").write_text(text)
    read: list[tuple[str | None, str]] = []
    found = training_platform.list_live_objects

    def recorded(access: ClusterAccess, *others: Any) -> Any:
        read.append((access.context, yaml.safe_load(access.kubeconfig.read_text())["current-context"]))
        return found(access, *others)

    def program() -> None:
        nonlocal found
        found = training_platform.list_live_objects
        monkeypatch.setattr(training_platform, "list_live_objects", recorded)
        cluster = Cluster(kubeconfig=text, context="other")
        file = tmp_path / "kubeconfig"
        kubeconfig: Any = {"output": cluster.kubeconfig, "file": file}.get(form, text)
        declare(kubeconfig=kubeconfig, context=cluster.context.future() if form == "awaitable" else cluster.context)

    recording = run(program)
    assert named(recording) == OBJECTS
    assert read == [(None, "other")], "the comparison reads the cluster of the context"
    assert provider_of(recording).inputs["context"] == "other"
    assert passed(recording)["current-context"] == "other"
    (outputs,) = (each for urn, each in recording.outputs.items() if urn.endswith("TrainingPlatform::training"))
    assert outputs["kubeconfigContext"] == "other"


def test_a_context_that_is_an_output_must_exist(run: Callable[..., Recording]) -> None:
    def program() -> None:
        declare(context=Cluster(context="gpuu").context)

    with pytest.raises(pulumi.RunError, match=r"kubeconfig: no context 'gpuu'"):
        run(program)


def test_outputs_in_settings_are_named_with_the_fix(run: Callable[..., Recording]) -> None:
    async def queue() -> str:
        return "vision"

    waiting = queue()

    def program() -> None:
        settings = {
            **SETTINGS,
            "queues": MappingProxyType({"vision": {"weight": pulumi.Output.from_input(2)}}),
            "tenants": {"a": {"queues": [waiting]}},
        }
        declare(settings=settings)

    with pytest.raises(pulumi.RunError) as caught:
        run(program)
    waiting.close()
    assert "settings.queues.vision.weight: an output is not supported" in str(caught.value)
    assert "settings.tenants.a.queues[0]: an output is not supported" in str(caught.value)
    assert "argument images" in str(caught.value)


def test_settings_that_are_an_output_are_named_with_the_fix(run: Callable[..., Recording]) -> None:
    with pytest.raises(pulumi.RunError, match="settings: an output is not supported"):
        run(lambda: declare(settings=pulumi.Output.from_input(SETTINGS)))


class Pool(pulumi.CustomResource):
    """Nodes of the cluster, in a component."""

    def __init__(self, size: Awaitable[int], opts: pulumi.ResourceOptions) -> None:
        super().__init__("cloud:index:Pool", "pool", {"size": size}, opts)


class Pools(pulumi.ComponentResource):
    """Node pools of a team, in two levels."""

    def __init__(self, size: Awaitable[int]) -> None:
        super().__init__("team:index:Pools", "pools")
        inner = pulumi.ComponentResource("team:index:Inner", "inner", None, pulumi.ResourceOptions(parent=self))
        Pool(size, pulumi.ResourceOptions(parent=inner))


@pytest.mark.parametrize("form", ["one", "list", "output"])
def test_the_comparison_waits_for_the_resources_of_a_component(
    form: str, run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def compared(*_: Any, **__: Any) -> Comparison:
        order.append("compared")
        return Comparison()

    def program() -> None:
        kubeconfig = Cluster(kubeconfig=KUBECONFIG).kubeconfig

        async def size() -> int:
            await kubeconfig.future()
            await asyncio.sleep(0.01)
            order.append("pool")
            return 2

        pools = Pools(size())
        after: Any = {"one": pools, "list": [pools], "output": pulumi.Output.from_input([pools])}[form]
        platform(pulumi.ResourceOptions(depends_on=after), kubeconfig=kubeconfig)

    monkeypatch.setattr(training_platform, "compare_with_cluster", compared)
    recording = run(program)
    assert order == ["pool", "compared"]
    assert "pool" in recording.before(provider_of(recording))
