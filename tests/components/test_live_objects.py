"""The objects of this stack are read with little: metadata only, by label where its own namespaces are."""

from __future__ import annotations

from components.common.adoption_check import Ownership
from components.common.ownership import _list_live_objects
from components.common.replacement import Replacements
from tests.components.recording import FakeReader, embedded_access
from tests.kube.fake_api import FakeApi, serving

OWN = {"trainyard.dev/stack": "local"}
CLUSTER = {("v1", "Namespace"): "namespaces"}
NAMESPACED = {("v1", "ConfigMap"): "configmaps", ("apps/v1", "Deployment"): "deployments"}


def config_map(name: str, namespace: str, labels: dict[str, str]) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"a": "b"}}


async def test_own_namespaces_are_searched_by_label_and_others_whole() -> None:
    async with serving(FakeApi()) as api:
        for name, labels in (("vision", OWN), ("foreign", {}), ("elsewhere", {})):
            api.put("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, namespace, labels in (
            ("ours", "vision", OWN),
            ("of-a-user", "vision", {}),
            ("theirs", "foreign", {}),
            ("unrelated", "elsewhere", {}),
        ):
            api.put("/api/v1/configmaps", config_map(name, namespace, labels))
        live = await _list_live_objects(api.connection, "local", {"vision", "foreign"}, CLUSTER, NAMESPACED)
    found = {(namespace, name) for _, kind, namespace, name in live.metadata if kind == "ConfigMap"}
    assert found == {("vision", "ours"), ("foreign", "theirs")}
    ownership = Ownership(
        live,
        "local",
        may_adopt=False,
        reader=FakeReader({}, []),
        replacements=Replacements(embedded_access()),
        plurals=NAMESPACED,
    )
    ids = [
        ownership.import_id({"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, namespace, OWN)})
        for name, namespace in (("ours", "vision"), ("theirs", "foreign"), ("missing", "vision"))
    ]
    assert ids == ["vision/ours", None, None]
