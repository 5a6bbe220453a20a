"""Rendering and validation on one core, and upstream's own Go code for the same TrainJob in the same run.

Upstream's figures come from `benchmarks/upstream_render`, which calls the code of the upstream controller directly and
is built when it is first needed. Prints one line a figure and the ratios, and writes `benchmarks/results/render.json`.

    python -m benchmarks.render [--seconds 3] [--no-peer]
"""

from __future__ import annotations

import argparse
import copy
import gc
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.recording import ROOT, publish
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import Rejected, RenderContext
from trainyard.jobs.render.runtime_snapshot import read_snapshot
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.go import find_go

PEER = ROOT / "benchmarks" / "upstream_render"
RUNTIME = ROOT / "runtimes" / "torch-distributed" / "1.0.yaml"
JOBS, RUNTIMES = 10_000, 100
CONTEXT = RenderContext()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3, help="how long each measurement takes")
    parser.add_argument("--no-peer", action="store_true", help="leave upstream's code out")
    options = parser.parse_args()
    runtime = yaml.safe_load(RUNTIME.read_text())
    results: dict[str, Any] = {"trainyard": _ours(runtime, options.seconds) | _memory(runtime)}
    if not options.no_peer:
        peer = results["upstream"] = _upstream(runtime, options.seconds)
        results["ratio"] = {key: round(results["trainyard"][key] / value, 2) for key, value in peer.items()}
    publish("render", results)


def _train_job(runtime: str, number: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": f"job-{number}", "namespace": "default", "uid": f"00000000-0000-0000-0000-{number:012d}"},
        "spec": {
            "runtimeRef": {"name": runtime, "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
            "suspend": False,
            "trainer": {
                "numNodes": 2,
                "image": "team/train:1",
                "command": ["torchrun", "train.py"],
                "env": [{"name": "EPOCHS", "value": "3"}],
                "resourcesPerNode": {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}},
            },
        },
    }


def _ours(body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Measure in the three situations of the controller and its webhook; parsing the TrainJob is not part of them."""
    runtime = parse(ClusterTrainingRuntime, body)
    jobs = [parse(TrainJob, _train_job(body["metadata"]["name"], number)) for number in range(1000)]
    turn = cycle(jobs)
    first = render(jobs[0], runtime, CONTEXT)
    if isinstance(first, Rejected):
        raise SystemExit(f"the TrainJob was rejected: {first.errors}")
    text = next(entry for entry in first.objects if entry["metadata"]["name"].endswith("-runtime-snapshot"))
    changed = copy.deepcopy(_train_job(body["metadata"]["name"]))
    changed["metadata"]["labels"] = {"seen": "yes"}
    new = parse(TrainJob, changed)
    return {
        "renders_per_second": _rate(seconds, lambda: render(next(turn), runtime, CONTEXT)),
        "renders_from_snapshot_per_second": _rate(
            seconds, lambda: render(jobs[0], read_snapshot(text, jobs[0]), CONTEXT)
        ),
        "validations_per_second": _rate(seconds, lambda: validate(new, runtime, CONTEXT, old=jobs[0])),
    }


def _rate(seconds: float, work: Callable[[], object]) -> int:
    for _ in range(50):
        work()
    count, started = 0, time.process_time()
    while time.process_time() - started < seconds:
        work()
        count += 1
    return round(count / (time.process_time() - started))


def _memory(body: dict[str, Any]) -> dict[str, Any]:
    """Measure what parsed TrainJobs and runtimes hold, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        gc.collect()
        process = psutil.Process()
        before = process.memory_info().rss
        kept: list[Any] = []
        for number in range(RUNTIMES):
            other = copy.deepcopy(body)
            other["metadata"]["name"] = f"runtime-{number}"
            kept.append(parse(ClusterTrainingRuntime, other))
        for number in range(JOBS):
            kept.append(parse(TrainJob, json.loads(json.dumps(_train_job(f"runtime-{number % RUNTIMES}", number)))))
        gc.collect()
        os.write(write, str(process.memory_info().rss - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    size = int(os.read(read, 100))
    return {f"mib_of_{JOBS}_train_jobs_and_{RUNTIMES}_runtimes": round(size / 2**20, 1)}


def _upstream(body: dict[str, Any], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        runtime, job = Path(folder, "runtime.json"), Path(folder, "job.json")
        runtime.write_text(json.dumps(body))
        job.write_text(json.dumps(_train_job(body["metadata"]["name"])))
        command = [_program(), "-runtime", runtime, "-job", job, "-seconds", str(seconds)]
        done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True)
    return {name: round(value) for name, value in json.loads(done.stdout).items()}


def _program() -> Path:
    """Return the program, built if its sources changed."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(PEER.iterdir()))).hexdigest()[:16]
    program = cache_home() / "benchmarks" / f"upstream_render-{digest}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        print("building upstream's code (some minutes the first time)")
        find_go().run(PEER, "build", "-o", str(program), ".")
    return program


if __name__ == "__main__":
    main()
