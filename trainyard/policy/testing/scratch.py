"""Scratch policies of a test run: the generated policies under unique names.

They match only objects with the labels of the run, so that test run and installed policies do not affect each other.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.settings.platform import PolicyState

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
DOMAIN: Final = "policy-test.trainyard.dev"

Placed = tuple[str, Mapping[str, Any]]
"""The path of a collection and an object to create in it."""

_RUN, _RULE, _PLATFORM = (f"{DOMAIN}/{name}" for name in ("run", "rule", "platform"))
_VERSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Scratch:
    """Builds the objects of one test run.

    Parameters
    ----------
    run
        Unique name of the run.
    """

    run: str

    @property
    def users(self) -> str:
        """Group of the users of all cases."""
        return f"{DOMAIN}:{self.run}"

    def labels(self, rule_id: str, variant: str) -> dict[str, str]:
        """Return the labels of an object under test by one rule."""
        return {_RUN: self.run, _RULE: rule_id, _PLATFORM: variant}

    @property
    def probe_labels(self) -> dict[str, str]:
        """Labels of an object that the active sentinel rejects."""
        return {_RUN: f"{self.run}-probe"}

    def namespace(self, name: str, facts: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Placed:
        """Return a namespace with the facts of a TenantPolicy or a Platform."""
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(facts)}
        return "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def role(self, grants: Sequence[Mapping[str, Any]]) -> list[Placed]:
        """Return the ClusterRole and its binding for the users of the cases."""
        api = "rbac.authorization.k8s.io"
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": self.run}
        subject = {"apiGroup": api, "kind": "Group", "name": self.users}
        common = {"apiVersion": f"{api}/v1", "metadata": {"name": self.run}}
        return [
            (f"/apis/{api}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": list(grants)}),
            (
                f"/apis/{api}/v1/clusterrolebindings",
                {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
            ),
        ]

    def policy(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return a generated policy, renamed for this run."""
        policy = copy.deepcopy(dict(manifest))
        policy["metadata"] = {"name": f"{self.run}.{manifest['metadata']['name']}"}
        policy["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {_RUN: self.run}}
        return policy

    def bindings(
        self, manifest: Mapping[str, Any], rule_id: str, state: PolicyState, variants: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield a generated binding per platform and action.

        Warn reports every violation; Deny is the enforced action, but the API server reports only the first denial.
        """
        reads_platform = "paramRef" in manifest["spec"]
        for variant in variants if reads_platform else ("",):
            for action in ("Warn", "Deny") if state is PolicyState.DENY else ("Warn",):
                binding = copy.deepcopy(dict(manifest))
                name = ".".join(
                    part for part in (self.run, variant, action.lower(), manifest["metadata"]["name"]) if part
                )
                binding["metadata"] = {"name": name}
                spec = binding["spec"]
                spec["policyName"] = f"{self.run}.{spec['policyName']}"
                spec["validationActions"] = [action]
                labels = {_RUN: self.run, _RULE: rule_id}
                if reads_platform:
                    spec["paramRef"]["name"] = variant
                    labels[_PLATFORM] = variant
                spec["matchResources"]["objectSelector"] = {"matchLabels": labels}
                yield binding

    def sentinel(self) -> list[Placed]:
        """Return the policy to create last: when it is active, all others are too."""
        name = f"{self.run}.sentinel.{DOMAIN}"
        selector = {"matchLabels": self.probe_labels}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        policy: dict[str, Any] = {
            "apiVersion": _VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "objectSelector": selector},
                "validations": [{"expression": "false"}],
            },
        }
        binding: dict[str, Any] = {
            "apiVersion": _VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"objectSelector": selector},
            },
        }
        return [
            (f"{ADMISSION}/validatingadmissionpolicies", policy),
            (f"{ADMISSION}/validatingadmissionpolicybindings", binding),
        ]
