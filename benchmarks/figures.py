"""The figures of the README: how long the commands take and how much memory the platform holds.

Runs the command line as a user does, on a cluster of its own, and writes `benchmarks/results/figures.json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.recording import ROOT, publish

NAME = "figures"
IDLE = 180.0
"""Seconds after which the control plane has given back what the installation took."""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TRAINYARD_STATE_HOME": folder}
        config = _settings(Path(folder))
        results: dict[str, Any] = {"cores": os.cpu_count()}
        try:
            results["quickstart_first_seconds"] = _timed(env, "quickstart", "--config-file", config)
            results["quickstart_nothing_to_do_seconds"] = _timed(env, "quickstart", "--config-file", config)
            results["preview_without_changes_seconds"] = _timed(env, "preview", "--config-file", config)
            results["plain_preview_without_changes_seconds"] = _plain_preview(env, Path(folder))
            time.sleep(IDLE)
            results["memory_idle_mib"] = _memory(env)
            _timed(env, "cluster", "down", "--name", NAME)
            results["quickstart_after_down_seconds"] = _timed(env, "quickstart", "--config-file", config)
            results["destroy_seconds"] = _timed(env, "destroy", "--config-file", config, "--yes")
        finally:
            _timed(env, "cluster", "down", "--name", NAME, "--delete")
    publish("figures", results)


def _settings(folder: Path) -> str:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text())
    document["config"]["trainyard:cluster"]["name"] = NAME
    path = folder / "Pulumi.local.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def _timed(env: dict[str, str], *arguments: str) -> float:
    started = time.monotonic()
    command = [sys.executable, "-m", "trainyard", *arguments]
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    return round(time.monotonic() - started, 1)


def _plain_preview(env: dict[str, str], folder: Path) -> float:
    """Return the seconds of `pulumi preview` without `trainyard`, in the environment of `trainyard cluster env`."""
    command = [sys.executable, "-m", "trainyard", "cluster", "env", "--name", NAME, "-o", "json"]
    exported = json.loads(subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout)
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    del project["stackConfigDir"]
    project["main"] = str(ROOT / "stacks")
    project["runtime"]["options"]["virtualenv"] = sys.prefix
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    started = time.monotonic()
    preview = ["pulumi", "preview", "--stack", "local", "--non-interactive"]
    subprocess.run(preview, cwd=folder, env=env | exported, check=True, stdout=subprocess.DEVNULL)
    return round(time.monotonic() - started, 1)


def _memory(env: dict[str, str]) -> dict[str, float]:
    """Return resident memory by process, and together; a page that several processes share counts once in `total`."""
    command = [sys.executable, "-m", "trainyard", "cluster", "status", "--name", NAME, "-o", "json"]
    status = json.loads(subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout)
    running = [(process["name"], psutil.Process(process["pid"])) for process in status["processes"] if process["pid"]]
    sizes = {name: round(process.memory_info().rss / 2**20, 1) for name, process in running}
    shared_once = sum(getattr(process.memory_full_info(), "pss", process.memory_info().rss) for _, process in running)
    return {**sizes, "sum": round(sum(sizes.values()), 1), "total": round(shared_once / 2**20, 1)}


if __name__ == "__main__":
    main()
