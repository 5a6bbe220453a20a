"""What the controller may do, as RBAC rules: nothing it does not use, and Secrets of jobs are never listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainyard.controller.configuration import Configuration

__all__ = ["cluster_rules", "namespaced_rules"]

_READ = ["get", "list", "watch"]


def cluster_rules(configuration: Configuration | None = None) -> list[dict[str, Any]]:
    """Return the rules of the controller's ClusterRole.

    Parameters
    ----------
    configuration
        Names the webhook configurations that get a caBundle; None: none.
    """
    rules = [
        _rule("trainer.kubeflow.org", ["trainjobs", "trainingruntimes", "clustertrainingruntimes"], _READ),
        _rule("trainer.kubeflow.org", ["trainjobs/status"], ["patch"]),
        # Upstream v2.2 and earlier left a finalizer on runtimes, which is taken off.
        _rule("trainer.kubeflow.org", ["trainingruntimes", "clustertrainingruntimes"], ["patch"]),
        # The garbage collector's admission plug-in asks for this where an owner reference blocks its owner's deletion.
        _rule("trainer.kubeflow.org", ["trainjobs/finalizers"], ["update"]),
        _rule("trainyard.dev", ["tenantpolicies", "platforms"], _READ),
        _rule("jobset.x-k8s.io", ["jobsets"], [*_READ, "create", "patch", "delete"]),
        _rule("scheduling.volcano.sh", ["podgroups"], [*_READ, "create", "patch", "delete"]),
        _rule("scheduling.volcano.sh", ["queues"], [*_READ, "patch"]),
        _rule("scheduling.x-k8s.io", ["podgroups"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["configmaps"], ["get", "create", "patch"]),
        # Keys of MPI and Flux jobs: made once; only metadata is read, to tell a job's own Secret from another's.
        _rule("", ["secrets"], ["get", "create"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("", ["namespaces"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
    ]
    certificates = configuration.certificates if configuration is not None else ()
    wanted = (
        ("mutatingwebhookconfigurations", {name for c in certificates for name in c.mutating_webhook_configurations}),
        (
            "validatingwebhookconfigurations",
            {name for c in certificates for name in c.validating_webhook_configurations},
        ),
    )
    rules += [_rule("admissionregistration.k8s.io", [plural], _READ) for plural, _ in wanted]
    rules += [
        _rule("admissionregistration.k8s.io", [plural], ["patch"], sorted(names)) for plural, names in wanted if names
    ]
    return rules


def namespaced_rules(namespace: str, configuration: Configuration | None = None) -> list[dict[str, Any]]:
    """Return the rules of the controller's Role in one namespace: Lease, Commands and the certificate Secrets there."""
    settings = configuration or Configuration(namespace=namespace)
    rules: list[dict[str, Any]] = []
    secrets = {certificate.secret for certificate in settings.certificates if certificate.namespace == namespace}
    if namespace == settings.namespace:
        secrets |= {settings.authority_secret, settings.serving_secret}
        lease = settings.leader_election.lease
        rules.append(_rule("coordination.k8s.io", ["leases"], ["create"]))
        rules.append(_rule("coordination.k8s.io", ["leases"], ["get", "update"], [lease]))
        rules.append(_rule("bus.volcano.sh", ["commands"], ["get", "create"]))
    if secrets:
        rules.append(_rule("", ["secrets"], [*_READ, "create", "patch"], sorted(secrets)))
    return rules


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule
