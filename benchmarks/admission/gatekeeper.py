"""Gatekeeper on a plane: its kinds, the generated templates and constraints, one webhook process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from benchmarks.admission.scene import SYSTEM_NAMESPACES, Body, apply, resource_of
from benchmarks.admission.servers import Machine, Plane, awaited, program
from benchmarks.admission.templates import gatekeeper_objects, webhook_rules
from trainyard.data import project_root
from trainyard.local.cluster.go import find_go
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.settings.platform import PolicySettings

GROUP, MODULE = "gatekeeper", "github.com/open-policy-agent/gatekeeper/v3"
_NAMESPACE, _HOST = "gatekeeper-system", "127.0.0.1"
_CRDS = "charts/gatekeeper/crds"
_SYNCHRONIZED = (
    ("trainyard.dev", "v1alpha1", "TenantPolicy"),
    ("trainyard.dev", "v1alpha1", "Platform"),
    ("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime"),
    ("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime"),
)


def run_gatekeeper(machine: Machine, plane: Plane) -> int:
    """Run Gatekeeper with the rules of the catalog; return how many there are."""
    apply(plane, _definitions())
    apply(plane, [_configuration()])
    port, health, metrics = machine.ports(3)
    certificates = plane.folder.root / "gatekeeper-certificates"
    authority = plane.serving_certificate(certificates)
    command = (
        *(program_path("gatekeeper"), f"--kubeconfig={plane.folder.kubeconfig}", f"--host={_HOST}", f"--port={port}"),
        *(f"--cert-dir={certificates}", "--disable-cert-rotation", "--debug-use-fake-pod"),
        *("--operation=webhook", "--operation=generate"),
        *(f"--health-addr={_HOST}:{health}", f"--prometheus-port={metrics}", "--log-level=ERROR"),
        *(f"--exempt-namespace={_NAMESPACE}", "--disable-opa-builtin={http.send}"),
    )
    variables = {"POD_NAME": "gatekeeper", "POD_NAMESPACE": _NAMESPACE}
    machine.run(plane, program(plane, "gatekeeper", command, variables), Probe(health, "/healthz"))
    rules = load_rules()
    templates, constraints = gatekeeper_objects(rules, PolicySettings(), SYSTEM_NAMESPACES)
    apply(plane, templates)
    with plane.session() as session:
        for constraint in constraints:
            path = resource_of(constraint).path()
            awaited(f"{constraint['kind']} is served", lambda path=path: session.request("GET", path).ok)  # type: ignore[misc]
        apply(plane, constraints)
        _await_enforced(session, len(templates), len(constraints))
    awaited("Gatekeeper is ready", lambda: _ready(health))
    apply(plane, [_webhook(port, authority, webhook_rules(rules))])
    return len(constraints)


def _ready(port: int) -> bool:
    from trainyard.local.cluster.health_probes import probe

    return probe(Probe(port, "/readyz")) is None


def _await_enforced(session: Any, templates: int, constraints: int) -> None:
    """Return once the process says of every template and constraint that it holds it, and of none that it is wrong."""

    def statuses(plural: str) -> list[dict[str, Any]]:
        path = f"/apis/status.gatekeeper.sh/v1beta1/namespaces/{_NAMESPACE}/{plural}"
        return [each.get("status", {}) for each in session.request("GET", path).body.get("items", ())]

    def held() -> bool:
        known = statuses("constrainttemplatepodstatuses"), statuses("constraintpodstatuses")
        if wrong := [each["errors"] for found in known for each in found if each.get("errors")]:
            raise SystemExit(f"Gatekeeper refuses what was generated: {wrong[0]}")
        enforced = sum(bool(each.get("enforced")) for each in known[1])
        return len(known[0]) >= templates and enforced >= constraints

    awaited("Gatekeeper has every template and constraint", held)


def _definitions() -> list[Body]:
    go, sources = find_go(), project_root() / "toolchain" / GROUP
    go.run(sources, "mod", "download", MODULE)
    module = Path(go.run(sources, "list", "-m", "-f", "{{.Dir}}", MODULE).strip())
    texts = [file.read_text() for file in sorted((module / _CRDS).glob("*.yaml"))]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [body for text in texts for body in yaml.load_all(text, Loader=loader) if body]


def _configuration() -> Body:
    kinds = [dict(zip(("group", "version", "kind"), each, strict=True)) for each in _SYNCHRONIZED]
    return {
        "apiVersion": "config.gatekeeper.sh/v1alpha1",
        "kind": "Config",
        "metadata": {"name": "config", "namespace": _NAMESPACE},
        "spec": {"sync": {"syncOnly": kinds}},
    }


def _webhook(port: int, authority: str, rules: list[dict[str, Any]]) -> Body:
    webhook = {
        "name": "validation.gatekeeper.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{_HOST}:{port}/v1/admit", "caBundle": authority},
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    name = "gatekeeper-validating-webhook-configuration"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
