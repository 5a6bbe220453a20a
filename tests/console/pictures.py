"""Picture of the console for README and docs, from the real pages: `python -m tests.console.pictures`."""

from __future__ import annotations

from pathlib import Path

from tests.console.browser import browser
from tests.console.served_console import served
from tests.explain.recorded_clusters import Cluster
from tests.support import ROOT
from trainyard.console.recorded_source import RecordedSource

FILE = ROOT / "docs" / "images" / "console.png"
MAX_BYTES = 200_000


def cluster() -> Cluster:
    """Return a cluster of twelve racks that three tenants share."""
    made = Cluster(racks=12, nodes_per_rack=16)
    names = made.names
    made.queue("research", deserved=1536, capability=1536)
    for name, gpus in (("vision", 640), ("language", 640), ("speech", 256)):
        made.queue(name, "research", deserved=gpus, capability=1536)
    made.fill("vision", names[0:40], name="pretrain")
    made.fill("vision", names[48:60], name="finetune")
    made.fill("language", names[64:100], name="llm-70b")
    made.fill("language", names[112:120], name="reward")
    made.fill("speech", names[128:150], name="whisper")
    made.job("eval", "speech", pods=24, tier=1)
    made.find("Node", names[44])["spec"] = {"unschedulable": True}
    made.find("Node", names[171])["status"]["conditions"][0]["status"] = "False"
    return made


def draw(file: Path = FILE) -> int:
    """Write the picture; return its size in bytes."""
    with browser() as found, served(RecordedSource(cluster().observed, "production")) as address:
        found.command("Emulation.setDeviceMetricsOverride", width=980, height=640, deviceScaleFactor=1, mobile=False)
        found.open(address)
        found.wait("return document.querySelector('main') != null")
        found.open(address.partition("/?")[0] + "/fabric?color=tenant")
        content = found.screenshot()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    return len(content)


if __name__ == "__main__":
    size = draw()
    assert size <= MAX_BYTES, size
    print(f"{FILE.relative_to(ROOT)}: {size} bytes")
