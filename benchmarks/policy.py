"""Figures of the policy gates: what `trainyard check` takes, what a rule costs, and what tenants cost the server.

    python -m benchmarks.policy [--manifests 2000]

Writes `benchmarks/results/policy-check.json`. Rates are a core's: manifests by processor seconds of the command and
of the policy server together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from trainyard.cluster.toolchain import program_path
from trainyard.policy.catalogue import load_rules
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.sources import Sources, read_sources
from trainyard.policy.check.world import World
from trainyard.policy.judge import Surroundings
from trainyard.policy.opa.adapter import OpaClient
from trainyard.policy.opa.bundle import build_bundle
from trainyard.policy.opa.server import OpaServer
from trainyard.settings import StackSettings, load_stack

ROOT = Path(__file__).resolve().parent.parent
STACK = ROOT / "stacks" / "Pulumi.local.yaml"
TENANTS = (10, 1_000, 10_000)
QUEUE = "scheduling.volcano.sh/queue-name"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--manifests", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder)
        write_corpus(corpus, options.manifests)
        sources = read_sources([str(corpus)], stdin=str)
        results: dict[str, Any] = {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}
        stages: dict[str, Callable[[], Any]] = {
            "start_up": lambda: start_up(corpus),
            "manifests": lambda: command(corpus, options.manifests),
            "tenants": lambda: {str(count): tenants_cost(sources, count) for count in TENANTS},
            "rules": lambda: rules_cost(sources),
        }
        for name, measure in stages.items():
            results[name] = measure()
            print(name, json.dumps(results[name]), flush=True)
    output = ROOT / "benchmarks" / "results" / "policy-check.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(results, indent=2) + "\n")


def write_corpus(folder: Path, count: int) -> None:
    """Write manifests of the kinds that teams keep: TrainJobs, Deployments, Jobs, Pods and a runtime now and then."""
    for number in range(0, count, 20):
        bodies = [manifest(index) for index in range(number, min(number + 20, count))]
        (folder / f"{number:05}.yaml").write_text(yaml.safe_dump_all(bodies, sort_keys=False))


def manifest(index: int) -> dict[str, Any]:
    """Return one manifest; every tenth breaks a rule."""
    namespace = ("vision", "language")[index % 2]
    metadata: dict[str, Any] = {"name": f"m{index}", "namespace": namespace}
    if index % 10 == 0:
        metadata["annotations"] = {QUEUE: "elsewhere"}
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1.4.2",
        "command": ["python", "train.py", "--epochs", "3"],
        "env": [{"name": f"OPTION_{number}", "value": str(number)} for number in range(6)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": {"app": f"m{index}"}}, "spec": pod}
    kind = ("TrainJob", "Deployment", "Job", "Pod")[index % 4]
    if kind == "TrainJob":
        trainer = {"numNodes": 2, "command": ["torchrun", "train.py"], "image": container["image"]}
        spec: dict[str, Any] = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
        return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    if kind == "Deployment":
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": f"m{index}"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    if kind == "Job":
        spec = {"backoffLimit": 1, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": pod}


def start_up(corpus: Path) -> dict[str, float]:
    """Return what the command takes for one manifest, best of five: nearly all of it is starting."""
    file = corpus / "one.yaml.txt"
    file.write_text(yaml.safe_dump(manifest(3)))
    runs = [timed(str(file)) for _ in range(5)]
    return {name: round(min(run[name] for run in runs), 2) for name in ("seconds", "processor_seconds")}


def command(corpus: Path, count: int) -> dict[str, float]:
    """Return the rate of the command over the corpus, start-up left out."""
    first = min((timed(str(corpus / "one.yaml.txt")) for _ in range(3)), key=lambda run: run["processor_seconds"])
    run = min((timed(str(corpus)) for _ in range(3)), key=lambda run: run["processor_seconds"])
    seconds = run["seconds"] - first["seconds"]
    processor = run["processor_seconds"] - first["processor_seconds"]
    return {
        "manifests": count,
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "per_second": round(count / seconds),
        "per_second_and_core": round(count / processor),
    }


def timed(path: str) -> dict[str, float]:
    """Run the command and return its time and that of its processors, the policy server's included."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    arguments = ["check", "--format", "json", "--config-file", str(STACK), path]
    done = subprocess.run([sys.executable, "-m", "trainyard", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode())
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {"seconds": seconds, "processor_seconds": spent}


class Served:
    """A policy server and its process."""

    def __init__(self) -> None:
        self.server = OpaServer(lambda: program_path("opa"), build_bundle())

    def __enter__(self) -> Served:
        self.address = self.server.__enter__()
        self.process = psutil.Process(next(child.pid for child in psutil.Process().children() if "opa" in child.name()))
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(None, None, None)

    def processor(self) -> float:
        """Return the processor seconds of the server so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def judge(self, sources: Sources, settings: StackSettings, only: list[str] | None = None) -> None:
        """Check everything once."""
        import datetime

        now = datetime.datetime.now(datetime.UTC)
        surroundings = Surroundings(settings.policies, settings.exempt_namespaces, now, only)
        checker = Checker(load_rules(), World(settings, sources.manifests), surroundings)

        async def run() -> None:
            async with OpaClient(self.address, timeout=120) as client:
                await checker.check(sources, client)

        asyncio.run(run())


def rules_cost(sources: Sources) -> Mapping[str, Any]:
    """Return the server's microseconds a manifest for all rules, for none, and what each rule adds to none."""
    settings = load_stack(STACK)
    count = len(sources.manifests)
    with Served() as served:

        def cost(only: list[str] | None) -> float:
            best = float("inf")
            for _ in range(2):
                before = served.processor()
                served.judge(sources, settings, only)
                best = min(best, served.processor() - before)
            return best / count * 1e6

        cost(None)
        nothing = cost([])
        each = {rule.id: round(max(0.0, cost([rule.id]) - nothing), 1) for rule in load_rules()}
        return {"all_microseconds": round(cost(None), 1), "none_microseconds": round(nothing, 1), "each": each}


def tenants_cost(sources: Sources, count: int) -> dict[str, float]:
    """Return the memory of the server after judging for a stack of so many tenants.

    A request carries the limits of its own namespace, so the server holds no tenants and its memory stays.
    """
    document = yaml.safe_load(STACK.read_text())["config"]
    values = {key.removeprefix("trainyard:"): value for key, value in document.items() if key.startswith("trainyard:")}
    values["tenants"] |= {f"team-{number}": {"queues": ["vision"]} for number in range(count - 2)}
    settings = StackSettings.model_validate(values)
    with Served() as served:
        started = served.process.memory_info().rss
        served.judge(sources, settings)
        after = served.process.memory_info().rss
    return {"started_mib": round(started / 2**20, 1), "after_mib": round(after / 2**20, 1)}


if __name__ == "__main__":
    main()
