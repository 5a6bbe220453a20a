from __future__ import annotations

from tests.kube.fake_api import FakeApi, eventually
from trainyard.kube.change_watch import watch_changes
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PATH = "/api/v1/configmaps"


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}}


async def test_changes_are_notified_also_after_a_watch_was_cut(api: FakeApi) -> None:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    async with api.client() as client:
        async with watch_changes(client, [CONFIG_MAPS], count):
            for name in ("a", "b"):
                await eventually(lambda: calls)
                api.put(PATH, config_map(name))
                before = calls
                await eventually(lambda before=before: calls > before)
                api.cut_watches()
                await eventually(lambda: len([each for each in api.requests if "watch" in each[1]]) > 1)
        at_the_end = calls
        api.put(PATH, config_map("c"))
        await eventually(lambda: api.find("configmaps", "c", "ns"))
        assert calls == at_the_end
