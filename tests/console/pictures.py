"""Pictures of the console for README and docs, from the real pages: `python -m tests.console.pictures`."""

from __future__ import annotations

from pathlib import Path

from tests.console.browser import browser
from tests.console.served_console import served
from tests.explain.recorded_clusters import Cluster
from tests.support import ROOT
from trainyard.console.recorded_source import RecordedSource

FOLDER = ROOT / "docs" / "images"
PAGES = {
    "console.png": ("/fabric?color=tenant", 640),
    "console-queues.png": ("/queues", 560),
    "console-job.png": ("/jobs/trainjob/speech/eval", 620),
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
    made.fill("vision", names[0:40], name="pretrain")
    made.fill("vision", names[48:60], name="finetune")
    made.fill("language", names[64:100], name="llm-70b")
    made.fill("language", names[112:120], name="reward")
    made.fill("speech", names[128:150], name="whisper")
    made.job("eval", "speech", pods=24, tier=1)
    made.find("Node", names[44])["spec"] = {"unschedulable": True}
    made.find("Node", names[171])["status"]["conditions"][0]["status"] = "False"
    return made


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
