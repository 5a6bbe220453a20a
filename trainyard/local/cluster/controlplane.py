"""Command lines, addresses and health endpoints of the control plane's programs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from trainyard.api.constants import CONTROLLER_SERVICE
from trainyard.listening import url_host
from trainyard.local.cluster.control_plane_certificates import WEBHOOK_CLIENT, read_pair
from trainyard.local.cluster.folders import ClusterFolder, private_folder, write_private
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.host_address import Addresses
from trainyard.local.cluster.kubeconfig import certificate_kubeconfig
from trainyard.local.cluster.kwok_stages import stages_document
from trainyard.local.cluster.process import ProcessSpec
from trainyard.local.cluster.sizing import CONTROL_PLANE_MEMORY, grace_seconds, lease_seconds, memory_limit
from trainyard.local.cluster.state import ClusterState
from trainyard.settings.sections.trainer import CONTROLLER_NAMESPACE

CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""In start order; they stop in reverse order."""

_PARTS = {"certificate": "crt", "key": "key"}
_CLIENTS = ("admin", "kube-controller-manager", "kube-scheduler", "kwok", "supervisor")


@dataclass(frozen=True)
class ControlPlaneProcess:
    """One program of the control plane.

    Parameters
    ----------
    spec
        Command line, environment and log.
    probe
        Its health endpoint.
    depends_on
        Program that must be healthy before it starts; None for the first one.
    ports
        Ports that it listens on, by use.
    """

    spec: ProcessSpec
    probe: Probe
    depends_on: str | None
    ports: Mapping[str, int]


def server_url(state: ClusterState) -> str:
    """Return the URL of the API server."""
    return f"https://{url_host(state.addresses.host)}:{state.ports['kube-apiserver/secure']}"


def write_configuration(folder: ClusterFolder, state: ClusterState) -> None:
    """Write the kubeconfigs and configuration files of the programs."""
    authority = (folder.pki / "ca.crt").read_bytes()
    for client in _CLIENTS:
        target = folder.kubeconfig if client == "admin" else folder.kubeconfigs / client
        _write_if_changed(
            target,
            certificate_kubeconfig(
                f"trainyard-{folder.name}", server_url(state), authority, client, read_pair(folder.pki, client)
            ),
        )
    _write_if_changed(folder.configuration / "kwok.yaml", stages_document())
    _write_if_changed(folder.kubeconfigs / "webhooks", _webhook_users(folder, state))
    _write_if_changed(folder.configuration / "admission.yaml", _admission(folder))
    if state.kubelets:
        _write_if_changed(folder.configuration / "egress.yaml", _egress(folder))
        private_folder(folder.sockets)
    for path in (folder.logs, folder.processes, folder.etcd):
        private_folder(path)


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        write_private(path, text)


def control_plane(folder: ClusterFolder, state: ClusterState) -> tuple[ControlPlaneProcess, ...]:
    """Return the control plane's processes in start order."""
    pki, ports, at = folder.pki, state.ports, state.addresses
    authority, supervisor = pki / "ca.crt", pki / "supervisor.crt"
    arguments = {
        "etcd": _etcd(folder, ports, at.host),
        "kube-apiserver": (*_apiserver(folder, ports, at), *(_to_nodes(folder) if state.kubelets else ())),
        "kube-controller-manager": _controller_manager(folder, ports, at.host, grace_seconds(state.nodes)),
        "kube-scheduler": _scheduler(folder, ports, at.host),
        "kwok": _kwok(folder, ports, at, lease_seconds(state.nodes)),
    }
    probes = {
        "etcd": Probe(ports["etcd/client"], "/health", pki / "etcd-ca.crt", pki / "etcd-client.crt"),
        "kube-apiserver": Probe(ports["kube-apiserver/secure"], "/readyz", authority, supervisor),
        "kube-controller-manager": Probe(ports["kube-controller-manager/secure"], "/healthz", authority),
        "kube-scheduler": Probe(ports["kube-scheduler/secure"], "/healthz", authority),
        "kwok": Probe(ports["kwok/server"], "/healthz"),
    }
    probes = {name: replace(probe, host=at.host) for name, probe in probes.items()}
    result = []
    for name in CONTROL_PLANE_PROGRAMS:
        program = state.programs[name]
        own = {use: port for use, port in ports.items() if use.split("/")[0] == name}
        spec = ProcessSpec(
            name=name,
            version=program.version,
            command=(program.path, *arguments[name]),
            log=folder.log(name),
            address=f"{url_host(at.host)}:{probes[name].port}",
            environment={"GOMEMLIMIT": memory_limit(*CONTROL_PLANE_MEMORY[name], state.nodes)},
            inputs=_digest(_files(folder, arguments[name])),
        )
        depends_on = None if name == "etcd" else "etcd" if name == "kube-apiserver" else "kube-apiserver"
        result.append(ControlPlaneProcess(spec, probes[name], depends_on, own))
    return tuple(result)


def _files(folder: ClusterFolder, arguments: Iterable[str]) -> list[Path]:
    paths = {Path(argument.partition("=")[2]) for argument in arguments if f"={folder.root}" in argument}
    return sorted(path for path in paths if path.is_file())


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _etcd(folder: ClusterFolder, ports: Mapping[str, int], host: str) -> tuple[str, ...]:
    pki = folder.pki
    client, peer = (f"https://{url_host(host)}:{ports[f'etcd/{use}']}" for use in ("client", "peer"))
    server = [f"{pki / 'etcd-server'}.{part}" for part in ("crt", "key")]
    return (
        "--name=default",
        f"--data-dir={folder.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--client-cert-auth=true",
        f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
        f"--cert-file={server[0]}",
        f"--key-file={server[1]}",
        "--peer-client-cert-auth=true",
        f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
        f"--peer-cert-file={server[0]}",
        f"--peer-key-file={server[1]}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--quota-backend-bytes=2147483648",
        "--snapshot-count=1000",
        "--snapshot-catchup-entries=100",
        "--unsafe-no-fsync=true",
        "--log-level=warn",
    )


def _apiserver(folder: ClusterFolder, ports: Mapping[str, int], at: Addresses) -> tuple[str, ...]:
    pki = folder.pki
    return (
        f"--etcd-servers=https://{url_host(at.host)}:{ports['etcd/client']}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'etcd-client.key'}",
        f"--bind-address={at.host}",
        f"--advertise-address={at.host}",
        f"--secure-port={ports['kube-apiserver/secure']}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        f"--admission-control-config-file={folder.configuration / 'admission.yaml'}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        f"--service-account-issuer=https://kubernetes.default.svc.{folder.name}.trainyard",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-cluster-ip-range={at.services}",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
    )


def authenticated_webhooks(state: ClusterState) -> tuple[str, ...]:
    """Return the hosts to whose webhooks the API server shows its certificate.

    Not to all: Volcano's webhook manager rejects connections with a certificate of another authority than its own.
    """
    if state.kubelets:
        return (f"{CONTROLLER_SERVICE}.{CONTROLLER_NAMESPACE}.svc",)
    return (f"{url_host(state.addresses.host)}:{state.ports['trainyard-controller/webhook']}",)


def _webhook_users(folder: ClusterFolder, state: ClusterState) -> str:
    """Return the kubeconfig with which the API server authenticates itself to webhooks."""
    pair = {f"client-{part}": str(folder.pki / f"{WEBHOOK_CLIENT}.{end}") for part, end in _PARTS.items()}
    users = [{"name": host, "user": pair} for host in authenticated_webhooks(state)]
    document = {"apiVersion": "v1", "kind": "Config", "users": users}
    return yaml.safe_dump(document, sort_keys=False)


def _admission(folder: ClusterFolder) -> str:
    group = "apiserver.config.k8s.io/v1"
    webhooks = {
        "apiVersion": group,
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(folder.kubeconfigs / "webhooks"),
    }
    plugins = [{"name": f"{kind}AdmissionWebhook", "configuration": webhooks} for kind in ("Mutating", "Validating")]
    document = {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}
    return yaml.safe_dump(document, sort_keys=False)


def _to_nodes(folder: ClusterFolder) -> tuple[str, ...]:
    """Return the arguments of an API server whose nodes are in a network of their own."""
    return (
        # Webhooks are called at the addresses of pods: this machine has no kube-proxy for those of Services.
        "--enable-aggregator-routing=true",
        # A kubelet writes its own Node and the pods bound to it, and nothing else.
        "--enable-admission-plugins=NodeRestriction",
        f"--egress-selector-config-file={folder.configuration / 'egress.yaml'}",
        # Names of nodes are resolved nowhere.
        "--kubelet-preferred-address-types=InternalIP",
    )


def _egress(folder: ClusterFolder) -> str:
    """Return the egress configuration: connections to kubelets, pods and Services go through the relay's proxy."""
    transport = {"uds": {"udsName": str(folder.relay_socket)}}
    selection = {
        "name": "cluster",
        "connection": {"proxyProtocol": "HTTPConnect", "transport": transport},
    }
    document = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [selection],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _controller_manager(folder: ClusterFolder, ports: Mapping[str, int], host: str, grace: int) -> tuple[str, ...]:
    pki, kubeconfig = folder.pki, folder.kubeconfigs / "kube-controller-manager"
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={host}",
        f"--secure-port={ports['kube-controller-manager/secure']}",
        f"--tls-cert-file={pki / 'kube-controller-manager-server.crt'}",
        f"--tls-private-key-file={pki / 'kube-controller-manager-server.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        # Checks the types of each policy once for each kind that it matches, which takes 40 s of CPU time after an
        # `up`; nothing reads the result, and the API server evaluates the policies without it.
        "--controllers=*,-validatingadmissionpolicy-status-controller",
        # Quotas on a newly installed kind are counted only at this interval; the default is five minutes.
        "--resource-quota-sync-period=5s",
        "--enable-hostpath-provisioner=true",
        f"--node-monitor-grace-period={grace}s",
        "--concurrent-job-syncs=20",
        "--concurrent-gc-syncs=20",
        "--concurrent-namespace-syncs=10",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    )


def _scheduler(folder: ClusterFolder, ports: Mapping[str, int], host: str) -> tuple[str, ...]:
    pki, kubeconfig = folder.pki, folder.kubeconfigs / "kube-scheduler"
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={host}",
        f"--secure-port={ports['kube-scheduler/secure']}",
        f"--tls-cert-file={pki / 'kube-scheduler-server.crt'}",
        f"--tls-private-key-file={pki / 'kube-scheduler-server.key'}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )


def _kwok(folder: ClusterFolder, ports: Mapping[str, int], at: Addresses, lease: int) -> tuple[str, ...]:
    return (
        f"--kubeconfig={folder.kubeconfigs / 'kwok'}",
        f"--config={folder.configuration / 'kwok.yaml'}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--server-address={url_host(at.host)}:{ports['kwok/server']}",
        f"--node-lease-duration-seconds={lease}",
        f"--node-ip={at.node}",
        f"--cidr={at.pods}",
    )
