"""Pictures of the console for README and docs, from the real pages: `python -m tests.console.pictures`."""

from __future__ import annotations

from pathlib import Path

from tests.console.browser import browser
from tests.console.served_console import served
from tests.explain.recorded_clusters import Cluster, Job, minutes_ago
from tests.support import ROOT
from trainyard.insight.console.recorded_source import RecordedSource

FOLDER = ROOT / "docs" / "images"
PAGES = {
    "console.png": ("/fabric?color=tenant", 640),
    "console-queues.png": ("/queues", 560),
    "console-job.png": ("/jobs/trainjob/speech/eval", 860),
    "console-timeline.png": ("/jobs", 560),
}
"""Page and height of each picture."""
MAX_BYTES = 200_000


def cluster() -> Cluster:
    """Return a cluster of twelve racks that three tenants share."""
    made = Cluster(racks=12, nodes_per_rack=16)
    names = made.names
    made.queue("research", deserved=1536, capability=1536)
    for name, gpus in (("vision", 320), ("language", 640), ("speech", 384)):
        made.queue(name, "research", deserved=gpus, capability=1536, guarantee=gpus * 3 // 4)
    placed(made, "vision", "pretrain", names[0:40], minutes=600, since=540)
    placed(made, "vision", "finetune", names[48:60], minutes=500, since=300)
    placed(made, "language", "llm-70b", names[64:100], minutes=420, since=400)
    placed(made, "language", "reward", names[112:120], minutes=300, since=80, evicted=150)
    placed(made, "speech", "whisper", names[128:150], minutes=200, since=60)
    made.job("eval", "speech", pods=24, tier=1, minutes=45)
    taken = made.job("probe", "vision", pods=8, minutes=240)
    evict(made, taken.everywhere(nodeSelector={"gpu": "h200"}), 30)
    made.find("Node", names[44])["spec"] = {"unschedulable": True}
    made.find("Node", names[171])["status"]["conditions"][0]["status"] = "False"
    return made


def placed(
    made: Cluster, namespace: str, name: str, nodes: list[str], *, minutes: int, since: int, evicted: int = 0
) -> None:
    """Add a job that was created, evicted once where it is said, and placed some minutes ago."""
    job = made.job(name, namespace, pods=len(nodes), nodes=nodes, minutes=minutes)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": minutes_ago(since)}
    for pod in job.pods:
        pod["status"]["conditions"] = [scheduled]
    if evicted:
        evict(made, job, evicted)


def evict(made: Cluster, job: Job, minutes: int) -> None:
    """Let the scheduler have taken the nodes of a job back some minutes ago."""
    made.event(job.pod_group, "Evict", "because of reclaim")
    made.bodies[-1]["lastTimestamp"] = minutes_ago(minutes)


def draw(folder: Path = FOLDER) -> None:
    """Write the pictures."""
    folder.mkdir(exist_ok=True)
    with browser() as found, served(RecordedSource(cluster().observed, "production")) as address:
        found.open(address)
        found.wait("return document.querySelector('main') != null")
        for name, (page, height) in PAGES.items():
            size = {"width": 1080, "height": height, "deviceScaleFactor": 1, "mobile": False}
            found.command("Emulation.setDeviceMetricsOverride", **size)
            found.open(address.partition("/?")[0] + page)
            found.wait("return !document.querySelector('#page').innerText.includes('follows')")
            content = found.screenshot()
            assert len(content) <= MAX_BYTES, (name, len(content))
            (folder / name).write_bytes(content)
            print(f"{name}: {len(content)} bytes")


if __name__ == "__main__":
    draw()
