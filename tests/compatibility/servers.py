"""The smallest control plane there is (etcd and API server), and the programs that are compared on it."""

from __future__ import annotations

import base64
import datetime
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainyard import pki, upstream
from trainyard.data import project_root
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.local.cluster import ports, process
from trainyard.local.cluster.control_plane_certificates import ensure_certificates, read_pair
from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS, control_plane, write_configuration
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.go import find_go
from trainyard.local.cluster.health_probes import Probe, probe
from trainyard.local.cluster.state import ClusterState, ProgramFile
from trainyard.local.cluster.toolchain import Toolchain, program_path
from trainyard.settings.versions import supported_versions
from trainyard.upstream import without_descriptions

TRAINER_GROUP = "trainer-upstream"
TRAINER = "github.com/kubeflow/trainer/v2"
SCHEDULER_PLUGINS = "sigs.k8s.io/scheduler-plugins"
JOBSET_CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
VOLCANO_CRD = "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"
COSCHEDULING_CRD = "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STARTED = 60.0


@dataclass(frozen=True)
class Server:
    """A running API server.

    Parameters
    ----------
    folder
        Its files; further programs put theirs beside them.
    """

    folder: ClusterFolder

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.folder.kubeconfig

    def client(self, **options: Any) -> Client:
        """Return an API client with the administrator's rights."""
        return Client.from_kubeconfig(self.kubeconfig, **options)


@contextmanager
def api_server(folder: Path) -> Iterator[Server]:
    """Run etcd and an API server in a folder of their own."""
    cluster = ClusterFolder(folder / "proof")
    cluster.root.mkdir(parents=True)
    ensure_certificates(cluster.pki, datetime.datetime.now(datetime.UTC))
    found = {program.name: program for program in Toolchain().ensure() if program.name in CONTROL_PLANE_PROGRAMS}
    programs = {name: ProgramFile(found[name].version, str(found[name].path)) for name in CONTROL_PLANE_PROGRAMS}
    state = ClusterState(ports.allocate(str(folder), {}, ()), programs)
    write_configuration(cluster, state)
    with ExitStack() as running:
        for part in control_plane(cluster, state)[:2]:
            running.enter_context(_running(part.spec, part.probe))
        yield Server(cluster)


@contextmanager
def trainer(server: Server) -> Iterator[None]:
    """Run the upstream controller with its webhooks; no test may create its objects before it is entered."""
    port, health = _free_ports(server, "trainer", 2)
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": port, "host": "127.0.0.1"},
        "certManagement": {"enable": False},
        "clientConnection": {"qps": 5000, "burst": 5000},
    }
    home = server.folder.root / "trainer"
    authority = _serving_certificate(server, home / "k8s-webhook-server" / "serving-certs")
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump(configuration))
    command = (str(program_path("trainer-controller-manager")), f"--config={file}", "--zap-log-level=error")
    variables = {"KUBECONFIG": str(server.kubeconfig), "TMPDIR": str(home)}
    spec = process.ProcessSpec(
        "trainer-controller-manager", "2.3.0", command, home / "controller.log", environment=variables
    )
    manifests = _trainer_webhooks(module(TRAINER_GROUP, TRAINER) / "manifests/base/webhook")
    with _running(spec, Probe(health, "/readyz"), *_handlers(manifests, port)):
        _point_webhooks(server, manifests, port, authority, prefix="trainer")
        yield


def _trainer_webhooks(folder: Path) -> list[dict[str, Any]]:
    """Return upstream's webhook configurations with the object selectors of its installation."""
    manifests = [body for body in yaml.load_all((folder / "manifests.yaml").read_text(), Loader=_LOADER) if body]
    validating = next(body for body in manifests if body["kind"] == "ValidatingWebhookConfiguration")
    for step in yaml.load((folder / "patch_validating.yaml").read_text(), Loader=_LOADER):
        _, _, index, field = (*step["path"].split("/"), "")[:4]
        if field == "objectSelector":
            validating["webhooks"][int(index)][field] = step["value"]
    return manifests


@contextmanager
def jobset(server: Server, version: str) -> Iterator[None]:
    """Run JobSet's manager with its webhooks."""
    port, health = _free_ports(server, f"jobset-{version}", 2)
    home = server.folder.root / f"jobset-{version}"
    certificates = home / "certificates"
    authority = _serving_certificate(server, certificates)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(certificates)},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
    }
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump(configuration))
    command = (
        str(program_path("jobset", version)),
        f"--config={file}",
        f"--kubeconfig={server.kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        "--metrics-bind-address=0",
    )
    spec = process.ProcessSpec("jobset", version, command, home / "manager.log")
    manifests = upstream.documents("jobset", version, "config/components/webhook/manifests.yaml")
    with _running(spec, Probe(health, "/readyz"), *_handlers(manifests, port)):
        _point_webhooks(server, manifests, port, authority, prefix="jobset")
        yield


def module(group: str, name: str) -> Path:
    """Return the folder of a Go module that a group of the toolchain pins."""
    go, sources = find_go(), project_root() / "toolchain" / group
    go.run(sources, "mod", "download", name)
    return Path(go.run(sources, "list", "-m", "-f", "{{.Dir}}", name).strip())


def upstream_definitions() -> list[dict[str, Any]]:
    """Return the CRDs that the upstream controller works with."""
    trainer_crds = module(TRAINER_GROUP, TRAINER) / "manifests/base/crds"
    texts = [file.read_text() for file in sorted(trainer_crds.glob("trainer.kubeflow.org_*.yaml"))]
    found = [definition for text in texts for definition in _definitions(text)]
    return [*found, *coscheduling_definitions(), *job_definitions()]


def coscheduling_definitions() -> list[dict[str, Any]]:
    """Return the CRD of the coscheduling plug-in's PodGroup."""
    return list(_definitions((module(TRAINER_GROUP, SCHEDULER_PLUGINS) / COSCHEDULING_CRD).read_text()))


def job_definitions() -> list[dict[str, Any]]:
    """Return the CRDs of JobSet and of Volcano's PodGroup."""
    texts = [
        upstream.read("jobset", supported_versions("jobset")[0], JOBSET_CRD),
        upstream.read("volcano", supported_versions("volcano")[0], VOLCANO_CRD),
    ]
    return [definition for text in texts for definition in _definitions(text)]


async def install(client: Client, definitions: list[dict[str, Any]]) -> None:
    """Install CRDs and wait until their objects are served."""
    for definition in definitions:
        await client.apply(CRDS, without_descriptions(definition), field_manager="proof")
    for definition in definitions:
        version = next(entry["name"] for entry in definition["spec"]["versions"] if entry["storage"])
        names = definition["spec"]["names"]
        resource = Resource(definition["spec"]["group"], version, names["plural"], names["kind"])
        deadline = time.monotonic() + _STARTED
        while not await _served(client, resource):
            assert time.monotonic() < deadline, f"{resource} is not served"


async def _served(client: Client, resource: Resource) -> bool:
    try:
        await client.page(resource, limit=1)
    except (ApiError, TransportError):
        return False
    return True


def _definitions(text: str) -> Iterator[dict[str, Any]]:
    for body in yaml.load_all(text, Loader=_LOADER):
        if body and body.get("kind") == "CustomResourceDefinition":
            yield body


@contextmanager
def _running(spec: process.ProcessSpec, *health: Probe) -> Iterator[None]:
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    _, record = process.start(spec)
    try:
        deadline = time.monotonic() + _STARTED
        while finding := next(filter(None, map(probe, health)), None):
            dead = not process.alive(record)
            assert not dead, f"{spec.name} ended: {process.last_lines(spec.log, 20)}"
            assert time.monotonic() < deadline, f"{spec.name}: {finding}: {process.last_lines(spec.log, 20)}"
            time.sleep(0.1)
        yield
    finally:
        process.stop(record, grace=5)


def _free_ports(server: Server, name: str, count: int) -> list[int]:
    taken = set(ports.allocate(str(server.folder.root.parent), {}, ()).values())
    found = ports.allocate(f"{server.folder.root}/{name}", {}, taken)
    return list(found.values())[:count]


def _serving_certificate(server: Server, folder: Path) -> bytes:
    """Write a serving certificate for 127.0.0.1 and return the authority that clients are to trust."""
    now = datetime.datetime.now(datetime.UTC)
    authority = read_pair(server.folder.pki, "ca")
    pair = pki.issue(
        authority,
        "webhook",
        now=now,
        lifetime=datetime.timedelta(days=1),
        dns_names=("localhost",),
        ip_addresses=("127.0.0.1",),
        server=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return authority.certificate


def _handlers(manifests: list[dict[str, Any]], port: int) -> list[Probe]:
    """Return what tells that the webhooks answer: a manager is ready before its handlers are."""
    paths = {webhook["clientConfig"]["service"]["path"] for body in manifests for webhook in body.get("webhooks") or ()}
    return [Probe(port, path, unverified_tls=True) for path in sorted(paths)]


def _point_webhooks(
    server: Server, manifests: list[dict[str, Any]], port: int, authority: bytes, *, prefix: str
) -> None:
    """Install webhook configurations that call a process of this machine instead of a Service."""
    import asyncio

    async def apply() -> None:
        async with server.client() as client:
            for body in manifests:
                if not body.get("webhooks"):
                    continue
                for webhook in body["webhooks"]:
                    path = webhook["clientConfig"]["service"]["path"]
                    webhook["clientConfig"] = {
                        "url": f"https://127.0.0.1:{port}{path}",
                        "caBundle": base64.b64encode(authority).decode(),
                    }
                body["metadata"] = {"name": f"{prefix}-{body['metadata']['name']}"}
                plural = f"{body['kind'].lower()}s"
                resource = Resource("admissionregistration.k8s.io", "v1", plural, body["kind"], namespaced=False)
                await client.apply(resource, body, field_manager="proof")

    asyncio.run(apply())
