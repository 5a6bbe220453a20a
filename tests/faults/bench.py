"""The control plane that the fault tests run on: etcd, an API server and the controllers whose work a fault needs.

Of kube-controller-manager only garbage collection, namespaces, service accounts and Jobs run: no pod is ever placed.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.compatibility.servers import Server, install, job_definitions
from tests.support import awaited
from trainyard.api import crds
from trainyard.controller.configuration import Configuration
from trainyard.controller.permissions import KEYS_ROLE, cluster_rules, key_rules, namespaced_rules
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SERVICE_ACCOUNTS
from trainyard.kube.resource import Resource
from trainyard.kube.response import Response
from trainyard.local.cluster import ports, process
from trainyard.local.cluster.control_plane_certificates import ensure_certificates
from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS, ControlPlaneProcess, control_plane
from trainyard.local.cluster.controlplane import write_configuration as write_control_plane_files
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.health_probes import probe
from trainyard.local.cluster.state import ClusterState, ProgramFile
from trainyard.local.cluster.toolchain import program_path

HOME = "kubeflow-system"
SERVICE_ACCOUNT = "controller"
_ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
_CONTROLLERS = "garbage-collector-controller,namespace-controller,serviceaccount-controller,job-controller"
_STARTED = 90.0
Body = dict[str, Any]


class RefusedError(AssertionError):
    """The API server refused a request of the test itself."""

    def __init__(self, what: str, answer: Response) -> None:
        super().__init__(f"{what}: {answer.status} {answer.message}")
        self.answer = answer


class Api:
    """Requests of the test, as administrator and past every proxy."""

    def __init__(self, kubeconfig: Path) -> None:
        self.session = BlockingSession(kubeconfig)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Body | None:
        """Return an object, None where it does not exist."""
        answer = self.session.request("GET", resource.path(namespace=namespace, name=name))
        if answer.status == 404:
            return None
        return self._body(f"get {resource} {name}", answer)

    def list(self, resource: Resource, namespace: str | None = None) -> list[Body]:
        """Return all objects of a kind."""
        return list(self.collection(resource, namespace)["items"])

    def collection(self, resource: Resource, namespace: str | None = None) -> Body:
        """Return a list as it is served, with its resourceVersion."""
        return self._body(f"list {resource}", self.session.request("GET", resource.path(namespace=namespace)))

    def create(self, resource: Resource, body: Mapping[str, Any]) -> Body:
        """Create an object."""
        path = resource.path(namespace=body["metadata"].get("namespace"))
        return self._body(f"create {resource}", self.session.request("POST", path, body))

    def ensure(self, resource: Resource, body: Mapping[str, Any]) -> None:
        """Create an object, or do nothing where it exists."""
        path = resource.path(namespace=body["metadata"].get("namespace"))
        answer = self.session.request("POST", path, body)
        if answer.status != 409:
            self._body(f"create {resource}", answer)

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Body:
        """Merge a patch into an object."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return self._body(f"patch {resource} {name}", self.session.request("PATCH", path, patch))

    def delete(self, resource: Resource, name: str, namespace: str | None = None, *, orphan: bool = False) -> None:
        """Delete an object; its dependents go in the background unless they are to be orphaned."""
        policy = "Orphan" if orphan else "Background"
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        answer = self.session.request("DELETE", resource.path(namespace=namespace, name=name), body)
        if answer.status != 404:
            self._body(f"delete {resource} {name}", answer)

    def delete_all(self, resource: Resource, namespace: str) -> None:
        """Delete all objects of a kind in a namespace, whatever finalizers they have."""
        path = resource.path(namespace=namespace)
        self._body(f"delete all {resource}", self.session.request("DELETE", path))
        for body in self.list(resource, namespace):
            if body["metadata"].get("finalizers"):
                name = body["metadata"]["name"]
                self.session.request(
                    "PATCH", resource.path(namespace=namespace, name=name), {"metadata": {"finalizers": None}}
                )

    @staticmethod
    def _body(what: str, answer: Response) -> Body:
        if not answer.ok:
            raise RefusedError(what, answer)
        return dict(answer.body)


@dataclass
class Bench:
    """A running control plane.

    Parameters
    ----------
    server
        Its files, as the helpers of the compatibility tests take them.
    parts
        Its programs by name, as they are started.
    connections
        Closes the connections of the tests.
    """

    server: Server
    parts: Mapping[str, ControlPlaneProcess]
    records: dict[str, process.ProcessRecord] = field(default_factory=dict)
    connections: ExitStack = field(default_factory=ExitStack)

    def start(self, *names: str) -> None:
        """Start programs and wait until each is healthy."""
        for name in names:
            part = self.parts[name]
            part.spec.log.parent.mkdir(parents=True, exist_ok=True)
            # A killed process may hold its port a moment longer than its entry in the process table.
            awaited(f"the ports of {name}", lambda part=part: all(map(ports.is_free, part.ports.values())))
            _, self.records[name] = process.start(part.spec)
            deadline = time.monotonic() + _STARTED
            while finding := probe(part.probe):
                tail = process.last_lines(part.spec.log, 20)
                assert process.alive(self.records[name]), f"{name} ended: {tail}"
                assert time.monotonic() < deadline, f"{name}: {finding}: {tail}"
                time.sleep(0.05)

    def stop(self, *names: str, grace: float = 5.0) -> None:
        """Stop programs; with no grace they are killed."""
        for name in names:
            if name in self.records:
                process.stop(self.records.pop(name), grace=grace)

    def restart(self, name: str, *, grace: float = 5.0) -> None:
        """Stop a program and start it again."""
        self.stop(name, grace=grace)
        self.start(name)

    @property
    def api(self) -> Api:
        """A new connection of the test."""
        api = Api(self.server.kubeconfig)
        self.connections.callback(api.session.close)
        return api

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.parts['kube-apiserver'].ports['kube-apiserver/secure']}"

    def admin_context(self) -> ssl.SSLContext:
        """TLS as the administrator."""
        return self._context("ca.crt", "admin")

    def anonymous_context(self) -> ssl.SSLContext:
        """TLS without a client certificate, for bearer tokens."""
        return self._context("ca.crt", None)

    def compact(self) -> None:
        """Forget etcd's history."""
        found = self._etcd("/v3/kv/range", {"key": "AA=="})
        revision = found["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def token(self, seconds: int = 3600, account: str = SERVICE_ACCOUNT) -> str:
        """Return a new token of the controller's ServiceAccount."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        path = SERVICE_ACCOUNTS.path(namespace=HOME, name=account, subresource="token")
        with BlockingSession(self.server.kubeconfig) as session:
            answer = session.request("POST", path, body)
        assert answer.ok, answer.message
        return str(answer.body["status"]["token"])

    def _context(self, authority: str, client: str | None) -> ssl.SSLContext:
        folder = self.server.folder.pki
        context = ssl.create_default_context(cafile=str(folder / authority))
        if client is not None:
            context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
        return context

    def _etcd(self, path: str, body: Mapping[str, Any]) -> Body:
        port = self.parts["etcd"].ports["etcd/client"]
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, context=self._context("etcd-ca.crt", "etcd-client"), timeout=30) as answer:
            return dict(json.load(answer))


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """Run a control plane with the CRDs, the controller's ServiceAccount and its rights."""
    cluster = ClusterFolder(folder / "faults")
    cluster.root.mkdir(parents=True)
    ensure_certificates(cluster.pki, datetime.datetime.now(datetime.UTC))
    programs = {name: ProgramFile("", str(program_path(name))) for name in CONTROL_PLANE_PROGRAMS}
    state = ClusterState(ports.allocate(str(folder), {}, ()), programs)
    write_control_plane_files(cluster, state)
    parts = {part.spec.name: part for part in control_plane(cluster, state)}
    parts["kube-controller-manager"] = _only(parts["kube-controller-manager"], _CONTROLLERS)
    running = Bench(Server(cluster), parts)
    try:
        running.start("etcd", "kube-apiserver")
        asyncio.run(_definitions(running.server))
        grant(running.api)
        running.start("kube-controller-manager")
        yield running
    finally:
        running.connections.close()
        running.stop("kube-controller-manager", "kube-apiserver", "etcd", grace=3.0)


def grant(api: Api, configuration: Configuration | None = None) -> None:
    """Give the controller's ServiceAccount what the component of the platform gives it."""
    settings = configuration or Configuration(namespace=HOME)
    for namespace in sorted({HOME, *(certificate.namespace for certificate in settings.certificates)}):
        api.ensure(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        metadata = {"name": SERVICE_ACCOUNT, "namespace": namespace}
        _put(api, _ROLES, metadata, {"rules": namespaced_rules(namespace, settings)})
        _put(api, ROLE_BINDINGS, metadata, _binding("Role"))
    metadata = {"name": SERVICE_ACCOUNT, "namespace": HOME}
    api.ensure(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    _put(api, CLUSTER_ROLES, {"name": SERVICE_ACCOUNT}, {"rules": cluster_rules(settings)})
    _put(api, CLUSTER_ROLE_BINDINGS, {"name": SERVICE_ACCOUNT}, _binding("ClusterRole"))
    _put(api, CLUSTER_ROLES, {"name": KEYS_ROLE}, {"rules": key_rules()})


def grant_keys(api: Api, namespace: str) -> None:
    """Let the controller create the keys of jobs in a tenant's namespace."""
    _put(api, ROLE_BINDINGS, {"name": KEYS_ROLE, "namespace": namespace}, _binding("ClusterRole", KEYS_ROLE))


def _put(api: Api, resource: Resource, metadata: Mapping[str, str], content: Mapping[str, Any]) -> None:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": dict(metadata), **content}
    api.ensure(resource, body)
    if "rules" in content:
        api.patch(resource, metadata["name"], metadata.get("namespace"), content)


def _binding(kind: str, name: str = SERVICE_ACCOUNT) -> Body:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": HOME}
    return {"roleRef": role, "subjects": [subject]}


def _only(part: ControlPlaneProcess, controllers: str) -> ControlPlaneProcess:
    spec, flag = part.spec, "--controllers="
    command = (*(each for each in spec.command if not each.startswith(flag)), f"{flag}{controllers}")
    return replace(part, spec=replace(spec, command=command))


async def _definitions(server: Server) -> None:
    definitions = job_definitions()
    job_set = next(body for body in definitions if body["spec"]["names"]["kind"] == "JobSet")
    async with server.client() as client:
        await install(client, [*definitions, *crds.build(job_set)])


def kubeconfig(path: Path, server: str, token_file: Path) -> Path:
    """Write a kubeconfig with the token in a file."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": server}}],
        "users": [{"name": "controller", "user": {"tokenFile": str(token_file)}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "controller"}}],
        "current-context": "bench",
    }
    path.write_text(yaml.safe_dump(document))
    return path
