"""Kueue's manager on the smallest control plane, where it makes Workloads and no controller runs their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from components.kueue import custom_resource_definitions
from tests.compatibility import servers
from trainyard.api.crds import build
from trainyard.kube.resource import Resource
from trainyard.local.cluster import process
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.toolchain import program_path
from trainyard.settings.versions import supported_versions
from trainyard.upstream import documents

VERSION = supported_versions("kueue")[0]
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")


def definitions() -> list[dict[str, Any]]:
    """Return the CRDs of the trainer API, JobSet and Kueue."""
    job_set = documents("jobset", supported_versions("jobset")[0], servers.JOBSET_CRD)[0]
    return [*build(job_set), *servers.job_definitions(), *custom_resource_definitions(VERSION)]


@contextmanager
def manager(server: servers.Server) -> Iterator[None]:
    """Run Kueue with the administrator's rights and without its webhooks."""
    port, health = servers._free_ports(server, "kueue", 2)
    home = server.folder.root / "kueue"
    servers._serving_certificate(server, home / "certificates")
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(home / "certificates")},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": -1, "burst": 1},
        "controller": {"groupKindConcurrency": {"TrainJob.trainer.kubeflow.org": 8, "Workload.kueue.x-k8s.io": 4}},
        "integrations": {"frameworks": ["trainer.kubeflow.org/trainjob"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump(configuration))
    command = (str(program_path("kueue")), f"--config={file}", f"--kubeconfig={server.kubeconfig}")
    variables = {"KUEUE_METRICS_CERTIFICATES": str(home / "certificates")}
    spec = process.ProcessSpec("kueue", VERSION, command, home / "manager.log", environment=variables)
    with servers._running(spec, Probe(health, "/readyz")):
        yield
