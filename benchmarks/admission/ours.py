"""Trainyard's gates on a plane: the API server's own policies, and the controller's webhooks with the policy server."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.admission.scene import SYSTEM_NAMESPACES, Body, apply
from benchmarks.admission.servers import Machine, Plane, awaited, program
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration, Listener, PolicyServer
from trainyard.controller.webhooks import MUTATE_PREFIX, VALIDATE_PREFIX
from trainyard.data import project_root
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.engines.opa.bundle import build_bundle, bundle_files
from trainyard.policy.engines.opa.local_server import SOCKET_AUTHORIZATION
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings

_DEFAULTER, _VALIDATOR = "defaulter.trainer.kubeflow.org", "validator.trainer.kubeflow.org"
_ADMISSION = "admissionregistration.k8s.io/v1"
_HOST = "127.0.0.1"


def install_policies(plane: Plane) -> int:
    """Install the ValidatingAdmissionPolicies and their bindings; return how many policies there are."""
    objects = admission_objects(load_rules(), PolicySettings(), SYSTEM_NAMESPACES)
    policies = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    apply(plane, policies)
    apply(plane, (each for each in objects if each["kind"] != "ValidatingAdmissionPolicy"))
    return len(policies)


def run_controller(machine: Machine, plane: Plane, *, policies: bool) -> None:
    """Run the controller with its webhooks, and the policy server that they ask."""
    server = _policy_server(machine, plane) if policies else None
    webhook, health, metrics = machine.ports(3)
    home = plane.folder.root / "controller"
    home.mkdir()
    configuration = Configuration(
        webhook=Listener(host=_HOST, port=webhook),
        health=Listener(host=_HOST, port=health),
        metrics=Listener(host=_HOST, port=metrics),
        policy=server,
        certificates=(
            Certificate(
                secret=SERVING_SECRET,
                namespace="kubeflow-system",
                ip_addresses=(_HOST,),
                mutating_webhook_configurations=(_DEFAULTER,),
                validating_webhook_configurations=(_VALIDATOR,),
            ),
        ),
    )
    (home / "config.yaml").write_text(configuration.as_yaml())
    apply(plane, _webhooks(webhook))
    arguments = [sys.executable, "-m", "trainyard", "controller", "run", "--config", home / "config.yaml"]
    command = [*arguments, "--kubeconfig", plane.folder.kubeconfig, "--log-level", "warning"]
    own = {"PYTHONPATH": str(project_root())}
    machine.run(plane, program(plane, "controller", command, own), Probe(health, "/readyz"))
    with plane.session() as session:
        path = f"/apis/{_ADMISSION}/validatingwebhookconfigurations/{_VALIDATOR}"

        def trusted() -> bool:
            webhooks = session.request("GET", path).body.get("webhooks", ())
            return all(each["clientConfig"].get("caBundle") for each in webhooks)

        awaited("the certificate of the controller's webhooks", trusted)


def _policy_server(machine: Machine, plane: Plane) -> PolicyServer:
    home = plane.folder.root / "opa"
    home.mkdir()
    rules = load_rules()
    bundle = build_bundle(rules=rules)
    bundle.write(home / "rules.tar.gz")
    authorization = bundle_files({"authorization.rego": SOCKET_AUTHORIZATION.encode()}, ["system/authz"])
    authorization.write(home / "authorization.tar.gz")
    socket = home / "opa.sock"
    [health] = machine.ports(1)
    command = (
        *(program_path("opa"), "run", "--server", f"--addr=unix://{socket}", "--unix-socket-perm=600"),
        *(f"--diagnostic-addr={_HOST}:{health}", "--authorization=basic", "--skip-version-check", "--log-level=error"),
        *("--bundle", home / "authorization.tar.gz", home / "rules.tar.gz"),
    )
    machine.run(plane, program(plane, "opa", command), Probe(health, "/health?bundles"))
    return PolicyServer(
        socket=socket,
        bundle=Path(home / "rules.tar.gz"),
        revision=bundle.revision,
        exempt_namespaces=SYSTEM_NAMESPACES,
        told=tuple(rule.id for rule in rules if rule.cel),
    )


def _webhooks(port: int) -> list[Body]:
    validating = [
        _webhook(_VALIDATOR, kind, port, f"{VALIDATE_PREFIX}{kind}")
        for kind in ("clustertrainingruntime", "trainingruntime", "trainjob")
    ]
    mutating = [
        {**_webhook(_DEFAULTER, kind, port, f"{MUTATE_PREFIX}{kind}"), "reinvocationPolicy": "Never"}
        for kind in ("trainjob", "clustertrainingruntime", "trainingruntime")
    ]
    return [
        {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "webhooks": webhooks}
        for kind, name, webhooks in (
            ("ValidatingWebhookConfiguration", _VALIDATOR, validating),
            ("MutatingWebhookConfiguration", _DEFAULTER, mutating),
        )
    ]


def _webhook(configuration: str, kind: str, port: int, path: str) -> Body:
    first, _, rest = configuration.partition(".")
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{kind}s"],
    }
    return {
        "name": f"{first}.{kind}.{rest}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{_HOST}:{port}{path}"},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
