"""A state is not applied to a cluster other than the one that it describes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.components.recording import stack_config
from trainyard.errors import TrainyardError
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy import engine_run, recorded_cluster
from trainyard.platform.deploy.recorded_cluster import check_cluster, reject_other_cluster, reject_other_kubeconfig
from trainyard.platform.deploy.recorded_state import RecordedState
from trainyard.progress import SilentProgress
from trainyard.settings.stack_loader import parse_stack

RECORDED = {"volcano-system": "uid-1", "vision": "uid-2"}
OPERATIONS = ("up", "preview", "destroy", "refresh")


def namespace(name: str, uid: str, stack: str | None = "local") -> dict[str, Any]:
    labels = {"trainyard.dev/stack": stack} if stack else {}
    return {"metadata": {"name": name, "uid": uid, "labels": labels}}


REBUILT = [namespace("kube-system", "uid-9", None), namespace("volcano-system", "uid-8")]
FOREIGN = [namespace("volcano-system", "uid-7", "other")]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_recorded_namespace_is_enough(operation: str) -> None:
    check_cluster("local", RECORDED, [namespace("vision", "uid-2")], operation, "kind")


@pytest.mark.parametrize("live", [[], REBUILT], ids=["empty", "rebuilt"])
@pytest.mark.parametrize("operation", ["up", "preview", "destroy"])
def test_a_rebuilt_cluster_is_rejected_until_the_state_is_refreshed(operation: str, live: list[dict[str, Any]]) -> None:
    with pytest.raises(TrainyardError, match="none of the 2 namespaces") as caught:
        check_cluster("local", RECORDED, live, operation, "kind")
    assert [each.path for each in caught.value.findings] == ["Namespace/vision", "Namespace/volcano-system"]
    assert "trainyard refresh --stack local" in caught.value.fix
    check_cluster("local", RECORDED, live, "refresh", "kind")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_cluster_of_another_stack_is_not_even_read_into_the_state(operation: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        check_cluster("local", RECORDED, FOREIGN, operation, "kind")
    assert caught.value.findings[1].message == "the state has uid uid-1, the cluster uid uid-7 of stack other"
    assert "refresh" not in caught.value.fix


@pytest.mark.parametrize("operation", OPERATIONS)
def test_namespaces_that_another_tool_created_in_a_rebuilt_cluster_have_a_way_on(operation: str) -> None:
    created = [namespace("vision", "uid-8", None), namespace("volcano-system", "uid-9", "local")]
    with pytest.raises(TrainyardError) as caught:
        check_cluster("local", RECORDED, created, operation, "kind")
    assert (
        "if it was rebuilt, and another tool created namespaces vision, delete them, or give them to the stack, whose "
        "`destroy` then deletes them: kubectl label namespace vision trainyard.dev/stack=local; then run "
        "`trainyard refresh --stack local` and `trainyard up --stack local`"
    ) in caught.value.fix
    check_cluster("local", RECORDED, [namespace(name, "uid-8") for name in RECORDED], "refresh", "kind")


FORMER = ".former"


def state(folder: Path, *resources: dict[str, Any], suffix: str = ".json") -> RecordedState:
    stacks = folder / ".pulumi" / "stacks"
    file = stacks / "trainyard" / f"local{suffix}"
    if suffix.startswith(FORMER):  # the layout without projects
        file = stacks / f"local{suffix.removeprefix(FORMER)}"
    file.parent.mkdir(parents=True)
    latest = {"resources": [{"urn": "stack", "type": "pulumi:pulumi:Stack"}, *resources]}
    file.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    opened: Any = SimpleNamespace(name="local", export_stack=lambda: SimpleNamespace(deployment=latest))
    return RecordedState(opened, folder)


def recorded(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "kubernetes:core/v1:Namespace", "outputs": namespace(name, f"uid of {name}"), **fields}


def test_a_state_without_namespaces_describes_no_cluster(tmp_path: Path) -> None:
    nowhere = ClusterAccess("c", tmp_path / "missing", "c")
    reject_other_cluster(state(tmp_path, recorded("vision", delete=True)), nowhere, "up")
    missing: Any = SimpleNamespace(name="local")
    reject_other_cluster(RecordedState(missing, tmp_path / "elsewhere"), nowhere, "up")


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst", f"{FORMER}.json", f"{FORMER}.json.gz"])
def test_namespaces_of_the_state_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    class Cluster:
        async def __aenter__(self) -> Cluster:
            return self

        async def __aexit__(self, *details: object) -> None: ...

        async def page(self, *arguments: Any, **options: Any) -> Any:
            return SimpleNamespace(items=(namespace("vision", "another uid"),))

    monkeypatch.setattr(recorded_cluster.Client, "from_kubeconfig", lambda *arguments, **options: Cluster())
    access, known = ClusterAccess("c", tmp_path / "k", "c"), state(tmp_path, recorded("vision"), suffix=suffix)
    with pytest.raises(TrainyardError, match="none of the 1 namespaces"):
        reject_other_cluster(known, access, "up")


@pytest.mark.parametrize(
    ("operation", "rejected"), [("up", False), ("preview", False), ("refresh", True), ("destroy", True)]
)
def test_operations_without_the_program_use_the_recorded_kubeconfig(
    tmp_path: Path, operation: str, *, rejected: bool
) -> None:
    """The engine reads and deletes with the provider of the state: another one on this machine is not written."""
    inputs = {"kubeconfig": "/home/alice/.kube/config", "context": "production"}
    known = state(tmp_path, {"type": "pulumi:providers:kubernetes", "inputs": inputs})
    reject_other_kubeconfig(known, ClusterAccess("c", Path("/home/alice/.kube/config"), "production"), operation)
    for kubeconfig, context in (("/home/bob/.kube/config", "production"), ("/home/alice/.kube/config", "test")):
        access = ClusterAccess("c", Path(kubeconfig), context)
        with pytest.raises(TrainyardError, match="production") if rejected else nullcontext():
            reject_other_kubeconfig(known, access, operation)


@pytest.mark.parametrize("operation", ["up", "destroy", "refresh"])
def test_a_killed_run_is_continued_with_the_recorded_kubeconfig(tmp_path: Path, operation: str) -> None:
    """`up` reads the objects again first, so it cannot record another one."""
    inputs = {"kubeconfig": "/home/alice/.kube/config", "context": "production"}
    known = state(tmp_path, {"type": "pulumi:providers:kubernetes", "inputs": inputs})
    other = ClusterAccess("c", Path("/home/bob/.kube/config"), "production")
    with pytest.raises(TrainyardError) as caught:
        reject_other_kubeconfig(known, other, operation, killed=True)
    assert "A run of stack local was killed" in caught.value.message
    assert "/home/alice/.kube/config, context production" in caught.value.message
    assert "`trainyard up" not in caught.value.fix
    assert "copy the kubeconfig to /home/alice/.kube/config" in caught.value.fix
    assert caught.value.fix.startswith(
        "if another run of the stack is in progress, wait until it has ended; otherwise "
    )
    recorded_access = ClusterAccess("c", Path("/home/alice/.kube/config"), "production")
    reject_other_kubeconfig(known, recorded_access, operation, killed=True)
    reject_other_kubeconfig(known, other, "preview", killed=True)


@pytest.mark.parametrize("operation", ["up", "destroy", "refresh"])
@pytest.mark.parametrize("killed", [True, False])
def test_pending_operations_of_a_shared_backend_show_a_killed_run(
    operation: str, killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {"kubeconfig": "/home/alice/.kube/config", "context": "production"}
    pending = {"pending_operations": [{"type": "creating"}]} if killed else {}
    resources = [{"urn": "provider", "type": "pulumi:providers:kubernetes", "inputs": inputs}]
    exported = SimpleNamespace(deployment={"resources": resources, **pending})
    opened = SimpleNamespace(name="local", export_stack=lambda: exported)
    access = ClusterAccess("c", Path("/home/bob/.kube/config"), "production")
    cluster = SimpleNamespace(access=lambda: access, keep_access=lambda: None, environment=dict)
    monkeypatch.setattr(engine_run, "Toolchain", lambda: SimpleNamespace(refuse_changed=lambda *_: None))
    monkeypatch.setattr(engine_run, "provider", lambda *_: cluster)
    monkeypatch.setattr(engine_run, "state_home", lambda: tmp_path)
    monkeypatch.setattr(engine_run, "open_workspace", lambda *_, **__: nullcontext(opened))
    monkeypatch.setattr(engine_run, "_watched_deletions", lambda *_: nullcontext())
    settings, file = parse_stack(stack_config(), source="stack"), tmp_path / "Pulumi.local.yaml"
    rejected = killed or operation != "up"
    message = "A run of stack local was killed" if killed else f"{operation} uses the kubeconfig of the last `up`"
    with (
        pytest.raises(TrainyardError, match=message) if rejected else nullcontext(),
        engine_run.engine_run(operation, "", settings, "local", file, SilentProgress()),
    ):
        assert not rejected
