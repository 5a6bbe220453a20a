"""State that viewers share: one build a change, bounded viewers, explanations in the background."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from tests.explain.recorded_clusters import Cluster
from tests.kube.fake_api import eventually
from trainyard.cluster_state.observed import Observed
from trainyard.insight.console import shared_reader
from trainyard.insight.console.recorded_source import RecordedSource
from trainyard.insight.console.shared_reader import MAX_VIEWERS, SharedReader, TooManyViewersError


class ChangingSource(RecordedSource):
    """A cluster that a test changes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.observed, "test")
        self.cluster = cluster
        self.reads = 0
        self.read = asyncio.Event()
        self._news = asyncio.Event()
        self._lost = asyncio.Event()

    def lose(self) -> None:
        self.losses += 1
        self._lost.set()

    async def lost(self) -> None:
        await self._lost.wait()

    def change(self) -> None:
        self._news.set()

    async def changed(self) -> None:
        await self._news.wait()

    def observed(self) -> Observed:
        self._news.clear()
        self._lost.clear()
        self.reads += 1
        self.read.set()
        return Observed(self.cluster.observed.now + datetime.timedelta(seconds=self.reads), tuple(self.cluster.bodies))


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_reader, "_SHORTEST", 0.0)
    monkeypatch.setattr(shared_reader, "_SHARE", 1.0)


async def test_a_change_is_read_once_for_all_viewers() -> None:
    source = ChangingSource(Cluster())
    reader = SharedReader(source, explains=False)
    await reader.start()
    viewers = [reader.versions(str(reader.version)) for _ in range(MAX_VIEWERS)]
    waiting = [asyncio.ensure_future(anext(viewer)) for viewer in viewers]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    source.cluster.job("new")
    source.change()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == [2] * MAX_VIEWERS
    assert [row.name for row in reader.view.jobs] == ["new"]
    assert source.reads == 2
    assert [step.text for step in reader.history.steps("trainjob/vision/new")] == ["new → Waiting"]
    for viewer in viewers:
        await viewer.aclose()
    assert reader.viewers == 0
    await reader.close()


async def test_a_page_with_an_older_version_is_updated_at_once() -> None:
    reader = SharedReader(RecordedSource(Cluster().observed, "test"), explains=False)
    await reader.start()
    for after in ("0", "", "99"):
        viewer = reader.versions(after)
        assert await asyncio.wait_for(anext(viewer), 10) == reader.version
        await viewer.aclose()
    await reader.close()


async def test_the_number_of_viewers_is_bounded() -> None:
    reader = SharedReader(RecordedSource(Cluster().observed, "test"), explains=False)
    await reader.start()
    viewers = [reader.versions() for _ in range(MAX_VIEWERS)]
    for viewer in viewers:
        await anext(viewer)
    with pytest.raises(TooManyViewersError):
        await anext(reader.versions())
    await viewers[0].aclose()
    assert await anext(reader.versions()) == reader.version
    await reader.close()


async def test_waiting_jobs_are_explained_in_the_background() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.job(f"job-{number}", pods=9)
    reader = SharedReader(RecordedSource(cluster.observed, "test"))
    await reader.start()
    viewer = reader.versions(str(reader.version))
    await asyncio.wait_for(anext(viewer), 20)
    assert {reason.cause for reason in reader.view.reasons.values()} == {"gang-larger-than-cluster"}
    assert len(reader.view.reasons) == 5
    await viewer.aclose()
    await reader.close()


async def test_reasons_of_jobs_that_run_or_are_gone_are_dropped() -> None:
    cluster = Cluster()
    first, second = cluster.job("first"), cluster.job("second")
    source = ChangingSource(cluster)
    reader = SharedReader(source)
    await reader.start()
    viewer = reader.versions(str(reader.version))
    while len(reader.view.reasons) < 2:
        await asyncio.wait_for(anext(viewer), 20)
    cluster.without(*first.bodies)
    for pod, node in zip(second.pods, cluster.names, strict=False):
        pod["spec"] = {**pod["spec"], "nodeName": node}
        pod["status"] = {"phase": "Running"}
    source.change()
    while reader.view.reasons:
        await asyncio.wait_for(anext(viewer), 20)
    assert [row.state.value for row in reader.view.jobs] == ["Running"]
    await viewer.aclose()
    await reader.close()


async def test_a_state_that_cannot_be_built_is_a_fault_and_does_not_end_the_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_reader, "_IDLE", 0.0)
    source = ChangingSource(Cluster())
    reader = SharedReader(source, explains=False)
    await reader.start()
    viewer = reader.versions(str(reader.version))
    sound = source.cluster.bodies
    source.read.clear()
    source.cluster.bodies = None  # type: ignore[assignment]
    source.change()
    assert await asyncio.wait_for(anext(viewer), 10) == 2
    assert reader.fault.startswith("a newer one could not be read: ")
    assert reader.view.observed.objects == tuple(sound)
    source.cluster.bodies = sound
    source.change()
    assert await asyncio.wait_for(anext(viewer), 10) == 3
    assert reader.fault == ""
    await viewer.aclose()
    await reader.close()


async def test_lost_rights_take_effect_at_once_and_end_explanations_and_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_reader, "_SHORTEST", 600.0)  # a pause that a loss does not await
    cluster = Cluster()
    cluster.job("waits", pods=9)
    source = ChangingSource(cluster)
    reader = SharedReader(source)
    await reader.start()
    viewer = reader.versions(str(reader.version))
    while not reader.view.reasons:
        await asyncio.wait_for(anext(viewer), 20)
    await viewer.aclose()
    wide, samples = reader.view, reader.history.samples
    reader._explains = False
    reader._tasks[1].cancel()
    await asyncio.gather(reader._tasks[1], return_exceptions=True)
    source.lose()
    await eventually(lambda: reader.view is not wide)
    assert reader.view.reasons == {}
    assert reader._explained == {}
    assert reader.history.samples is not samples
    assert len(reader.history.samples) == 1
    reader._explain_one(wide, "trainjob/vision/waits", 0)  # begun before the loss
    assert wide.reasons
    assert reader.view.reasons == {}
    await reader.close()


async def test_a_state_is_current_while_nothing_changes_and_not_if_it_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_reader, "_IDLE", 0.0)
    monkeypatch.setattr(shared_reader, "_UNCHANGED", 0.01)
    source = ChangingSource(Cluster())
    reader = SharedReader(source, explains=False)
    await reader.start()
    first = reader._known
    await eventually(lambda: reader._known != first)
    assert source.reads == 1
    assert reader.is_current
    source.cluster.bodies = None  # type: ignore[assignment]
    source.change()
    monkeypatch.setattr(shared_reader, "_CURRENT", 0.3)
    await eventually(lambda: not reader.is_current)
    assert reader.fault
    await reader.close()


async def test_a_pause_is_bounded_whatever_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_reader, "_LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(shared_reader, "_IDLE", 0.0)
    source = ChangingSource(Cluster())
    reader = SharedReader(source, explains=False, share=lambda: 1e-9)
    await reader.start()
    for version in (2, 3):
        source.change()
        await eventually(lambda version=version: reader.version >= version)
    await reader.close()
