"""The control plane's certificates, kubeconfigs and command lines."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainyard.local.cluster.control_plane_certificates import ensure_certificates
from trainyard.local.cluster.controlplane import (
    CONTROL_PLANE_PROGRAMS,
    ControlPlaneProcess,
    control_plane,
    write_configuration,
)
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.ports import PORT_NAMES
from trainyard.local.cluster.state import ClusterState, ProgramFile

NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ClusterFolder:
    folder = ClusterFolder(tmp_path_factory.mktemp("clusters") / "local")
    ensure_certificates(folder.pki, NOW)
    write_configuration(folder, state())
    return folder


def state() -> ClusterState:
    ports = {use: 20000 + position for position, use in enumerate(PORT_NAMES)}
    return ClusterState(ports, {name: ProgramFile("1.2.3", f"/bin/{name}") for name in CONTROL_PLANE_PROGRAMS})


@pytest.fixture(scope="module")
def processes(folder: ClusterFolder) -> dict[str, ControlPlaneProcess]:
    return {process.spec.name: process for process in control_plane(folder, state())}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_every_key_is_private(folder: ClusterFolder) -> None:
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.pki.iterdir())
    assert folder.pki.stat().st_mode & 0o777 == 0o700
    assert folder.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_etcd_trusts_an_authority_of_its_own(folder: ClusterFolder) -> None:
    cluster, etcd = certificate(folder.pki / "ca.crt"), certificate(folder.pki / "etcd-ca.crt")
    assert certificate(folder.pki / "etcd-client.crt").issuer == etcd.subject
    assert certificate(folder.pki / "kube-apiserver.crt").issuer == cluster.subject
    assert cluster.public_key() != etcd.public_key()


def test_the_api_server_is_known_by_its_local_and_service_addresses(folder: ClusterFolder) -> None:
    found = certificate(folder.pki / "kube-apiserver.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert {str(ip) for ip in found.value.get_values_for_type(x509.IPAddress)} == {
        "127.0.0.1",
        "10.96.0.1",
        "::1",
        "fd00:10:96::1",
    }


def test_the_api_server_shows_the_controller_a_certificate_of_an_authority_of_its_own(
    folder: ClusterFolder, processes: dict[str, ControlPlaneProcess]
) -> None:
    command = processes["kube-apiserver"].spec.command
    (file,) = (each.partition("=")[2] for each in command if each.startswith("--admission-control-config-file="))
    plugins = yaml.safe_load(Path(file).read_text())["plugins"]
    assert [each["name"] for each in plugins] == ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"]
    (kubeconfig,) = {each["configuration"]["kubeConfigFile"] for each in plugins}
    (user,) = yaml.safe_load(Path(kubeconfig).read_text())["users"]
    assert user["name"] == f"127.0.0.1:{state().ports['trainyard-controller/webhook']}"
    shown = certificate(Path(user["user"]["client-certificate"]))
    authority = certificate(folder.pki / "webhook-client-ca.crt")
    shown.verify_directly_issued_by(authority)
    others = [certificate(folder.pki / each).public_key() for each in ("ca.crt", "etcd-ca.crt")]
    assert authority.public_key() not in others
    assert Path(user["user"]["client-key"]).is_file()


def test_a_cluster_of_an_earlier_version_gets_the_certificate_for_webhooks(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    ensure_certificates(folder, NOW)
    before = (folder / "ca.crt").read_bytes()
    for file in folder.glob("webhook-client*"):
        file.unlink()
    ensure_certificates(folder, NOW)
    shown = certificate(folder / "webhook-client.crt")
    shown.verify_directly_issued_by(certificate(folder / "webhook-client-ca.crt"))
    assert (folder / "ca.crt").read_bytes() == before


def test_clients_cannot_serve_and_only_the_administrator_is_a_master(folder: ClusterFolder) -> None:
    masters = []
    for name in ("admin", "supervisor", "kwok", "kube-scheduler", "kube-controller-manager", "webhook-client"):
        parsed = certificate(folder.pki / f"{name}.crt")
        usages = list(parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert usages == [ExtendedKeyUsageOID.CLIENT_AUTH]
        if any(a.value == "system:masters" for a in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
            masters.append(name)
    assert masters == ["admin"]


def test_certificates_are_renewed_when_due_and_authorities_stay(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    ensure_certificates(folder, NOW)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ensure_certificates(folder, NOW + datetime.timedelta(days=200))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    ensure_certificates(folder, NOW + datetime.timedelta(days=300))
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after["ca.crt"] == before["ca.crt"]
    assert after["service-account.key"] == before["service-account.key"]
    assert after["kube-apiserver.crt"] != before["kube-apiserver.crt"]


def test_an_interrupted_creation_of_certificates_is_started_over(tmp_path: Path) -> None:
    half = tmp_path / ".pki.new"
    half.mkdir()
    (half / "ca.key").write_text("half")
    ensure_certificates(tmp_path / "pki", NOW)
    assert not half.exists()
    assert b"PRIVATE KEY" in (tmp_path / "pki" / "ca.key").read_bytes()


def test_the_kubeconfig_holds_a_client_certificate_and_no_token(folder: ClusterFolder) -> None:
    document = yaml.safe_load(folder.kubeconfig.read_text())
    user = document["users"][0]["user"]
    assert set(user) == {"client-certificate-data", "client-key-data"}
    assert base64.b64decode(user["client-certificate-data"]) == (folder.pki / "admin.crt").read_bytes()
    assert document["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{state().ports['kube-apiserver/secure']}"
    assert document["current-context"] == "trainyard-local"


def test_nothing_is_served_anonymously_or_in_the_clear(processes: dict[str, ControlPlaneProcess]) -> None:
    apiserver = processes["kube-apiserver"].spec.command
    assert {"--anonymous-auth=false", "--authorization-mode=Node,RBAC", "--bind-address=127.0.0.1"} <= set(apiserver)
    etcd = processes["etcd"].spec.command
    assert {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(etcd)
    urls = [part for argument in etcd if "-urls=" in argument for part in argument.partition("=")[2].split(",")]
    assert urls
    assert all(url.startswith("https://127.0.0.1:") for url in urls)
    assert "--use-service-account-credentials=true" in processes["kube-controller-manager"].spec.command


def test_no_controller_runs_whose_work_nothing_reads(processes: dict[str, ControlPlaneProcess]) -> None:
    command = processes["kube-controller-manager"].spec.command
    (controllers,) = (each.partition("=")[2] for each in command if each.startswith("--controllers="))
    assert controllers.split(",") == ["*", "-validatingadmissionpolicy-status-controller"]


def test_processes_start_after_what_they_need(processes: dict[str, ControlPlaneProcess]) -> None:
    assert {name: process.depends_on for name, process in processes.items()} == {
        "etcd": None,
        "kube-apiserver": "etcd",
        "kube-controller-manager": "kube-apiserver",
        "kube-scheduler": "kube-apiserver",
        "kwok": "kube-apiserver",
    }


def test_a_process_is_restarted_when_a_file_it_reads_changes(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "local")
    ensure_certificates(folder.pki, NOW)
    write_configuration(folder, state())
    before = {process.spec.name: process.spec.digest for process in control_plane(folder, state())}
    (folder.configuration / "kwok.yaml").write_text("changed")
    after = {process.spec.name: process.spec.digest for process in control_plane(folder, state())}
    assert [name for name in before if before[name] != after[name]] == ["kwok"]
