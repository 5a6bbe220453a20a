"""How platform programs run on this machine: only kubeconfig and addresses differ from the container."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import yaml

import trainyard
from trainyard.errors import TrainyardError
from trainyard.local.cluster.ports import PORT_NAMES, slot_ports
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.local.cluster.supervisor.host_programs.base import RunContext, with_flags

PORTS = slot_ports({use: 20000 + position for position, use in enumerate(PORT_NAMES)}, 0)
CONTEXT = RunContext(
    Path("/bin/program"),
    "some-system",
    Path("/p/kubeconfig"),
    Path("/p"),
    PORTS,
    {"/tmp/k8s-webhook-server/serving-certs": Path("/p/volumes/cert"), "/certs": Path("/p/volumes/other")},
    Path("/c/run"),
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--port=1", "--v=2"], ["--v=2", "--port=9"]),
        (["-port", "1", "--v=2"], ["--v=2", "--port=9"]),
        (["--port", "--v=2"], ["--v=2", "--port=9"]),
        (["--v=2"], ["--v=2", "--port=9"]),
        (["--portal=1"], ["--portal=1", "--port=9"]),
    ],
)
def test_a_flag_is_given_once_and_last(arguments: list[str], expected: list[str]) -> None:
    assert with_flags(arguments, {"port": "9"}) == expected


def test_a_flag_can_be_removed() -> None:
    assert with_flags(["--a=1", "--b"], {"a": None}) == ["--b"]


def test_the_scheduler_keeps_its_arguments_and_gets_local_addresses() -> None:
    command = HOST_PROGRAMS["vc-scheduler"].command(
        CONTEXT,
        ["/vc-scheduler", "--scheduler-conf=/l/x.conf", "--leader-elect=true", "--listen-address=:8080", "-v=3"],
    )
    assert command == [
        "/bin/program",
        "--scheduler-conf=/l/x.conf",
        "--leader-elect=true",
        "-v=3",
        "--kubeconfig=/p/kubeconfig",
        "--enable-healthz=true",
        f"--healthz-address=127.0.0.1:{PORTS['vc-scheduler/health']}",
        f"--listen-address=127.0.0.1:{PORTS['vc-scheduler/metrics']}",
    ]


def test_the_webhook_manager_serves_on_the_clusters_port() -> None:
    command = HOST_PROGRAMS["vc-webhook-manager"].command(CONTEXT, ["/vc-webhook-manager", "--port=8443"])
    assert "--port=8443" not in command
    assert f"--port={PORTS['vc-webhook-manager/webhook']}" in command
    assert "--listen-address=127.0.0.1" in command


def test_the_webhook_manager_waits_for_the_configurations_of_its_enabled_paths() -> None:
    names = HOST_PROGRAMS["vc-webhook-manager"].webhook_configurations
    assert names(["--enabled-admission=/jobs/mutate,/queues/validate"]) == [
        "volcano-admission-service-jobs-mutate",
        "volcano-admission-service-queues-validate",
    ]
    assert "volcano-admission-service-podgroups-mutate" in names([])


def test_the_controller_is_this_python_environments() -> None:
    command = HOST_PROGRAMS["trainyard-controller"].command(
        CONTEXT, ["trainyard", "controller", "run", "--config=/l/config.yaml", "--webhook-port=9443"]
    )
    assert command[:6] == [sys.executable, "-m", "trainyard", "controller", "run", "--config=/l/config.yaml"]
    assert "--webhook-port=9443" not in command
    assert f"--webhook-port={PORTS['trainyard-controller/webhook']}" in command
    assert "--host=127.0.0.1" in command
    package = Path(trainyard.__file__).parent.parent
    assert HOST_PROGRAMS["trainyard-controller"].variables(CONTEXT) == {"PYTHONPATH": str(package)}


def test_jobset_gets_its_webhook_address_and_certificates_through_its_configuration() -> None:
    text = yaml.safe_dump(
        {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "webhook": {"port": 9443},
            "leaderElection": {"leaderElect": True},
        }
    )
    found = yaml.safe_load(HOST_PROGRAMS["jobset"].configuration(CONTEXT, "controller_manager_config.yaml", text))
    assert found["webhook"] == {"host": "127.0.0.1", "port": PORTS["jobset/webhook"], "certDir": "/p/volumes/cert"}
    assert found["leaderElection"] == {"leaderElect": True, "resourceNamespace": "some-system"}


def test_jobset_keeps_a_certificate_folder_that_its_configuration_names() -> None:
    text = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nwebhook: {certDir: /certs}\n"
    assert (
        yaml.safe_load(HOST_PROGRAMS["jobset"].configuration(CONTEXT, "c.yaml", text))["webhook"]["certDir"]
        == "/p/volumes/other"
    )


def test_kueue_serves_webhooks_and_health_here_and_no_metrics() -> None:
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
webhook: {port: 9443, certDir: /certs}
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443"}
leaderElection: {leaderElect: true}
"""
    found = yaml.safe_load(HOST_PROGRAMS["kueue"].configuration(CONTEXT, "controller_manager_config.yaml", text))
    assert found["webhook"] == {"host": "127.0.0.1", "port": PORTS["kueue/webhook"], "certDir": "/p/volumes/other"}
    assert found["health"] == {"healthProbeBindAddress": f"127.0.0.1:{PORTS['kueue/health']}"}
    assert found["metrics"] == {"bindAddress": "0"}
    assert found["leaderElection"] == {"leaderElect": True}


def test_kueue_reads_its_metrics_certificate_from_the_local_volume() -> None:
    mounts = {"/etc/kueue/metrics/certs": Path("/p/volumes/cert")}
    variables = HOST_PROGRAMS["kueue"].variables(dataclasses.replace(CONTEXT, mounts=mounts))
    assert variables["KUEUE_METRICS_CERTIFICATES"] == "/p/volumes/cert"


def test_other_configuration_files_are_left_alone() -> None:
    assert HOST_PROGRAMS["jobset"].configuration(CONTEXT, "x", "kind: Other\n") == "kind: Other\n"
    assert HOST_PROGRAMS["vc-scheduler"].configuration(CONTEXT, "x", "actions: a\n") == "actions: a\n"


@pytest.mark.parametrize("program", ["jobset", "kueue", "trainyard-controller"])
def test_a_configuration_file_that_is_not_yaml_is_an_error_with_its_name(program: str) -> None:
    with pytest.raises(TrainyardError, match=r"config\.yaml"):
        HOST_PROGRAMS[program].configuration(CONTEXT, "config.yaml", "webhook: [")


def test_the_policy_server_and_the_controller_meet_at_the_clusters_socket() -> None:
    command = HOST_PROGRAMS["opa"].command(
        CONTEXT,
        [
            *("/opa", "run", "--addr=unix:///run/x/opa.sock", "--diagnostic-addr=0.0.0.0:8282"),
            *("--shutdown-wait-period=18", "--bundle", "/l/r"),
        ],
    )
    assert command[:4] == ["/bin/program", "run", "--bundle", "/l/r"]
    assert "--addr=unix:///c/run/opa.sock" in command
    assert f"--diagnostic-addr=127.0.0.1:{PORTS['opa/health']}" in command
    text = yaml.safe_dump(
        {"workers": 3, "policy": {"socket": "/run/x/opa.sock", "bundle": "/certs/r", "revision": "r"}}
    )
    assert yaml.safe_load(HOST_PROGRAMS["trainyard-controller"].configuration(CONTEXT, "config.yaml", text)) == {
        "workers": 3,
        "policy": {"socket": "/c/run/opa.sock", "bundle": "/p/volumes/other/r", "revision": "r"},
    }


def test_a_socket_whose_path_is_too_long_for_the_system_is_refused_with_what_to_do() -> None:
    deep = dataclasses.replace(CONTEXT, sockets=Path("/d" * 60))
    with pytest.raises(TrainyardError, match="longer than 103 bytes") as caught:
        HOST_PROGRAMS["opa"].command(deep, ["/opa", "run"])
    assert "TRAINYARD_STATE_HOME" in caught.value.fix
