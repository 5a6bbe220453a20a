"""Policies for a test run: the generated ones under names and parameter kinds of their own.

They match only objects that carry the labels of the run: whatever else is installed neither judges the cases nor is
disturbed by them. The policy itself must say so, not only its bindings, because one whose parameter kind is gone
denies all that it matches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.policy.rule import ParameterSource
from trainyard.settings.platform import PolicyState

__all__ = ["ADMISSION", "DOMAIN", "PLURALS", "Placed", "Scratch"]

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
DOMAIN: Final = "policy-test.trainyard.dev"
PLURALS: Final = {ParameterSource.TENANT_POLICY: "tenantpolicies", ParameterSource.PLATFORM: "platforms"}

Placed = tuple[str, Mapping[str, Any]]
"""The path of a collection and an object to create in it."""

_RUN, _RULE, _PLATFORM = (f"{DOMAIN}/{name}" for name in ("run", "rule", "platform"))
_VERSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Scratch:
    """The objects of one run.

    Parameters
    ----------
    run
        Name of the run; no other run has it.
    kinds
        Name of the run that made the kinds of the parameters; this one where it is empty. The API server takes half a
        minute to learn of new ones.
    """

    run: str
    kinds: str = ""

    @property
    def group(self) -> str:
        """API group of the parameters."""
        return f"{self.kinds or self.run}.{DOMAIN}"

    @property
    def users(self) -> str:
        """Group that the users of the cases belong to."""
        return f"{DOMAIN}:{self.run}"

    def labels(self, rule_id: str, variant: str) -> dict[str, str]:
        """Return the labels that put an object under test by one rule."""
        return {_RUN: self.run, _RULE: rule_id, _PLATFORM: variant}

    def probe_labels(self, source: ParameterSource) -> dict[str, str]:
        """Return the labels of an object that a sentinel denies once it is active."""
        return {_RUN: f"{self.run}-{source.value}"}

    def parameter(self, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return a parameter object."""
        return {"apiVersion": f"{self.group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}

    def definitions(self) -> list[Placed]:
        """Return the kinds of the parameters."""
        spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        placed: list[Placed] = []
        for source, scope in ((ParameterSource.TENANT_POLICY, "Namespaced"), (ParameterSource.PLATFORM, "Cluster")):
            kind, plural = source.value, PLURALS[source]
            body = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{self.group}"},
                "spec": {
                    "group": self.group,
                    "scope": scope,
                    "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
                    "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
                },
            }
            placed.append(("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body))
        return placed

    def role(self, grants: Sequence[Mapping[str, Any]]) -> list[Placed]:
        """Return what lets the users of the cases make their requests."""
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
        """Return a generated policy under a name of this run."""
        policy = copy.deepcopy(dict(manifest))
        policy["metadata"] = {"name": f"{self.run}.{manifest['metadata']['name']}"}
        policy["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {_RUN: self.run}}
        if "paramKind" in policy["spec"]:
            policy["spec"]["paramKind"]["apiVersion"] = f"{self.group}/v1alpha1"
        return policy

    def bindings(
        self, manifest: Mapping[str, Any], rule_id: str, state: PolicyState, variants: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Return a generated binding once for each platform and action.

        Warn, because a warning is given for every violation; Deny, because that is what must hold, though the API
        server reports only its first denial.
        """
        reads_platform = manifest["spec"].get("paramRef", {}).get("name") == "platform"
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
                if "paramRef" in spec and action == "Warn":
                    spec["paramRef"]["parameterNotFoundAction"] = "Allow"
                if reads_platform:
                    spec["paramRef"]["name"] = variant
                    labels[_PLATFORM] = variant
                spec["matchResources"]["objectSelector"] = {"matchLabels": labels}
                yield binding

    def sentinel(self, source: ParameterSource) -> list[Placed]:
        """Return a policy to be made last: once it answers, the others and their parameters are active too."""
        name = f"{self.run}.sentinel-{source.value.lower()}.{DOMAIN}"
        selector = {"matchLabels": self.probe_labels(source)}
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
        if source is not ParameterSource.NONE:
            policy["spec"]["paramKind"] = {"apiVersion": f"{self.group}/v1alpha1", "kind": source.value}
            binding["spec"]["paramRef"] = {"name": "absent", "parameterNotFoundAction": "Deny"}
        return [
            (f"{ADMISSION}/validatingadmissionpolicies", policy),
            (f"{ADMISSION}/validatingadmissionpolicybindings", binding),
        ]
