"""RBAC rules of the controller: least privilege, and Secrets only in namespaces that grant them.

Upstream fixed the names of the Secrets with the keys of MPI and Flux jobs, so RBAC can restrict them only by namespace.
In namespaces that bind `KEYS_ROLE`, the controller may create such a Secret, and read its metadata to check its owner.
``patch`` or ``delete`` with a uid as precondition could check the owner too, but both grant more than ``get``: the
response to a patch contains the values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trainyard.controller.configuration import Configuration
from trainyard.controller.resources import GANG_OBJECTS

KEYS_ROLE = "kubeflow-trainer-job-keys"
"""ClusterRole that a namespace binds to allow the keys of MPI and Flux jobs."""

_READ = ["get", "list", "watch"]
_FORBIDDEN = re.compile(r'User "([^"]+)" cannot \w+ resource "secrets"')
_ACCOUNT = "system:serviceaccount:"


def cluster_rules(configuration: Configuration | None = None) -> list[dict[str, Any]]:
    """Return the rules of the controller's ClusterRole.

    Parameters
    ----------
    configuration
        Lists the webhook configurations that get a caBundle; None: no webhook configurations.
    """
    rules = [
        _rule("trainer.kubeflow.org", ["trainjobs", "trainingruntimes", "clustertrainingruntimes"], _READ),
        _rule("trainer.kubeflow.org", ["trainjobs/status"], ["patch"]),
        # Removes a finalizer of upstream v2.2 and earlier from runtimes.
        _rule("trainer.kubeflow.org", ["trainingruntimes", "clustertrainingruntimes"], ["patch"]),
        # OwnerReferencesPermissionEnforcement requires this for owner references with blockOwnerDeletion.
        _rule("trainer.kubeflow.org", ["trainjobs/finalizers"], ["update"]),
        _rule("trainyard.dev", ["tenantpolicies", "platforms"], _READ),
        _rule("jobset.x-k8s.io", ["jobsets"], [*_READ, "create", "patch", "delete"]),
        # Dry runs of the Jobs of a JobSet. RBAC cannot restrict it to these; creating JobSets creates Jobs anyway.
        _rule("batch", ["jobs"], ["create"]),
        *_scheduling_rules(),
        _rule("", ["configmaps"], ["get", "create", "patch"]),
        _rule("", ["events"], ["create", "patch"]),
        # Annotations that ValidatingAdmissionPolicies read; any namespace may get a TenantPolicy.
        _rule("", ["namespaces"], [*_READ, "patch"]),
        # Progress reports: the API server verifies the tokens of the reporting pods.
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        # Metrics: the API server says who may read them.
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
    ]
    if configuration is not None and configuration.usage:
        rules.append(_rule("", ["pods"], ["list", "watch"]))
    certificates = configuration.certificates if configuration is not None else ()
    configurations = (
        ("mutatingwebhookconfigurations", {name for c in certificates for name in c.mutating_webhook_configurations}),
        (
            "validatingwebhookconfigurations",
            {name for c in certificates for name in c.validating_webhook_configurations},
        ),
    )
    rules += [_rule("admissionregistration.k8s.io", [plural], _READ) for plural, _ in configurations]
    rules += [
        _rule("admissionregistration.k8s.io", [plural], ["patch"], sorted(names))
        for plural, names in configurations
        if names
    ]
    return rules


def key_rules() -> list[dict[str, Any]]:
    """Return the rules of `KEYS_ROLE`."""
    return [_rule("", ["secrets"], ["get", "create"])]


def keys_fix(namespace: str, message: str) -> str | None:
    """Return the fix for a namespace that does not grant the controller access to the Secrets of its jobs.

    Parameters
    ----------
    namespace
        Namespace of the job.
    message
        Message of the API server (403). It names the user if no Role allows the request. Quotas and webhooks reject
        with 403 too; for them the fix is None.
    """
    found = _FORBIDDEN.search(message)
    if found is None:
        return None
    user = found[1]
    account = user.removeprefix(_ACCOUNT)
    subject = f"--user={user}" if account == user else f"--serviceaccount={account}"
    command = f"kubectl create rolebinding {KEYS_ROLE} --namespace={namespace} --clusterrole={KEYS_ROLE} {subject}"
    return f"Allow the controller to create keys in this namespace: {command}"


def namespaced_rules(namespace: str, configuration: Configuration | None = None) -> list[dict[str, Any]]:
    """Return the rules of the controller's Role in a namespace: Lease, Commands, certificates and their servers."""
    settings = configuration or Configuration(namespace=namespace)
    rules: list[dict[str, Any]] = []
    secrets = {certificate.secret for certificate in settings.certificates if certificate.namespace == namespace}
    if namespace == settings.namespace:
        secrets |= {settings.authority_secret, settings.serving_secret}
        lease = settings.leader_election.lease
        rules.append(_rule("coordination.k8s.io", ["leases"], ["create"]))
        rules.append(_rule("coordination.k8s.io", ["leases"], ["get", "update"], [lease]))
        rules.append(_rule("bus.volcano.sh", ["commands"], ["get", "create"]))
        if settings.usage:
            rules.append(_rule("", ["configmaps"], ["list", "delete"]))
    restarted = {each.deployment for each in settings.certificates if each.namespace == namespace and each.deployment}
    if restarted:
        rules.append(_rule("apps", ["deployments"], ["get", "patch"], sorted(restarted)))
    if secrets:
        rules.append(_rule("", ["secrets"], [*_READ, "create", "patch"], sorted(secrets)))
    return rules


def _scheduling_rules() -> list[dict[str, Any]]:
    """Return the rules for queues and for the objects that describe gangs, by group."""
    rules = [_rule("scheduling.volcano.sh", ["queues"], [*_READ, "patch"])]
    rules += [_rule(each.group, [each.plural], [*_READ, "create", "patch", "delete"]) for each in GANG_OBJECTS]
    return sorted(rules, key=lambda rule: (rule["apiGroups"], rule["resources"]))


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule
