"""The largest inputs that all bounds accept: time and memory to render, review and admit them, against usual ones.

Each input has the numbers, lists and texts of the bounds (parameters of BND-001 and BND-002) as far as the size allows
that etcd stores. Prints one line a figure and writes `benchmarks/results/largest.json`.

    python -m benchmarks.largest [--no-cluster]

The costs of the policies are those that the API server counts, which has limits for one expression and for one policy.
With a cluster, an API server with all policies, webhooks and the policy server gets the same objects as dry runs of a
tenant, in turns with one that has no policies; it also finds how many containers the largest accepted object has,
because the API server limits what the evaluation of one policy may cost.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import datetime
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

from benchmarks.admission import ours
from benchmarks.admission.calls import Caller
from benchmarks.admission.scene import IMAGE, QUEUE, RUNTIME, add_tenants, apply, furnish, tenant, timed
from benchmarks.admission.servers import TENANT_GROUP, Machine, Plane, awaited
from benchmarks.cel_costs import costs
from benchmarks.recording import publish
from trainyard import upstream
from trainyard.api import TrainingRuntime, TrainJob, parse
from trainyard.data import data_folder
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import Rejected, RenderContext
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.review import AdmissionContext, Review, documents_of
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.cases import load_world
from trainyard.settings.platform import PolicySettings
from trainyard.settings.versions import supported_versions
from trainyard.upstream import without_descriptions

Body = dict[str, Any]

BYTES: Final = 900_000
"""Size of the largest objects: the snapshot of a runtime has at most 1 MiB, and etcd stores at most 1.5 MiB."""
ROUNDS: Final = 5
_PATCHED: Final = 128
"""Limit of the schema of TrainJobs for variables of the trainer, and for volumes of an override."""
_LIMITS: Final = {rule.id: rule.parameter_values({}) for rule in load_rules() if rule.family == "bounds"}
PODS: Final = int(str(_LIMITS["BND-001"]["pods"]))
TEMPLATES: Final = int(str(_LIMITS["BND-002"]["templates"]))
CONTAINERS: Final = int(str(_LIMITS["BND-002"]["containers"]))
ITEMS: Final = int(str(_LIMITS["BND-002"]["items"]))
TOGETHER: Final = int(str(_LIMITS["BND-002"]["together"]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--no-cluster", action="store_true", help="render and policy server only")
    options = parser.parse_args()
    usual, largest = small(), {name: filled(make) for name, make in LARGEST.items()}
    results: dict[str, Any] = {"bytes": {name: len(json.dumps(body)) for name, body in largest.items()}}
    results["render"] = {name: _rendered(usual, {**usual, name: largest[name]}) for name in ("TrainJob", "runtime")}
    results["policy server"] = asyncio.run(_reviewed(usual, largest))
    results["cost of policies"] = _costs(usual)
    if not options.no_cluster:
        results["API server"] = _admitted(usual)
    publish("largest", results)


def small() -> dict[str, Body]:
    """Return the usual objects, by name."""
    bodies = timed()
    [job] = bodies["JobSet"]["spec"]["replicatedJobs"]
    tasks = [{"name": "node", "replicas": 2, "template": job["template"]["spec"]["template"]}]
    volcano_job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "timed"},
        "spec": {"queue": "vision", "schedulerName": "volcano", "minAvailable": 2, "tasks": tasks},
    }
    runtime: Body = yaml.safe_load(Path(data_folder("runtimes"), RUNTIME, "1.0.yaml").read_text())
    del runtime["metadata"]["annotations"]
    runtime |= {"kind": "TrainingRuntime", "metadata": {**runtime["metadata"], "name": "timed"}}
    [job] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    return {**bodies, "Volcano Job": volcano_job, "runtime": runtime}


def _containers(count: int, variables: int) -> list[Body]:
    env = [{"name": f"OPTION_{number}", "value": str(number)} for number in range(variables)]
    return [{"name": f"node-{number}" if number else "node", "image": IMAGE, "env": env} for number in range(count)]


def _pod(pod: Body, count: int, variables: int) -> Body:
    """Return a pod of so many containers, of which the first is the usual one."""
    [first] = pod["containers"]
    more = [{**each, "securityContext": first.get("securityContext", {})} for each in _containers(count, variables)[1:]]
    return {**pod, "containers": [first, *more]}


def train_job(count: int, variables: int) -> Body:
    """Return a TrainJob of the most nodes, with an override for each of the most templates."""
    body = copy.deepcopy(small()["TrainJob"])
    env = [{"name": f"OPTION_{number}", "value": str(number)} for number in range(_PATCHED)]
    body["spec"]["trainer"] |= {"numNodes": PODS, "env": env, "resourcesPerNode": {"limits": {"cpu": "1"}}}
    volumes = [{"name": f"data-{number}", "emptyDir": {}} for number in range(min(_PATCHED, count * 2 + variables))]
    override = {"targetJobs": [{"name": "node"}], "spec": {"volumes": volumes}}
    body["spec"]["podTemplateOverrides"] = [override] * TEMPLATES
    return body


def job_set(count: int, variables: int) -> Body:
    """Return a JobSet of the most replicatedJobs and pods."""
    body = copy.deepcopy(small()["JobSet"])
    [job] = body["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    spec |= {"parallelism": PODS // TEMPLATES, "completions": PODS // TEMPLATES}
    spec["template"]["spec"] = _pod(_without_accelerators(spec["template"]["spec"]), count, variables)
    body["spec"]["replicatedJobs"] = [{**job, "name": f"node-{number}"} for number in range(TEMPLATES)]
    return body


def volcano_job(count: int, variables: int) -> Body:
    """Return a Volcano Job of the most tasks and pods."""
    body = copy.deepcopy(small()["Volcano Job"])
    [task] = body["spec"]["tasks"]
    task["template"]["spec"] = _pod(_without_accelerators(task["template"]["spec"]), count, variables)
    task["replicas"] = PODS // TEMPLATES
    body["spec"]["tasks"] = [{**task, "name": f"node-{number}"} for number in range(TEMPLATES)]
    return body


def runtime(count: int, variables: int) -> Body:
    """Return a runtime of the most replicatedJobs, of which one is the trainer."""
    body = copy.deepcopy(small()["runtime"])
    [job] = body["spec"]["template"]["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]["template"]["spec"]
    job["template"]["spec"]["template"]["spec"] = _pod(spec, count, variables)
    other = copy.deepcopy(job)
    other["template"].pop("metadata", None)
    more = [{**other, "name": f"more-{number}"} for number in range(TEMPLATES - 1)]
    body["spec"]["template"]["spec"]["replicatedJobs"] = [job, *more]
    return body


LARGEST: Final[Mapping[str, Callable[[int, int], Body]]] = {
    "TrainJob": train_job,
    "JobSet": job_set,
    "Volcano Job": volcano_job,
    "runtime": runtime,
}


ACCEPTED: Final[Mapping[str, int]] = {"TrainJob": 55, "JobSet": 21, "Volcano Job": 21, "runtime": 21}
"""Containers of each template, and half the volumes of each override, of the largest objects the API server accepts."""


def filled(make: Callable[[int, int], Body]) -> Body:
    """Return the largest object: as many containers as fit, then as many variables."""
    count = _most(lambda each: len(json.dumps(make(each, 0))) <= BYTES, 1, CONTAINERS)
    items = min(ITEMS, TOGETHER // (TEMPLATES * count))
    return make(count, _most(lambda each: len(json.dumps(make(count, each))) <= BYTES, 0, items))


def _most(holds: Callable[[int], bool], low: int, end: int) -> int:
    """Return the largest number for which a condition holds, which holds for the first and falls once."""
    while low < end:
        middle = (low + end + 1) // 2
        low, end = (middle, end) if holds(middle) else (low, middle - 1)
    return low


def _without_accelerators(pod: Body) -> Body:
    [container] = pod["containers"]
    return {**pod, "containers": [{**container, "resources": {"limits": {"cpu": "8", "memory": "64Gi"}}}]}


def _rendered(usual: Mapping[str, Body], others: Mapping[str, Body]) -> dict[str, float]:
    """Return time and memory of the largest TrainJob or runtime, and the time as a ratio to the usual one."""
    seconds, _, _ = _in_a_child(lambda: _render(usual))
    most, memory, size = _in_a_child(lambda: _render(others))
    return {
        "seconds": round(most, 3),
        "ratio to usual": round(most / seconds, 1),
        "MiB": round(memory, 1),
        "bytes of the objects": size,
    }


def _render(bodies: Mapping[str, Body]) -> int:
    owner = {"namespace": tenant(0), "uid": "00000000-0000-0000-0000-000000000000"}
    body = {**bodies["runtime"], "metadata": {**bodies["runtime"]["metadata"], **owner}}
    reference = {"name": "timed", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    job = bodies["TrainJob"]
    spec = {**job["spec"], "runtimeRef": reference, "managedBy": "trainer.kubeflow.org/trainjob-controller"}
    parsed = parse(TrainJob, {**job, "metadata": {**job["metadata"], **owner}, "spec": spec})
    chosen = parse(TrainingRuntime, body)
    for finding in validate(parsed, chosen, RenderContext()).errors:
        raise SystemExit(f"the TrainJob is rejected: {finding}")
    made = render(parsed, chosen, RenderContext())
    if isinstance(made, Rejected):
        raise SystemExit(f"the TrainJob is rejected: {made.errors}")
    return len(json.dumps(made.objects))


def _in_a_child(work: Callable[[], int]) -> tuple[float, float, int]:
    """Return the seconds of processor time, and the memory in MiB, that work takes in a process of its own."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        before = psutil.Process().memory_info().rss
        seconds, size = [], 0
        for _ in range(ROUNDS):
            started = time.process_time()
            size = work()
            seconds.append(time.process_time() - started)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        os.write(write, json.dumps([statistics.median(seconds), (peak - before) / 2**20, size]).encode())
        os._exit(0)
    os.close(write)
    answer = os.read(read, 1000)
    os.waitpid(child, 0)
    if not answer:
        raise SystemExit("the work failed")
    first, second, third = json.loads(answer)
    return first, second, third


async def _reviewed(usual: Mapping[str, Body], largest: Mapping[str, Body]) -> dict[str, Any]:
    """Return the processor time of the policy server for each input, and the memory that it has afterwards."""
    world = load_world(data_folder("policies"))
    with OpaServer(lambda: program_path("opa"), build_bundle()) as address:
        [server] = [each for each in psutil.Process().children(recursive=True) if each.name().startswith("opa")]
        context = AdmissionContext(PolicySettings(), ("kube-system",), datetime.datetime.now(datetime.UTC))
        async with OpaClient(address, timeout=120) as client:

            async def seconds(body: Body) -> float:
                labels = {"trainyard.dev/tenant": tenant(0)}
                review = Review(
                    "CREATE", body, namespace=tenant(0), namespace_labels=labels, user="ann@example.com",
                    platform=world.platform, tenant_policy=world.tenant_policy,
                )  # fmt: skip
                rounds, started = 0, sum(server.cpu_times()[:2])
                while rounds < ROUNDS or sum(server.cpu_times()[:2]) - started < 1:
                    [answer] = await client.decide_all(documents_of([review], context))
                    rounds += 1
                for each in answer["violations"][:1]:
                    raise SystemExit(f"{body['kind']} is not accepted: {each}")
                return (sum(server.cpu_times()[:2]) - started) / rounds

            short = {name: await seconds(usual[name]) for name in largest}
            before = server.memory_info().rss
            found = {}
            for name, body in largest.items():
                most = await seconds(body)
                found[name] = {"seconds": round(most, 3), "ratio to usual": round(most / short[name], 1)}
            return {
                **found,
                "MiB before and after": [round(each / 2**20) for each in (before, server.memory_info().rss)],
            }


def _costs(usual: Mapping[str, Body]) -> dict[str, Any]:
    """Return the policies with the largest shares of a limit of the API server, for each largest accepted input."""
    names = {f"usual {kind}": usual[kind] for kind in LARGEST}
    limits, found = costs({**names, **{kind: make(ACCEPTED[kind], 0) for kind, make in LARGEST.items()}})
    result: dict[str, Any] = {"limits": [limits.expression, limits.policy]}
    for name in (*names, *LARGEST):
        mine = sorted((each for each in found if each.name == name), key=lambda each: -each.share(limits))
        result[name] = {
            "policies": len(mine),
            "sum": sum(each.total for each in mine),
            "dearest": {each.rule: [each.dearest, each.total] for each in mine[:3]},
        }
    return result


def _admitted(usual: Mapping[str, Body]) -> dict[str, Any]:
    """Return what the API server accepts of each input, and what it takes, as ratios."""
    with tempfile.TemporaryDirectory(prefix="big-") as folder, Machine(Path(folder)) as machine:
        planes = {name: machine.plane(name) for name in ("none", "platform")}
        for plane in planes.values():
            _furnish(plane)
        ours.run_controller(machine, planes["platform"], policies=True)
        ours.install_policies(planes["platform"])
        callers = {name: Caller(plane) for name, plane in planes.items()}
        trespassing = copy.deepcopy(usual["JobSet"])
        [job] = trespassing["spec"]["replicatedJobs"]
        job["template"]["metadata"] = {"annotations": {QUEUE: "language"}}
        tested = callers["platform"]
        awaited("the policies", lambda: "QUE-002" in tested.ask(trespassing, tenant(0)).denials)
        awaited("the webhooks", lambda: tested.ask(usual["TrainJob"], tenant(0)).allowed)
        before = planes["platform"].memory()
        found = {name: _accepted(callers, usual[name], make) for name, make in LARGEST.items()}
        short = {kind: _taken(callers, usual[kind]) for kind in ("TrainJob", "Pod")}
        return {
            **found,
            "usual, ratio to no policies": {kind: round(a["platform"] / a["none"], 1) for kind, a in short.items()},
            "MiB before and after": [before, planes["platform"].memory()],
        }


def _furnish(plane: Plane) -> None:
    path = "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml"
    definition = yaml.safe_load(upstream.read("volcano", supported_versions("volcano")[0], path))
    furnish(plane)
    name = {"name": f"{TENANT_GROUP}-largest"}
    api = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["*"]},
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainingruntimes"], "verbs": ["*"]},
    ]
    role: Body = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    binding: Body = {
        **{"apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": name},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", **name},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": TENANT_GROUP}],
    }
    apply(plane, [without_descriptions(definition), role, binding])
    add_tenants(plane, 0, 1)


def _accepted(callers: Mapping[str, Caller], usual: Body, make: Callable[[int, int], Body]) -> dict[str, Any]:
    """Return the largest object that all policies accept, and its latency as a ratio to the usual one's."""
    tested = callers["platform"]

    def accepts(count: int, variables: int) -> bool:
        body = make(count, variables)
        return len(json.dumps(body)) <= BYTES and tested.ask(body, tenant(0)).allowed

    count = _most(lambda each: accepts(each, 0), 1, CONTAINERS)
    variables = _most(lambda each: accepts(count, each), 0, ITEMS)
    body, more = make(count, variables), make(count + 1, 0)
    most, short = _taken(callers, body), _taken(callers, usual)
    said = tested.ask(more, tenant(0)) if len(json.dumps(more)) <= BYTES else None
    return {
        "containers of a template": count,
        "variables of a container": variables,
        "bytes": len(json.dumps(body)),
        "seconds": round(most["platform"], 3),
        "ratio to usual": round(most["platform"] / short["platform"], 1),
        "ratio to no policies": round(most["platform"] / most["none"], 1),
        "limit": said.message[:200] if said else f"{BYTES} bytes",
    }


def _taken(callers: Mapping[str, Caller], body: Body) -> dict[str, float]:
    """Return the median seconds of a dry run, by contender, which take turns."""
    taken: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(ROUNDS):
        for name, caller in callers.items():
            taken[name].append(caller.create(body, tenant(0), dry_run=True))
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


if __name__ == "__main__":
    main()
