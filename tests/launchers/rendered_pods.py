"""The pods of a rendered TrainJob, started on this machine as a kubelet would: see ``pod_network``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.launchers import pod_network
from tests.support import PATIENCE
from trainyard.api import Body, Runtime, TrainJob
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered

_NAMESPACES: Final = (
    *("unshare", "--user", "--map-root-user", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"),
    "--kill-child",
)
_FIELDS: Final = {
    "metadata.annotations['batch.kubernetes.io/job-completion-index']": "{index}",
    "metadata.labels['jobset.sigs.k8s.io/job-index']": "{replica}",
}
_DOMAIN: Final = "vision.svc.cluster.local"


def require_namespaces() -> None:
    """Skip the test where namespaces cannot be created."""
    script = "hostname pod && mount -t tmpfs none /dev/shm && ip link add bridge type bridge"
    try:
        done = subprocess.run([*_NAMESPACES, "sh", "-c", script], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not installed")
    if done.returncode:
        pytest.skip(f"namespaces cannot be created: {done.stderr.strip()}")


@dataclass(frozen=True)
class Run:
    """Output of all pods, and who asked SSH for which host."""

    status: int
    output: str
    errors: str
    asked: list[tuple[str, str]]

    @property
    def processes(self) -> list[tuple[int, int, str]]:
        """Rank, size and host of each process that printed them, by rank."""
        found = re.findall(r"rank=(\d+) size=(\d+) host=(\S+)", self.output)
        return sorted((int(rank), int(size), host) for rank, size, host in found)


def run_pods(
    folder: Path,
    job: TrainJob,
    runtime: Runtime,
    main: str,
    *,
    path: Path,
    variables: Mapping[str, str] | None = None,
    interface: str = "eth0",
    seconds: int = 40 * PATIENCE,
    servers: Sequence[str] = (),
) -> Run:
    """Start the pods of a job and wait for one of them.

    Parameters
    ----------
    folder
        An empty folder.
    main
        Host name of the pod that completes the job.
    path
        Folder of the programs.
    variables
        Further variables of all pods, as an image has them.
    interface
        Name of the network interface of the pods.
    servers
        replicatedJobs whose containers are servers of SSH: their commands are not started.
    """
    rendered = render(job, runtime, RenderContext())
    assert isinstance(rendered, Rendered), rendered
    folder.mkdir(exist_ok=True)
    files = {name: text for body in rendered.objects for name, text in body.get("data", {}).items()}
    (folder / "hostfile").write_text(files.get("hostfile", ""))
    replaced = ("/etc/mpi/hostfile", str(folder / "hostfile"))
    pods = list(_pods(rendered.objects[-1], variables or {}, replaced, servers))
    plan = {
        "folder": str(folder / "pods"),
        "path": str(path),
        "pods": pods,
        "interface": interface,
        "main": f"{main}.{job.metadata.name}",
        "seconds": seconds,
    }
    done = subprocess.run(
        [*_NAMESPACES, sys.executable, pod_network.__file__],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    asked = [tuple(line.split()) for line in (folder / "pods" / "ssh.log").read_text().splitlines()]
    return Run(done.returncode, done.stdout, done.stderr, [(source, target) for source, target in asked])


def _pods(
    job_set: Body, variables: Mapping[str, str], replaced: tuple[str, str], servers: Sequence[str]
) -> Iterator[dict[str, Any]]:
    number, name = 0, job_set["metadata"]["name"]
    for replicated in job_set["spec"]["replicatedJobs"]:
        spec = replicated["template"]["spec"]
        container = spec["template"]["spec"]["containers"][0]
        for replica in range(replicated.get("replicas", 1)):
            for index in range(spec.get("parallelism", 1)):
                host = f"{name}-{replicated['name']}-{replica}-{index}"
                environment = {**variables, "JOB_COMPLETION_INDEX": str(index)}
                for entry in container.get("env", ()):
                    value = _value(entry, index, replica).replace(*replaced)
                    environment[entry["name"]] = _expanded(value, environment)
                words = [*container.get("command", ()), *container.get("args", ())]
                number += 1
                yield {
                    "hostname": host,
                    "name": f"{host}.{name}",
                    "fqdn": f"{host}.{name}.{_DOMAIN}",
                    "address": f"10.9.{number // 250}.{number % 250 + 1}",
                    "environment": environment,
                    "command": []
                    if replicated["name"] in servers
                    else [_expanded(word, environment) for word in words],
                }


def _value(entry: Body, index: int, replica: int) -> str:
    if "valueFrom" not in entry:
        return str(entry.get("value", ""))
    return _FIELDS[entry["valueFrom"]["fieldRef"]["fieldPath"]].format(index=index, replica=replica)


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), text)
