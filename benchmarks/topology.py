"""A fabric of 100,000 nodes: compiled to HyperNodes and node labels, checked, and drawn.

Every step is timed on one core; the limits are those a person waits for without wondering. Prints one line a step and
writes `benchmarks/results/topology.json`.

    python -m benchmarks.topology [--nodes 100000]
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.recording import publish
from trainyard.scheduling.topology.fabric_checks import check_fabric
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.fabric_text import draw
from trainyard.scheduling.topology.hypernode_checks import check_hyper_nodes
from trainyard.scheduling.topology.hypernode_manifests import read_manifests
from trainyard.scheduling.topology.picture import picture
from trainyard.scheduling.topology.sources import source
from trainyard.settings.fabric import FabricSettings

RACK, SPINE = 8, 32
"""Nodes of a rack, and racks of a spine."""
COMPILE_AND_CHECK, DRAW, SIZE = 5.0, 2.0, 2_000_000
"""Seconds, seconds and bytes at most."""

T = TypeVar("T")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=100_000)
    options = parser.parse_args()
    results = measure(options.nodes)
    publish("topology", results)


def measure(nodes: int) -> dict[str, Any]:
    """Return the figures for a number of nodes, each named one by one, a part of the racks unlike the others."""
    table = inventory(nodes)
    seconds: dict[str, float] = {}
    settings = timed(seconds, "inventory_to_settings", lambda: source("inventory").read(table).settings)
    values = settings.model_dump(by_alias=True)
    timed(seconds, "validate_settings", lambda: FabricSettings.model_validate(values))
    of_settings = timed(seconds, "check_settings", lambda: check_fabric(settings))
    fabric = timed(seconds, "compile", lambda: compile_fabric(settings))
    hyper_nodes = timed(seconds, "hyper_nodes", lambda: fabric.hyper_nodes)
    live = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": node.labels}}
        for node in fabric.nodes
    ]
    documents = [("", body) for body in (*hyper_nodes, *live)]
    findings = timed(seconds, "check_hyper_nodes", lambda: check_hyper_nodes(read_manifests(documents)))
    svg = timed(seconds, "picture", lambda: picture(fabric))
    timed(seconds, "text", lambda: draw(fabric))
    checked = sum(seconds[step] for step in ("compile", "hyper_nodes", "check_hyper_nodes"))
    return {
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "counts": {
            "nodes": len(fabric.nodes),
            "hyper_nodes": len(hyper_nodes),
            "findings": len(of_settings) + len(findings),
            "svg_bytes": len(svg.encode()),
        },
        "seconds": {step: round(value, 2) for step, value in seconds.items()},
        "ratio_to_limit": {
            "compile_and_check": round(checked / COMPILE_AND_CHECK, 2),
            "picture": round(seconds["picture"] / DRAW, 2),
            "picture_size": round(len(svg.encode()) / SIZE, 3),
        },
    }


def inventory(nodes: int) -> str:
    """Return a table of nodes with two GPU models; every 40th rack lacks a node."""
    lines = ["node,rack,spine,gpu,gpus,cpu,memory"]
    rack, left = 0, nodes
    while left > 0:
        count = min(RACK - (rack % 40 == 39), left)
        model = "B200,8,224,4Ti" if rack // SPINE % 5 == 0 else "H200,8,192,2Ti"
        for number in range(count):
            lines.append(f"gpu-{rack:05}-{number},rack-{rack:05},spine-{rack // SPINE:04},{model}")
        rack, left = rack + 1, left - count
    return "\n".join(lines)


def timed(seconds: dict[str, float], step: str, work: Callable[[], T]) -> T:
    """Return what a step returns, and note its processor time."""
    gc.collect()
    started = time.process_time()
    result = work()
    seconds[step] = time.process_time() - started
    return result


if __name__ == "__main__":
    main()
