"""Figures of the policy gates: what `trainyard check` and an admission take, and what tenants cost the server.

    python -m benchmarks.policy [--manifests 2000] [--only start_up manifests admission tenants]

Writes `benchmarks/results/policy-check.json`. Rates are a core's: manifests by processor seconds of the command and
of the policy server together.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil
import yaml

from benchmarks.commands import spent
from benchmarks.recording import ROOT, result_file, save
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.sources import Sources, read_sources
from trainyard.policy.check.world import CheckContext
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.review import AdmissionContext
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack

NAME = "policy-check"
STACK = ROOT / "stacks" / "Pulumi.local.yaml"
TENANTS = (10, 1_000, 10_000)
REPEATS = 10
HOLD = (sys.executable, "-m", "benchmarks.policy", "--hold")
QUEUE = "scheduling.volcano.sh/queue-name"
IMAGE = "registry.example.com/team/train:1.4.2"
ENVIRONMENT = [{"name": f"OPTION_{number}", "value": str(number)} for number in range(6)]
FILE = 20
"""Manifests of a file."""

ONE = "one.yaml.txt"
"""A file of one manifest, which is read only where it is named."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--manifests", type=int, default=2000)
    parser.add_argument("--only", nargs="*", help="stages to measure; their figures replace those of the file")
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold is not None:
        hold(options.hold)
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder)
        write_corpus(corpus, options.manifests)
        sources = read_sources([str(corpus)], stdin=str)
        stages: dict[str, Callable[[], Any]] = {
            "start_up": lambda: start_up(corpus),
            "manifests": lambda: command(corpus, options.manifests),
            "admission": lambda: admission_cost(sources),
            "tenants": lambda: {str(count): tenants_cost(sources, count) for count in TENANTS},
        }
        former = result_file(NAME)
        results: dict[str, Any] = json.loads(former.read_text()) if options.only and former.exists() else {}
        results |= {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}
        for name, measure in stages.items():
            if not options.only or name in options.only:
                results[name] = measure()
                print(name, json.dumps(results[name]), flush=True)
    save(NAME, results)


def write_corpus(folder: Path, count: int) -> None:
    """Write manifests as teams keep them: of ten, four TrainJobs, two JobSets, two Pods, a Job and a runtime."""
    folder.mkdir(exist_ok=True)
    for number in range(0, count, FILE):
        bodies = [manifest(index) for index in range(number, min(number + FILE, count))]
        (folder / f"{number:05}.yaml").write_text(yaml.safe_dump_all(bodies, sort_keys=False))
    (folder / ONE).write_text(yaml.safe_dump(manifest(0)))


def manifest(index: int) -> dict[str, Any]:
    """Return one manifest; every twentieth breaks a rule."""
    namespace = ("vision", "language")[index // 10 % 2]
    metadata: dict[str, Any] = {"name": f"m{index}", "namespace": namespace}
    if index % 20 == 7:
        metadata["annotations"] = {QUEUE: "elsewhere"}
    kind = KINDS[index % len(KINDS)]
    version, spec = SPECS[kind](index)
    if kind == "TrainingRuntime":
        metadata = {
            "name": f"own-{index // 10}",
            "namespace": namespace,
            "labels": {"trainer.kubeflow.org/framework": "torch"},
        }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def train_job(index: int) -> tuple[str, dict[str, Any]]:
    """Return a TrainJob: of a runtime of the catalog, alone or as a gang, or of the team's own; some with a patch."""
    reference = {
        3: {"kind": "TrainingRuntime", "name": f"own-{index // 10}"},
        5: {"name": "torch-distributed-gang"},
    }.get(index % 10, {"name": "torch-distributed"})
    trainer = {"numNodes": 2, "command": ["torchrun", "train.py"], "image": IMAGE, "env": ENVIRONMENT}
    spec: dict[str, Any] = {"runtimeRef": reference, "trainer": trainer}
    if index % 10 == 7:
        pod = {"metadata": {"labels": {"example.com/experiment": str(index)}}}
        jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
        template = {"spec": {"replicatedJobs": jobs}}
        spec["runtimePatches"] = [{"manager": "example.com/team", "trainingRuntimeSpec": {"template": template}}]
    return "trainer.kubeflow.org/v1alpha1", spec


def job_set(_index: int) -> tuple[str, dict[str, Any]]:
    """Return a JobSet of two steps."""
    jobs = [
        {"name": name, "replicas": 1, "template": {"spec": {"backoffLimit": 1, "template": {"spec": pod_spec()}}}}
        for name in ("prepare", "train")
    ]
    return "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs}


def pod(_index: int) -> tuple[str, dict[str, Any]]:
    """Return a Pod."""
    return "v1", pod_spec()


def job(_index: int) -> tuple[str, dict[str, Any]]:
    """Return a Job."""
    return "batch/v1", {"backoffLimit": 1, "template": {"spec": pod_spec()}}


def runtime(_index: int) -> tuple[str, dict[str, Any]]:
    """Return a runtime."""
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    container = {"name": "node", "image": IMAGE, "command": ["torchrun"]}
    template = {"metadata": {"labels": labels}, "spec": {"template": {"spec": {"containers": [container]}}}}
    jobs = [{"name": "node", "template": template}]
    policy = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
    return "trainer.kubeflow.org/v1alpha1", {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}


def pod_spec() -> dict[str, Any]:
    """Return a pod of one container, with the fields that containers usually have."""
    resources = {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}}
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", "train.py", "--epochs", "3"],
        "env": ENVIRONMENT,
        "resources": resources,
        "securityContext": context,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return {"restartPolicy": "Never", "serviceAccountName": "default", "containers": [container], "volumes": volumes}


KINDS = ("TrainJob", "JobSet", "Pod", "TrainJob", "Job", "TrainJob", "JobSet", "TrainJob", "Pod", "TrainingRuntime")
SPECS: Mapping[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "TrainJob": train_job,
    "JobSet": job_set,
    "Pod": pod,
    "Job": job,
    "TrainingRuntime": runtime,
}


def start_up(corpus: Path) -> dict[str, float]:
    """Return what the command takes for one manifest, best of five: nearly all of it is starting."""
    runs = [timed(str(corpus / ONE)) for _ in range(5)]
    return {name: round(min(run[name] for run in runs), 2) for name in ("seconds", "processor_seconds")}


def command(corpus: Path, count: int) -> dict[str, float]:
    """Return the rate of the command over the corpus, start-up left out."""
    first = min((timed(str(corpus / ONE)) for _ in range(3)), key=lambda run: run["processor_seconds"])
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
    arguments = ["check", "--format", "json", "--config-file", str(STACK), path]
    return spent([sys.executable, "-m", "trainyard", *arguments], accepted=(0, 1))[0]


class Recorded:
    """Stands for the policy server and keeps what it is asked: afterwards the same questions cost nothing to make."""

    def __init__(self) -> None:
        self.documents: list[Mapping[str, Any]] = []

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Keep the questions and allow everything."""
        self.documents.append(documents)
        lists: dict[str, list[Any]] = {
            name: [] for name in ("violations", "warnings", "audits", "undecided", "exempted")
        }
        return [{"allowed": True, **lists} for _ in documents["requests"]]


def asked(sources: Sources, settings: StackSettings, *, prefilter: bool = True) -> list[Mapping[str, Any]]:
    """Return what the policy server is asked about manifests: of all rules, or of those that may find something."""
    now = datetime.datetime.now(datetime.UTC)
    rules = load_rules()
    texts = Prefilter(rules, settings.policies.parameters) if prefilter else None
    context = AdmissionContext(settings.policies, settings.exempt_namespaces, now, prefilter=texts)
    recorded = Recorded()
    checker = Checker(rules, CheckContext(settings, sources.manifests), context)
    asyncio.run(checker.check(sources, recorded))
    return recorded.documents


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

    def ask(self, documents: Iterable[Mapping[str, Any]], repeat: int = 1) -> float:
        """Ask everything and return the processor seconds of the server."""

        async def run() -> None:
            async with OpaClient(self.address, timeout=120) as client:
                for document in documents:
                    for _ in range(repeat):
                        await client.decide_all(document)

        before = self.processor()
        asyncio.run(run())
        return self.processor() - before


def admission_cost(sources: Sources) -> dict[str, float]:
    """Return what the decision about one TrainJob and all it becomes adds to its admission: milliseconds."""
    jobs = [each for each in sources.manifests if each.kind == "TrainJob"][:20]
    settings = load_stack(STACK)
    questions = [question for each in jobs for question in asked(Sources((each,), (), ()), settings)]
    with Served() as served:
        served.ask(questions, repeat=3)
        processor = served.ask(questions, repeat=REPEATS) / (len(questions) * REPEATS)
        waits: list[float] = []

        async def run() -> None:
            async with OpaClient(served.address, timeout=120) as client:
                for question in questions * REPEATS:
                    started = time.perf_counter()
                    await client.decide_all(question)
                    waits.append(time.perf_counter() - started)

        asyncio.run(run())
    waits.sort()
    return {
        "objects": round(sum(len(each["requests"]) for each in questions) / len(questions), 1),
        "server_processor_milliseconds": round(processor * 1e3, 2),
        "wait_p50_milliseconds": round(waits[len(waits) // 2] * 1e3, 2),
        "wait_p99_milliseconds": round(waits[len(waits) * 99 // 100] * 1e3, 2),
    }


def tenants_cost(sources: Sources, count: int) -> dict[str, float]:
    """Return the memory of what stands beside a control plane of so many tenants, in MiB.

    A question carries the limits of its own namespace, so the policy server holds no tenants. The controller holds one
    TenantPolicy and the labels of one Namespace a tenant; `--hold` is a process that holds only these.
    """
    document = yaml.safe_load(STACK.read_text())["config"]
    values = {key.removeprefix("trainyard:"): value for key, value in document.items() if key.startswith("trainyard:")}
    values["tenants"] |= {f"team-{number}": {"queues": ["vision"]} for number in range(count - 2)}
    questions = asked(sources, StackSettings.model_validate(values))
    with Served() as served:
        served.ask(questions)
        server = served.process.memory_info().rss
    held = [
        int(subprocess.run([*HOLD, str(number)], cwd=ROOT, capture_output=True, check=True).stdout)
        for number in (0, count)
    ]
    return {
        "policy_server_mib": round(server / 2**20, 1),
        "controller_mib": round(held[1] / 2**20, 1),
        "controller_without_tenants_mib": round(held[0] / 2**20, 1),
    }


def hold(count: int) -> None:
    """Hold what a controller's informers hold of so many tenants, and print this process's memory."""
    from trainyard.controller.cluster_cache import ClusterCache
    from trainyard.policy.stack_objects import tenant_policy
    from trainyard.settings.tenancy import TenantSettings

    cache = ClusterCache(None, namespaces=True)  # type: ignore[arg-type]
    settings = TenantSettings(queues=("vision",))
    for number in range(count):
        name = f"team-{number}"
        labels = {"trainyard.dev/tenant": name, "kubernetes.io/metadata.name": name}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        bodies: tuple[dict[str, Any], ...] = tenant_policy(name, settings), namespace
        for informer, body in zip((cache.tenant_policies, cache.namespaces), bodies, strict=True):
            body["metadata"] |= {"resourceVersion": str(number + 1), "uid": f"{number:036}"}
            informer.store.put(orjson.loads(orjson.dumps(body)), initial=True)
    print(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    main()
